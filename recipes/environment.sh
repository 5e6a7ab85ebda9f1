# shellcheck shell=bash disable=SC2034
# Sourced by the recipes: use the active environment if it has the plugin, else .venv of this folder.
# With --dry-run as the first argument, commands are printed instead of run; with --help, the recipe's first lines.
case ${1:-} in -h | --help) sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$0"; exit ;; esac
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DRY_RUN=
if [ "${1:-}" = --dry-run ]; then DRY_RUN=yes; fi
if ! command -v cape-fairseq >/dev/null 2>&1; then
    if [ -z "$DRY_RUN" ] && [ ! -x "$ROOT/.venv/bin/cape-fairseq" ]; then
        echo "installing into $ROOT/.venv; see README.md for other environments" >&2
        bash "$ROOT/scripts/install.sh"
    fi
    PATH=$ROOT/.venv/bin:$PATH
fi
source "$ROOT/recipes/report.sh"
PROGRESS=()
USER_DIR=${USER_DIR:-$ROOT/cape_fairseq}  # or a folder with encodings of your own (docs/development.md)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)}
# Subwords: subword_nmt on Moses' tokens, or sentencepiece on raw text, for scripts without spaces.
BPE=${BPE:-subword_nmt}
python3 "$ROOT/recipes/check_names.py"
case $BPE in
    subword_nmt) REMOVE_BPE=(--remove-bpe) DETOKENIZE=(--tokenizer moses_quotes) ;;
    sentencepiece) REMOVE_BPE=(--remove-bpe=sentencepiece) DETOKENIZE=() ;;
    *) echo "${0##*/}: BPE is $BPE; give subword_nmt or sentencepiece" >&2; exit 1 ;;
esac
export LC_ALL=C.UTF-8  # letters are letters, also in containers and batch jobs

stop() {  # stop MESSAGE...: print a message and end
    echo "${0##*/}: $*" >&2
    exit 1
}

say() {  # say MESSAGE...: tell what comes next
    [ -n "$DRY_RUN" ] || echo "$*" >&2
}

stop_after() {  # stop_after LOG MESSAGE...: stop, with the last lines of a log
    local log=$1; shift
    if [ -f "$log" ]; then (grep -av '^ ' "$log" || true) | tail -n 3 | cut -c1-500 >&2; fi  # no lines of a traceback
    stop "$*; see $log"
}

quietly() {  # quietly LOG COMMAND...: run a command with its messages in LOG (recipes/keep_log.py)
    local log=$1; shift
    if [ -n "$DRY_RUN" ]; then run "$@"; return; fi
    mkdir -p "$(dirname "$log")"
    "$@" 2>&1 | python "$ROOT/recipes/keep_log.py" "$log" "${PROGRESS[@]}" || stop_after "$log" "${1##*/} failed"
}

fit() {  # fit SAVE UPDATES OPTIONS...: train on DATA; it resumes from checkpoint_last.pt
    local save=$1 updates=$2 PROGRESS; shift 2
    PROGRESS=("${save#"$OUT"/}" "$updates")
    run mkdir -p "$save"
    quietly "$save/train.log" fairseq-train "$DATA" --user-dir "$USER_DIR" --save-dir "$save" \
        --source-lang "$SRC" --target-lang "$TGT" --criterion label_smoothed_cross_entropy_chunked --label-smoothing 0.1 --fast-dropout --dropout 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt --max-update "$updates" \
        --update-epoch-batch-itr True --num-workers 0 "$@"
}

need() {  # need NAME TEXT: stop unless the setting NAME is given
    [ -n "${!1:-}" ] || stop "$1 is not given; $2"
}

