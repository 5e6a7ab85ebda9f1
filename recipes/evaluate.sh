#!/usr/bin/env bash
# Evaluate checkpoints on sentences and on stacks of at least STACK target tokens. OUT/report.md has the
# tables and figures.
#
#   DATA=data-bin [OUT=runs/evaluation] [STACK=300] recipes/evaluate.sh [--dry-run] NAME=CHECKPOINT...
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
[ -z "$DRY_RUN" ] || shift

DATA=${DATA:?give the binarized data: DATA=data-bin recipes/evaluate.sh NAME=CHECKPOINT}
OUT=${OUT:-runs/evaluation} STACK=${STACK:-300} JUNCTION=${JUNCTION:-comma}
[ $# -gt 0 ] || { echo "evaluate: give checkpoints as NAME=CHECKPOINT" >&2; exit 2; }
run mkdir -p "$OUT"
limits=(--max-source-positions 100000 --max-target-positions 100000 --num-workers 0 --user-dir "$USER_DIR")
stacks=(--task stacked_translation --stack-min-tokens "$STACK" --stack-junction "$JUNCTION")
swapped=(--task stacked_translation --stack-sentences 10 --stack-junction "$JUNCTION" --stack-swap)

sentences=() joined=() loss=() swaps=()
for system in "$@"; do
    name=${system%%=*} path=${system#*=}
    one=$OUT/$name
    [ -e "$one.sentences.txt" ] || write "$one.sentences.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" --beam 4 --remove-bpe
    [ -e "$one.stacks.txt" ] || write "$one.stacks.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${stacks[@]}" --beam 4 --remove-bpe
    [ -e "$one.swapped.txt" ] || write "$one.swapped.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${swapped[@]}" --beam 4 --remove-bpe
    [ -e "$one.original.txt" ] || write "$one.original.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${swapped[@]::6}" --beam 4 --remove-bpe
    [ -e "$one.loss.txt" ] || write "$one.loss.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${stacks[@]}" --score-reference
    sentences+=("$name=$one.sentences.txt") joined+=("$name=$one.stacks.txt") loss+=("$name=$one.loss.txt")
    swaps+=("$name=$one.original.txt,$one.swapped.txt")
done

report() {
    echo "# Evaluation on $DATA"
    printf '\n## Sentences, by source length\n\n'
    run cape-fairseq bleu-by-length "${sentences[@]}" --plot "$OUT/bleu_by_length.png"
    printf '\n![BLEU by length](bleu_by_length.png)\n\n## Stacks of at least %s tokens, junction %s\n\n' "$STACK" "$JUNCTION"
    run cape-fairseq compare "${joined[@]}"
    printf '\n## Loss by target position\n\n'
    run cape-fairseq position-loss "${loss[@]}" --plot "$OUT/loss_by_position.png"
    printf '\n![Loss by position](loss_by_position.png)\n\n## BLEU of stacks of ten sentences, and with the first moved to the end\n\n'
    run cape-fairseq shift-invariance --swapped "${swaps[@]}"
    if [ ${#loss[@]} = 2 ]; then
        printf '\n## Token wins\n\n'
        run cape-fairseq token-wins "${loss[@]}" --plot "$OUT/token_wins.png"
        printf '\n![Token wins](token_wins.png)\n'
    fi
}
if [ -n "$DRY_RUN" ]; then report; else report > "$OUT/report.md" && cat "$OUT/report.md"; fi
