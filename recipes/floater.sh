#!/usr/bin/env bash
# The schedule of the FLOATER paper: train a sinusoidal Transformer, fine-tune it as FLOATER at half the learning rate,
# and average its last checkpoints. The plain model is fine-tuned for as long, for comparison.
#
#   DATA=data-bin [SRC=en] [TGT=de] [SIZE=_tiny] [OUT=runs/floater] recipes/floater.sh [--dry-run] [-- OPTIONS]
#
# The first training has UPDATES with the learning rate LR after WARMUP updates, the second MORE with HALF. A
# checkpoint is saved after EVERY updates, and the last five are averaged.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

need DATA "give the binarized data: DATA=data-bin recipes/floater.sh"
SRC=${SRC:-en} TGT=${TGT:-de} SIZE=${SIZE-_tiny} OUT=${OUT:-runs/floater}
LR=${LR:-4e-3} HALF=${HALF:-2e-3} WARMUP=${WARMUP:-500}
UPDATES=${UPDATES:-2000} MORE=${MORE:-700} EVERY=${EVERY:-100}
check_counts 1 WARMUP UPDATES MORE EVERY
[ "$UPDATES" -ge $((5 * EVERY)) ] && [ "$MORE" -ge $((5 * EVERY)) ] \
    || stop "UPDATES is $UPDATES and MORE is $MORE; both must be at least five times EVERY, which is $EVERY"
[ -n "$DRY_RUN" ] || [ -d "$DATA" ] || stop "there is no folder $DATA"
read_options "$@"
choose_remove_bpe "$DATA"
keep_settings "$OUT" "DATA=$DATA" "DATA_CHECKSUM=$(sum_files "$DATA"/*.idx "$DATA"/dict.*)" "SIZE=$SIZE" \
    "LR=$LR" "HALF=$HALF" "WARMUP=$WARMUP" "UPDATES=$UPDATES" "MORE=$MORE" "EVERY=$EVERY" "OPTIONS=${OPTIONS[*]}"

train() {  # train NAME ENCODING LR WARMUP UPDATES [OPTIONS]
    local save=$OUT/$1 encoding=$2 lr=$3 warmup=$4 updates=$5; shift 5
    [ -e "$save/trained" ] || fit "$save" "$updates" --arch "${encoding}_transformer$SIZE" --seed 1 --lr "$lr" \
        --warmup-updates "$warmup" --max-tokens 4096 --no-epoch-checkpoints --save-interval-updates "$EVERY" --keep-interval-updates 5 \
        "$@" "${OPTIONS[@]}"
    run touch "$save/trained"
    [ -e "$save/averaged.pt" ] || quietly "$save/average.log" cape-fairseq average "$save" --last 5 --output "$save/averaged.pt"
    write "$save/test.txt" fairseq-generate "$DATA" --user-dir "$USER_DIR" \
        --path "$save/averaged.pt" --beam 4 --lenpen 0.6 "${REMOVE_BPE[@]}" --num-workers 0
}

# 1. The plain Transformer.
train sinpos sinpos "$LR" "$WARMUP" "$UPDATES"
start=(--finetune-from-model "$OUT/sinpos/checkpoint_best.pt")
# 2. FLOATER from its parameters; and the plain model for as long.
train floater floater "$HALF" 100 "$MORE" "${start[@]}"
train sinpos-longer sinpos "$HALF" 100 "$MORE" "${start[@]}"
# 3. Scores and positions.
run cape-fairseq compare --language "$TGT" "sinpos=$OUT/sinpos/test.txt" "sinpos-longer=$OUT/sinpos-longer/test.txt" \
    "floater=$OUT/floater/test.txt"
run cape-fairseq plot-positions "floater=$OUT/floater/averaged.pt" sinpos --data "$DATA" --plot "$OUT/positions.png"
