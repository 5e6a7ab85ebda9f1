# What all recipes share. Source it first: strict mode, the environment, steps that are logged, skipped
# when done, and named when they fail, and the settings that are the same for every experiment.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
recipe=$(basename "$0" .sh)
export PATH="$root/.venv/bin:$PATH"
export PYTHONUNBUFFERED=1

say() { printf '%s: %s\n' "$recipe" "$*"; }
die() { printf '%s: %s\n' "$recipe" "$*" >&2; exit 1; }

# usage: print the comment at the head of the recipe.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# install_if_needed [PYTHON]: quick when the environment is complete.
install_if_needed() {
    [ -x "$root/.venv/bin/python" ] && [ $# = 0 ] && set -- "$root/.venv/bin/python"
    bash "$root/scripts/install.sh" "$@" || die "the installation failed; see above"
}

# need_value OPTION VALUE...: an option that takes a value has one.
need_value() { [ $# -ge 2 ] || die "$1 needs a value"; }

# absolute PATH: the same path, valid from every folder.
absolute() { case $1 in /*) printf '%s\n' "$1" ;; *) printf '%s/%s\n' "$PWD" "$1" ;; esac; }

# remember FILE TEXT...: refuse a folder that was made with other settings; mixed results are worthless.
remember() {
    local file=$1; shift
    if [ -f "$file" ] && [ "$(cat "$file")" != "$*" ]; then
        die "$(dirname "$file") was made with other settings ($(cat "$file")) than now ($*); choose another --out, or remove it"
    fi
    mkdir -p "$(dirname "$file")"
    printf '%s\n' "$*" > "$file"
}

# last_line LOG: the newest line of a log that says how far it is, without fairseq's time stamp and columns.
last_line() {
    tr '\r' '\n' < "$1" | grep -E 'epoch [0-9]+|valid on|%\||^[SH]-|[0-9]+ pairs|INFO' | tail -n 1 \
        | sed -E 's/^.*\| INFO \| [a-z_.]+ \| //' | cut -c1-110 | iconv -c -f UTF-8 -t UTF-8  # cut counts bytes
}

trap 'exit 130' INT
trap 'exit 143' TERM HUP

# step NAME LOGDIR COMMAND...: run COMMAND with its output in LOGDIR/NAME.log and a line of news every
# few seconds; skip it if the same command has already succeeded on the same file (inputs=FILE step ...).
# The command's exit status decides. It ends with the recipe, however that is stopped.
step() {
    local name=$1 folder=$2 begin=$SECONDS status=0 job next
    shift 2
    mkdir -p "$folder"
    local log=$folder/$name.log done=$folder/$name.done key=$*
    [ -z "${inputs:-}" ] || key+=" $(cksum "$inputs")"
    if [ -f "$done" ] && [ "$(cat "$done")" = "$key" ]; then
        say "$name: done before"
        return
    fi
    rm -f "$done"
    say "$name ..."
    set -m  # a process group of its own, so that all of it can be stopped
    "$@" > "$log" 2>&1 &
    job=$!
    set +m
    # shellcheck disable=SC2064  # the job's number as it is now
    trap "kill -TERM -- -$job 2>/dev/null && wait $job || true" EXIT  # a training saves before it ends
    next=$((SECONDS + 5))
    while kill -0 "$job" 2>/dev/null; do
        sleep 0.2
        if [ $SECONDS -ge $next ]; then
            printf '%s:   %s, %d s: %s\n' "$recipe" "$name" $((SECONDS - begin)) "$(last_line "$log" || true)"
            next=$((SECONDS + 10))
        fi
    done
    wait "$job" || status=$?
    trap - EXIT
    if [ $status != 0 ]; then
        tail -n 5 "$log" >&2
        die "step '$name' failed (exit status $status); its log is $log"
    fi
    printf '%s\n' "$key" > "$done"
    say "$name: $((SECONDS - begin)) s"
}

# --- settings of every experiment at the _tiny sizes; a recipe may give others after these ---
tiny_training=(
    --optimizer adam --adam-betas '(0.9, 0.98)'
    --lr 4e-3 --lr-scheduler inverse_sqrt --warmup-updates 500 --warmup-init-lr 1e-7
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --dropout 0.1 --max-tokens 4096
)

# Every training: logs that can be read and parsed, checkpoints that are needed, and batches that are
# the same in a resumed run as in an unbroken one.
training=(
    --user-dir "$root/cape_fairseq" --update-epoch-batch-itr True
    --log-format simple --log-interval 20 --no-progress-bar
)
epoch_checkpoints=(--no-epoch-checkpoints)  # a recipe may want them
# Without a GPU, keep freed memory instead of returning it to the system after each step: the scores of
# a batch over the vocabulary are so large that fetching it anew took 17 % of a training step.
device=()
if ! command -v nvidia-smi >/dev/null 2>&1; then
    device=(--cpu)
    export MALLOC_ARENA_MAX=1 MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1
fi

# learn_bpe DIR MERGES SRC TGT: joint BPE over train.SRC and train.TGT of DIR; codes in DIR/codes.
learn_bpe() {
    subword-nmt learn-joint-bpe-and-vocab --input "$1/train.$3" "$1/train.$4" -s "$2" -o "$1/codes.tmp" \
        --write-vocabulary "$1/vocab.$3" "$1/vocab.$4" && mv "$1/codes.tmp" "$1/codes"
}

# apply_bpe DIR FILE...: write DIR/FILE segmented to DIR/bpe.FILE.
apply_bpe() {
    local folder=$1 name; shift
    for name in "$@"; do
        subword-nmt apply-bpe -c "$folder/codes" < "$folder/$name" > "$folder/bpe.$name.tmp" || return
        mv "$folder/bpe.$name.tmp" "$folder/bpe.$name"
    done
}

# prepare_bpe TEXT BIN MERGES SRC TGT TESTS...: joint BPE and binarization of tokenized train, valid and
# TESTS in TEXT to BIN; test sets become test, test1, ... in the order given.
prepare_bpe() {
    local text=$1 bin=$2 merges=$3 src=$4 tgt=$5 split names=() tests=; shift 5
    for split in train valid "$@"; do names+=("$split.$src" "$split.$tgt"); done
    for split in "$@"; do tests+=${tests:+,}$text/bpe.$split; done
    step learn-bpe "$text/logs" learn_bpe "$text" "$merges" "$src" "$tgt"
    step apply-bpe "$text/logs" apply_bpe "$text" "${names[@]}"
    step binarize "$text/logs" binarize "$bin" --source-lang "$src" --target-lang "$tgt" --joined-dictionary \
        --trainpref "$text/bpe.train" --validpref "$text/bpe.valid" --testpref "$tests"
}

# binarize BIN OPTIONS...: fairseq-preprocess into a fresh folder.
binarize() {
    local bin=$1; shift
    rm -rf "$bin"
    fairseq-preprocess --destdir "$bin" --workers "$(nproc)" "$@"
}

# train_model BIN RUN OPTIONS...: train, or go on training, with checkpoints and the log in RUN. A run
# that was killed goes on from its last checkpoint, and so does one with a larger --max-update.
train_model() {
    local bin=$1 run=$2; shift 2
    step train "$run/logs" train_logged "$run/logs/training.log" "$bin" --save-dir "$run/checkpoints" "${training[@]}" \
        "${epoch_checkpoints[@]}" ${device[@]+"${device[@]}"} "$@"
}

# train_logged LOG OPTIONS...: fairseq-train that also appends to LOG, so that a resumed run keeps its past.
train_logged() {
    local log=$1; shift
    fairseq-train "$@" 2>&1 | (trap '' TERM; tee -a "$log")  # so that the last words are logged, too
}

# quickstart_corpus DIR: make, tokenize and binarize the quick start's corpus in DIR/text and DIR/data-bin.
quickstart_corpus() {
    local text=$1/text lang split files
    step corpus "$text/logs" cape-fairseq toy-corpus "$text/raw"
    for lang in en de; do
        files=()
        for split in train valid test test_long; do files+=("$text/raw/$split.$lang" "$text/$split.$lang"); done
        step "tokenize-$lang" "$text/logs" cape-fairseq tokenize "$lang" "${files[@]}"
    done
    prepare_bpe "$text" "$1/data-bin" 1000 en de test test_long
}

# translate BIN RUN SUBSET NAME SRC TGT OPTIONS...: beam search with the best checkpoint, or the one that
# which=NAME names; RUN/NAME.out.
translate() {
    local bin=$1 run=$2 subset=$3 name=$4 src=$5 tgt=$6; shift 6
    fairseq-generate "$bin" --user-dir "$root/cape_fairseq" --path "$run/checkpoints/checkpoint_${which:-best}.pt" \
        --source-lang "$src" --target-lang "$tgt" --gen-subset "$subset" --beam 4 --max-tokens 4096 \
        --remove-bpe --log-format simple ${device[@]+"${device[@]}"} "$@" | tee "$run/$name.out.tmp" || return
    mv "$run/$name.out.tmp" "$run/$name.out"
}
