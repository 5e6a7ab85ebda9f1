#!/usr/bin/env bash
# Evaluate checkpoints on sentences and on stacks of at least STACK target tokens. OUT/report.md has the
# tables and figures. JUNCTION is that of the stacks, comma or none.
#
#   DATA=data-bin [OUT=runs/evaluation] [STACK=300] [JUNCTION=comma] recipes/evaluate.sh [--dry-run] NAME=CHECKPOINT...
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
[ -z "$DRY_RUN" ] || shift

need DATA "give the binarized data: DATA=data-bin recipes/evaluate.sh NAME=CHECKPOINT"
OUT=${OUT:-runs/evaluation} STACK=${STACK:-300} JUNCTION=${JUNCTION:-comma}
check_counts 1 STACK
case $JUNCTION in comma | none) ;; *) stop "JUNCTION is $JUNCTION; give comma or none" ;; esac
[ $# -gt 0 ] || stop "give checkpoints as NAME=CHECKPOINT"
for system in "$@"; do
    case $system in ?*=?*) ;; *) stop "$system must have the form NAME=CHECKPOINT" ;; esac
    [ -n "$DRY_RUN" ] || [ -f "${system#*=}" ] || stop "there is no checkpoint ${system#*=}"
done
[ -n "$DRY_RUN" ] || [ -d "$DATA" ] || stop "there is no folder $DATA"
LANGUAGE=()
for file in "$DATA"/test.*-*.*.idx; do  # test.en-de.de.idx
    pair=${file##*/test.} pair=${pair%%.*}
    if [ -e "$file" ]; then LANGUAGE=(--language "${pair#*-}"); fi
done
run mkdir -p "$OUT"
limits=(--max-source-positions 100000 --max-target-positions 100000 --num-workers 0 --user-dir "$USER_DIR")

choose_remove_bpe "$DATA"
sentences=() stacked=() loss=() swaps=()
for system in "$@"; do
    name=${system%%=*} path=${system#*=}
    one=$OUT/$name
    run mkdir -p "$one"
    # A checkpoint that was trained again is evaluated again.
    if [ -e "$one/settings" ] && [ "$path" -nt "$one/settings" ]; then run rm -f "$one"/*.txt "$one/settings"; fi
    keep_settings "$one" "DATA=$DATA" "DATA_CHECKSUM=$(sum_files "$DATA"/test.* "$DATA"/dict.*)" \
        "CHECKPOINT=$path" "STACK=$STACK" "JUNCTION=$JUNCTION"
    joined=(--task stacked_translation --stack-junction "$JUNCTION" --max-len-a 2 --max-len-b 200)
    if [ -e "$DATA/bpecodes" ]; then joined+=(--bpe subword_nmt --bpe-codes "$DATA/bpecodes"); fi  # "comma" edits words
    stacks=("${joined[@]}" --stack-min-tokens "$STACK") ten=("${joined[@]}" --stack-sentences 10)
    write "$one/stacks.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${stacks[@]}" --beam 4 "${REMOVE_BPE[@]}"
    write "$one/sentences.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" --beam 4 "${REMOVE_BPE[@]}"
    write "$one/swapped.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${ten[@]}" --stack-swap --beam 4 "${REMOVE_BPE[@]}"
    write "$one/original.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${ten[@]}" --beam 4 "${REMOVE_BPE[@]}"
    write "$one/loss.txt" fairseq-generate "$DATA" --path "$path" "${limits[@]}" "${stacks[@]}" --score-reference
    sentences+=("$name=$one/sentences.txt") stacked+=("$name=$one/stacks.txt") loss+=("$name=$one/loss.txt")
    swaps+=("$name=$one/original.txt" "$name.swapped=$one/swapped.txt")
done

report() {
    text "# Evaluation on $DATA" "" "## Sentences, by source length" ""
    run cape-fairseq bleu-by-length "${LANGUAGE[@]}" "${sentences[@]}" --plot "$OUT/bleu_by_length.png"
    text "" "![BLEU by length](bleu_by_length.png)" "" "## Stacks of at least $STACK tokens" ""
    run cape-fairseq compare "${LANGUAGE[@]}" "${stacked[@]}"
    text "" "## Loss by target position" ""
    run cape-fairseq position-loss "${loss[@]}" --plot "$OUT/loss_by_position.png"
    text "" "![Loss by position](loss_by_position.png)" "" "## BLEU of stacks of ten sentences, and with the first moved to the end" ""
    run cape-fairseq compare "${LANGUAGE[@]}" "${swaps[@]}"
    if [ ${#loss[@]} = 2 ]; then
        text "" "## Token wins" ""
        run cape-fairseq token-wins "${loss[@]}" --plot "$OUT/token_wins.png"
        text "" "![Token wins](token_wins.png)"
    fi
}
write_report
