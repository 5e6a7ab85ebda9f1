#!/usr/bin/env bash
# Train a model on your own text, translate its test set and score it. TEXT has train.en, train.de,
# valid.en and so on, one sentence per line. The same command continues after an interruption.
#
#   TEXT=DIR [SRC=en] [TGT=de] [ARCH=rope_cross_transformer_tiny] [OUT=runs/mine]
#       recipes/train.sh [--dry-run] [-- OPTIONS]
#
# BPE=sentencepiece segments raw text into MERGES pieces, for scripts without spaces, such as Chinese.
# Also MERGES (4000), LR, UPDATES and WARMUP (4e-3, 3000 and 500 for _tiny, else 5e-4, 30000 and 4000) and
# SEED (1). Options of fairseq-train follow --, for instance
# recipes/train.sh -- --dropout 0.3 --adam-betas '(0.9, 0.997)'; plain words may stand in EXTRA, too.
# Messages of fairseq are in the *.log files of OUT; VERBOSE=1 shows them, too. To prepare the data alone, run the first
# commands that --dry-run prints. For documents see recipes/documents.sh.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

need TEXT "give the folder of your text: TEXT=DIR recipes/train.sh"
TEXT=${TEXT%/}
SRC=${SRC:-en} TGT=${TGT:-de}
ARCH=${ARCH:-rope_cross_transformer_tiny}
OUT=${OUT:-runs/mine}
MERGES=${MERGES:-4000}
case $ARCH in  # small models need a larger learning rate, and reach it sooner
    *_tiny) LR=${LR:-4e-3} WARMUP=${WARMUP:-500} UPDATES=${UPDATES:-3000} ;;
    *) LR=${LR:-5e-4} WARMUP=${WARMUP:-4000} UPDATES=${UPDATES:-30000} ;;
esac
SEED=${SEED:-1}
check_counts 1 MERGES UPDATES WARMUP
read_options "$@"
check_arch "$ARCH"
SAVE=$OUT/$ARCH DATA=$OUT/data-bin

# 1. Tokenization, byte-pair encoding and binarization (recipes/environment.sh).
for split in train valid test; do same_lines "$TEXT/$split.$SRC" "$TEXT/$split.$TGT"; done
keep_settings "$OUT" "TEXT=$TEXT" "TEXT_CHECKSUM=$(sum_files "$TEXT"/{train,valid,test}.{"$SRC","$TGT"})" \
    "BPE=$BPE" "MERGES=$MERGES" "SRC=$SRC" "TGT=$TGT"
keep_settings "$SAVE" "LR=$LR" "WARMUP=$WARMUP" "SEED=$SEED" "OPTIONS=${OPTIONS[*]}"
prepare_text "$MERGES"

# 2. Training; it resumes from checkpoint_last.pt, also with more UPDATES.
if ! is_trained "$SAVE" "$UPDATES"; then
    fit "$SAVE" "$UPDATES" --arch "$ARCH" --seed "$SEED" --lr "$LR" --warmup-updates "$WARMUP" --max-tokens 4096 \
        --keep-last-epochs 2 --save-interval-updates 500 --keep-interval-updates 1 "${OPTIONS[@]}"
    mark_trained "$SAVE" "$UPDATES" "$SAVE/test.txt" "$SAVE/test.$TGT"
fi
run cp "$DATA/dict.$SRC.txt" "$DATA/dict.$TGT.txt" "$(find_codes)" "$SAVE/"  # for cape-fairseq translate

# 3. Translation and detokenized BLEU.
write "$SAVE/test.txt" fairseq-generate "$DATA" --user-dir "$USER_DIR" --path "$SAVE/checkpoint_best.pt" \
    --beam 4 "${REMOVE_BPE[@]}" "${DETOKENIZE[@]}" --source-lang "$SRC" --target-lang "$TGT" --num-workers 0
if [ -n "$DRY_RUN" ]; then
    echo "grep -a '^D-' ${SAVE@Q}/test.txt | sort -t- -k2,2n | cut -f3 > ${SAVE@Q}/test.$TGT"
else
    write "$SAVE/test.$TGT" print_hypotheses "$SAVE/test.txt"
fi
run sacrebleu "$TEXT/test.$TGT" -i "$SAVE/test.$TGT" -l "$SRC-$TGT" -m bleu chrf -f text -w 2
[ -n "$DRY_RUN" ] || echo "model: $SAVE/checkpoint_best.pt, translations: $SAVE/test.$TGT"
