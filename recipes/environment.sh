# shellcheck shell=bash disable=SC2034
# Sourced by the recipes: use the active environment if it has the plugin, else .venv of this folder.
# With --dry-run as the first argument, commands are printed instead of run.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DRY_RUN=
if [ "${1:-}" = --dry-run ]; then DRY_RUN=yes; fi
if ! command -v cape-fairseq >/dev/null 2>&1; then
    if [ -z "$DRY_RUN" ] && [ ! -x "$ROOT/.venv/bin/cape-fairseq" ]; then bash "$ROOT/scripts/install.sh"; fi
    PATH=$ROOT/.venv/bin:$PATH
fi
USER_DIR=$ROOT/cape_fairseq
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)}

run() {  # run COMMAND...: run a command, or print it as it can be pasted into a shell
    if [ -z "$DRY_RUN" ]; then "$@"; else echo "${*@Q}"; fi
}

write() {  # write FILE COMMAND...: write the whole output of a command to FILE, unless FILE exists
    local file=$1; shift
    if [ -e "$file" ]; then return; fi
    if [ -n "$DRY_RUN" ]; then echo "${*@Q} > ${file@Q}"; return; fi
    "$@" > "$file.part" || { echo "$file could not be written; see above" >&2; exit 1; }
    mv "$file.part" "$file"
}

tokenize_text() {  # tokenize_text SPLIT LANG: TEXT/SPLIT.LANG in OUT/tok
    local command=(sacremoses -q -l "$2" tokenize -x -a) input=$TEXT/$1.$2 file=$OUT/tok/$1.$2
    if [ -e "$file" ]; then return; fi
    if [ -z "$DRY_RUN" ]; then write "$file" "${command[@]}" < "$input"; else echo "${command[*]@Q} < ${input@Q} > ${file@Q}"; fi
}

learn_bpe() {  # learn_bpe MERGES: joint codes of OUT/tok/train
    [ -e "$OUT/bpecodes" ] || { run subword-nmt learn-joint-bpe-and-vocab --input "$OUT/tok/train.$SRC" "$OUT/tok/train.$TGT" -s "$1" \
        -o "$OUT/bpecodes.part" --write-vocabulary "$OUT/vocab.$SRC" "$OUT/vocab.$TGT"; run mv "$OUT/bpecodes.part" "$OUT/bpecodes"; }
}

apply_bpe() {  # [SUFFIX=.all] apply_bpe SPLIT...: subwords in OUT/bpe/SPLIT.all.LANG
    local split lang
    for split in "$@"; do
        for lang in $SRC $TGT; do
            write "$OUT/bpe/$split${SUFFIX:-}.$lang" subword-nmt apply-bpe -c "$OUT/bpecodes" --input "$OUT/tok/$split.$lang"
        done
    done
}

binarize() {  # binarize TEST...: OUT/data-bin with a joined dictionary, and the documents of TEXT
    local tests file; tests=$(printf ",$OUT/bpe/%s" "$@")
    [ -e "$OUT/data-bin/done" ] || { run rm -rf "$OUT/data-bin"; run fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" \
        --joined-dictionary --trainpref "$OUT/bpe/train" --validpref "$OUT/bpe/valid" --testpref "${tests#,}" --destdir "$OUT/data-bin" \
        --workers "${WORKERS:-1}"
        run cp "$OUT/bpecodes" "$OUT/data-bin/"; run touch "$OUT/data-bin/done"; }
    for file in "$TEXT"/*.documents; do [ ! -e "$file" ] || run cp "$file" "$OUT/data-bin/"; done
}

prepare_text() {  # prepare_text MERGES: OUT/data-bin of TEXT/{train,valid,test}.{$SRC,$TGT}
    local split lang
    run mkdir -p "$OUT/tok" "$OUT/bpe"
    for split in train valid test; do
        for lang in "$SRC" "$TGT"; do tokenize_text "$split" "$lang"; done
    done
    learn_bpe "$1"
    apply_bpe train valid test
    binarize test
}
