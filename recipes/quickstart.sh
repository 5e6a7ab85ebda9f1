#!/usr/bin/env bash
# Train three systems on a synthetic English-German corpus and test them on sentences that are longer
# than those of training. About eight minutes on two cores. The same command continues after an
# interruption.
#
#   recipes/quickstart.sh [--dry-run]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

OUT=${OUT:-runs/quickstart}
SYSTEMS=${SYSTEMS-sinpos cape rope_cross}
UPDATES=${UPDATES:-350} MERGES=2000

# 1. The corpus: 20,000 sentences of 1 to 3 clauses; test_long has 5 to 8 clauses.
run mkdir -p "$OUT"
TEXT=$OUT/corpus DATA=$OUT/data-bin
[ -e "$TEXT/test_long.de" ] || run cape-fairseq synthetic-corpus "$TEXT"
for split in train valid test test_long; do
    for lang in en de; do
        tokenized=$TEXT/$split.tok.$lang
        [ -e "$tokenized" ] || convert "$TEXT/$split.$lang" "$tokenized" sacremoses -q -l "$lang" tokenize -x -a
    done
done

# 2. Byte-pair encoding and binarization.
CODES=$OUT/bpecodes
[ -e "$CODES" ] || { run subword-nmt learn-joint-bpe-and-vocab --input "$TEXT/train.tok.en" "$TEXT/train.tok.de" -s $MERGES \
    -o "$CODES.part" --write-vocabulary "$OUT/vocab.en" "$OUT/vocab.de"; run mv "$CODES.part" "$CODES"; }
for split in train valid test test_long; do
    for lang in en de; do
        bpe=$TEXT/$split.bpe.$lang
        [ -e "$bpe" ] || write "$bpe" subword-nmt apply-bpe -c "$CODES" --input "$TEXT/$split.tok.$lang"
    done
done
[ -e "$DATA/test1.en-de.de.idx" ] || { run rm -rf "$DATA"; run fairseq-preprocess --source-lang en --target-lang de \
    --joined-dictionary --trainpref "$TEXT/train.bpe" --validpref "$TEXT/valid.bpe" \
    --testpref "$TEXT/test.bpe,$TEXT/test_long.bpe" --destdir "$DATA"; }

for system in $SYSTEMS; do
    save=$OUT/$system
    run mkdir -p "$save"
    # 3. Training; it resumes from checkpoint_last.pt.
    [ -e "$save/trained" ] || run fairseq-train "$DATA" --user-dir "$USER_DIR" --save-dir "$save" \
        --arch "${system}_transformer_tiny" --source-lang en --target-lang de --seed 1 \
        --criterion label_smoothed_cross_entropy_chunked --label-smoothing 0.1 --dropout 0.1 \
        --optimizer fused_adam --adam-betas '(0.9, 0.98)' --lr 4e-3 --lr-scheduler inverse_sqrt \
        --warmup-updates 200 --max-tokens 4096 --max-update "$UPDATES" --update-epoch-batch-itr True \
        --save-interval-updates 100 --keep-interval-updates 1 --no-epoch-checkpoints --log-interval 50 --num-workers 0
    run touch "$save/trained"
    # 4. Translation, and the loss of the reference at every position.
    for subset in test test1; do
        output=$save/$subset.txt
        [ -e "$output" ] || write "$output" fairseq-generate "$DATA" --user-dir "$USER_DIR" \
            --path "$save/checkpoint_best.pt" --gen-subset $subset --beam 4 --max-len-b 400 --remove-bpe --num-workers 0
    done
    [ -e "$save/loss.txt" ] || write "$save/loss.txt" fairseq-generate "$DATA" --user-dir "$USER_DIR" \
        --path "$save/checkpoint_best.pt" --gen-subset test1 --score-reference --num-workers 0
done

# 5. The results.
[ -n "$SYSTEMS" ] || exit 0
outputs() { for system in $SYSTEMS; do echo "$system=$OUT/$system/$1"; done; }
mapfile -t test < <(outputs test.txt)
mapfile -t test_long < <(outputs test1.txt)
mapfile -t loss < <(outputs loss.txt)
echo "test (sentences as in training):"
run cape-fairseq compare "${test[@]}"
echo "test_long (three times as long):"
run cape-fairseq compare "${test_long[@]}"
run cape-fairseq position-loss "${loss[@]}" --bin-size 40 --train-length 41 --plot "$OUT/loss_by_position.png"