check_arch() {  # check_arch NAME...: stop unless there are these architectures
    local missing
    if [ -n "$DRY_RUN" ]; then return; fi
    missing=$(python -c 'import argparse, contextlib, sys
with contextlib.redirect_stdout(sys.stderr):
    from fairseq import utils
    utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
from fairseq.models import ARCH_MODEL_REGISTRY
print(*(name for name in sys.argv[2:] if name not in ARCH_MODEL_REGISTRY))' "$USER_DIR" "$@" 2> /dev/null) || stop "$USER_DIR cannot be imported as --user-dir"
    [ -z "$missing" ] || stop "there is no architecture $missing in $USER_DIR; cape-fairseq encodings lists those of this package"
}

read_options() {  # read_options "$@": OPTIONS of fairseq-train, the words of EXTRA and what follows --
    OPTIONS=()
    case ${EXTRA:-} in
        *[\"\']*) stop "EXTRA has quotes, which are not read; give such options after --: ${0##*/} -- --adam-betas '(0.9, 0.98)'" ;;
    esac
    read -r -d '' -a OPTIONS <<< "${EXTRA:-}" || true  # also of several lines
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        [ "$1" = --dry-run ] || stop "there is no option $1; options of fairseq-train follow --"
        shift
    done
    if [ $# -gt 0 ]; then shift; fi
    OPTIONS+=("$@")
}

write() {  # write FILE COMMAND...: write the whole output of a command to FILE, unless FILE exists
    local file=$1; shift
    if [ -e "$file" ]; then return; fi
    if [ -n "$DRY_RUN" ]; then echo "${*@Q} > ${file@Q}"; return; fi
    "$@" 2>&1 > "$file.part" | python "$ROOT/recipes/keep_log.py" "${file%.*}.log" || stop_after "${file%.*}.log" "$file could not be written"
    grep -a '| WARNING | cape_fairseq' "$file.part" >&2 || true  # fairseq-generate's messages are in its output
    mv "$file.part" "$file"
}

write_report() {  # the output of the function report in OUT/report.md
    if [ -n "$DRY_RUN" ]; then report; return; fi
    report > "$OUT/report.md.part"
    mv "$OUT/report.md.part" "$OUT/report.md"
    cat "$OUT/report.md"
}

same_lines() {  # same_lines FILE FILE...: stop unless all have as many lines
    local file lines
    if [ -n "$DRY_RUN" ]; then return; fi
    for file in "$@"; do [ -e "$file" ] || stop "there is no $file"; done
    lines=$(count_lines "$1")
    for file in "$@"; do
        [ "$(count_lines "$file")" = "$lines" ] \
            || stop "$1 has $lines lines and $file has $(count_lines "$file"); the sides of a text must have as many"
    done
}

clean_text() {  # a line for each line of the input, without breaks and invisible characters, in NFC
    python -m cape_fairseq.data.cleaning
}

repair_breaks() {  # a line for each line of the input, without breaks inside
    python -m cape_fairseq.data.cleaning --breaks
}

count_lines() {  # count_lines FILE: also a last line without an end
    grep -ac '' "$1" || true
}

print_hypotheses() {  # print_hypotheses GENERATED: detokenized translations in the order of the text
    grep -a '^D-' "$1" | sort -t- -k2,2n | cut -f3
}

tokenize_text() {  # tokenize_text SPLIT LANG: TEXT/SPLIT.LANG in OUT/tok; SentencePiece takes it as it is
    local command=(sacremoses -q -l "$2" tokenize -x -a) input=$TEXT/$1.$2 file=$OUT/tok/$1.$2
    if [ "$BPE" = sentencepiece ]; then command=(cat); fi
    if [ -e "$file" ]; then return; fi
    if [ -n "$DRY_RUN" ]; then
        echo "python -m cape_fairseq.data.cleaning < ${input@Q} | ${command[*]@Q} > ${file@Q}"
        return
    fi
    clean_text < "$input" > "$file.clean" || stop "$input could not be read; see above"
    "${command[@]}" < "$file.clean" > "$file.part" || stop "$file could not be written; see above"
    same_lines "$input" "$file.part"
    rm "$file.clean"
    mv "$file.part" "$file"
}

check_counts() {  # check_counts MINIMUM NAME...: stop unless these variables are whole numbers, at least MINIMUM
    local minimum=$1 name; shift
    for name in "$@"; do
        case ${!name} in '' | *[!0-9]* | 0?*) stop "$name is ${!name}; give a whole number" ;; esac
        [ "${!name}" -ge "$minimum" ] || stop "$name is ${!name}; give at least $minimum"
    done
}

reject_settings() {  # reject_settings NAME...: stop if a setting of earlier versions is given
    local name
    for name in "$@"; do
        [ -z "${!name:-}" ] || stop "$name is given, a setting of earlier versions that means nothing any more; leave it out"
    done
}

sum_files() {  # sum_files FILE...: one checksum of those that exist
    local file
    for file in "$@"; do if [ -e "$file" ]; then cksum < "$file"; fi; done | cksum | cut -d' ' -f1
}

keep_settings() {  # keep_settings FOLDER NAME=VALUE...: stop if FOLDER was made with other values
    local folder=$1 settings=("${@:2}") setting before
    settings=("${settings[@]//$'\n'/ }")  # a line each
    if [ -n "$DRY_RUN" ]; then return; fi
    mkdir -p "$folder"
    # Logs, and what a step has not finished, are no results.
    if [ ! -e "$folder/settings" ] || [ -z "$(find "$folder" -type f ! -name settings ! -name '*.log' ! -name '*.part' -print -quit)" ]; then
        printf '%s\n' "${settings[@]}" > "$folder/settings"  # nothing was made yet
    fi
    for setting in "${settings[@]}"; do
        before=$(grep -a "^${setting%%=*}=" "$folder/settings" || true)
        [ "$before" = "$setting" ] \
            || stop "$folder was made with ${before:-no ${setting%%=*}}, not with $setting; give another OUT, or the same settings"
    done
}

is_trained() {  # is_trained SAVE UPDATES: stop if SAVE has more updates than asked for
    local updates=0
    if [ -e "$1/trained" ]; then updates=$(cat "$1/trained"); fi
    [ "${updates:-0}" -le "$2" ] || stop "$1 has $updates updates already; give UPDATES=$updates or more, or another OUT"
    [ "${updates:-0}" = "$2" ]
}

mark_trained() {  # mark_trained SAVE UPDATES OUTPUT...: remember the updates; outputs of fewer are removed
    local save=$1 updates=$2; shift 2
    if [ -n "$DRY_RUN" ]; then return; fi
    rm -f "$@"
    echo "$updates" > "$save/trained"
}

choose_remove_bpe() {  # choose_remove_bpe DATA: REMOVE_BPE of the segmentation that lies beside the data
    if [ -e "$1/sentencepiece.model" ] || [ -e "$1/target.spm" ]; then REMOVE_BPE=(--remove-bpe=sentencepiece); fi
}

find_codes() {  # the file of the subword segmentation
    if [ "$BPE" = sentencepiece ]; then echo "$OUT/sentencepiece.model"; else echo "$OUT/bpecodes"; fi
}

learn_bpe() {  # learn_bpe MERGES: joint codes of OUT/tok/train, or a SentencePiece model of as many pieces
    if [ -e "$(find_codes)" ]; then return; fi
    if [ "$BPE" = sentencepiece ]; then
        quietly "$OUT/prepare.log" python -m cape_fairseq.data.pieces learn "$OUT/learned.model" "$1" \
            "$OUT/tok/train.$SRC" "$OUT/tok/train.$TGT"
        run mv "$OUT/learned.model" "$OUT/sentencepiece.model"
        return
    fi
    quietly "$OUT/prepare.log" subword-nmt learn-joint-bpe-and-vocab -s "$1" \
        --input "$OUT/tok/train.$SRC" "$OUT/tok/train.$TGT" -o "$OUT/bpecodes.part" --write-vocabulary "$OUT/vocab.$SRC" "$OUT/vocab.$TGT"
    run mv "$OUT/bpecodes.part" "$OUT/bpecodes"
}

segment() {  # segment TEXT OUTPUT: subwords of a file
    if [ "$BPE" != sentencepiece ]; then
        write "$2" subword-nmt apply-bpe -c "$OUT/bpecodes" --input "$1"
    elif [ -n "$DRY_RUN" ]; then
        echo "python -m cape_fairseq.data.pieces apply ${OUT@Q}/sentencepiece.model < ${1@Q} > ${2@Q}"
    else
        write "$2" python -m cape_fairseq.data.pieces apply "$OUT/sentencepiece.model" < "$1"
    fi
}

apply_bpe() {  # [SUFFIX=.all] apply_bpe SPLIT...: subwords in OUT/bpe/SPLIT.all.LANG
    local split lang
    for split in "$@"; do
        for lang in $SRC $TGT; do
            segment "$OUT/tok/$split.$lang" "$OUT/bpe/$split${SUFFIX:-}.$lang"
        done
        same_lines "$OUT/tok/$split.$SRC" "$OUT/tok/$split.$TGT" \
            "$OUT/bpe/$split${SUFFIX:-}.$SRC" "$OUT/bpe/$split${SUFFIX:-}.$TGT"
    done
}

binarize() {  # binarize TEST...: OUT/data-bin with a joined dictionary, and the documents of TEXT
    local tests file split before
    tests=$(printf ',%s' "${@/#/$OUT/bpe/}")
    for split in train valid "$@"; do same_lines "$OUT/bpe/$split.$SRC" "$OUT/bpe/$split.$TGT"; done
    before=$(cat "$OUT/data-bin/done" 2> /dev/null || true)  # test sets; nothing if Snakemake wrote it
    if [ -n "$before" ] && [ "$before" != "$*" ]; then run rm "$OUT/data-bin/done"; fi
    if [ ! -e "$OUT/data-bin/done" ]; then
        run rm -rf "$OUT/data-bin"
        quietly "$OUT/prepare.log" fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --joined-dictionary \
            --trainpref "$OUT/bpe/train" --validpref "$OUT/bpe/valid" --testpref "${tests#,}" \
            --destdir "$OUT/data-bin" --workers "${WORKERS:-1}"
        run cp "$(find_codes)" "$OUT/data-bin/"
        if [ -z "$DRY_RUN" ]; then echo "$*" > "$OUT/data-bin/done"; fi
    fi
    for file in "$TEXT"/*.documents; do
        if [ -e "$file" ]; then run cp "$file" "$OUT/data-bin/"; fi
    done
}

prepare_text() {  # prepare_text MERGES: OUT/data-bin of TEXT/{train,valid,test}.{$SRC,$TGT}
    local split lang
    [ -e "$OUT/data-bin/done" ] || say "preparing the text"
    run mkdir -p "$OUT/tok" "$OUT/bpe"
    for split in train valid test; do
        same_lines "$TEXT/$split.$SRC" "$TEXT/$split.$TGT"
        for lang in "$SRC" "$TGT"; do tokenize_text "$split" "$lang"; done
    done
    learn_bpe "$1"
    apply_bpe train valid test
    binarize test
}
