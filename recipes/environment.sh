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

write() {  # write FILE COMMAND...: write the output of a command to FILE, complete or not at all
    local file=$1; shift
    if [ -n "$DRY_RUN" ]; then echo "${*@Q} > ${file@Q}"; return; fi
    "$@" > "$file.part" && mv "$file.part" "$file"
}

convert() {  # convert INPUT FILE COMMAND...: the same from INPUT
    local input=$1 file=$2; shift 2
    if [ -n "$DRY_RUN" ]; then echo "${*@Q} < ${input@Q} > ${file@Q}"; return; fi
    "$@" < "$input" > "$file.part" && mv "$file.part" "$file"
}

prepare_text() {  # prepare_text TEXT OUT MERGES: OUT/data-bin of TEXT/{train,valid,test}.{$SRC,$TGT}
    local text=$1 out=$2 merges=$3 split lang file
    run mkdir -p "$out/tok" "$out/bpe"
    for split in train valid test; do
        for lang in "$SRC" "$TGT"; do
            file=$out/tok/$split.$lang
            [ -e "$file" ] || convert "$text/$split.$lang" "$file" sacremoses -q -l "$lang" tokenize -x -a
        done
    done
    [ -e "$out/bpecodes" ] || { run subword-nmt learn-joint-bpe-and-vocab --input "$out/tok/train.$SRC" "$out/tok/train.$TGT" \
        -s "$merges" -o "$out/bpecodes.part" --write-vocabulary "$out/vocab.$SRC" "$out/vocab.$TGT"; run mv "$out/bpecodes.part" "$out/bpecodes"; }
    for split in train valid test; do
        for lang in "$SRC" "$TGT"; do
            file=$out/bpe/$split.$lang
            [ -e "$file" ] || write "$file" subword-nmt apply-bpe -c "$out/bpecodes" --input "$out/tok/$split.$lang"
        done
    done
    [ -e "$out/data-bin/bpecodes" ] || { run rm -rf "$out/data-bin"; run fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" \
        --joined-dictionary --trainpref "$out/bpe/train" --validpref "$out/bpe/valid" --testpref "$out/bpe/test" --destdir "$out/data-bin"
        run cp "$out/bpecodes" "$out/data-bin/"; }
}
