#!/usr/bin/env bash
# Train three systems on a synthetic English-German corpus, and test them on sentences and on documents of
# three and of ten times the training length. About eight minutes on two cores. The same command continues
# after an interruption.
#
#   recipes/quickstart.sh [--dry-run]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

OUT=${OUT:-runs/quickstart}
SYSTEMS=${SYSTEMS-sinpos cape documents}  # documents: rope_cross with windows of sentences
UPDATES=${UPDATES:-350} MERGES=2000 LENGTH=41

# 1. The corpus: 20,000 sentences of up to 41 tokens.
run mkdir -p "$OUT"
TEXT=$OUT/corpus DATA=$OUT/data-bin
[ -e "$TEXT/test.de" ] || run cape-fairseq synthetic-corpus "$TEXT"
for split in train valid test; do
    for lang in en de; do
        tokenized=$TEXT/$split.tok.$lang
        [ -e "$tokenized" ] || convert "$TEXT/$split.$lang" "$tokenized" sacremoses -q -l "$lang" tokenize -x -a
    done
done

# 2. Byte-pair encoding and binarization.
CODES=$OUT/bpecodes
[ -e "$CODES" ] || { run subword-nmt learn-joint-bpe-and-vocab --input "$TEXT/train.tok.en" "$TEXT/train.tok.de" -s $MERGES \
    -o "$CODES.part" --write-vocabulary "$OUT/vocab.en" "$OUT/vocab.de"; run mv "$CODES.part" "$CODES"; }
for split in train valid test; do
    for lang in en de; do
        bpe=$TEXT/$split.bpe.$lang
        [ -e "$bpe" ] || write "$bpe" subword-nmt apply-bpe -c "$CODES" --input "$TEXT/$split.tok.$lang"
    done
done
[ -e "$DATA/test.en-de.de.idx" ] || { run rm -rf "$DATA"; run fairseq-preprocess --source-lang en --target-lang de --joined-dictionary \
    --trainpref "$TEXT/train.bpe" --validpref "$TEXT/valid.bpe" --testpref "$TEXT/test.bpe" --destdir "$DATA"; }

for system in $SYSTEMS; do
    save=$OUT/$system junction=none options=(--arch "${system}_transformer_tiny")
    [ "$system" != documents ] || { junction=separator options=(--arch rope_cross_transformer_tiny --sentence-context 1
        --task stacked_translation --stack-junction separator --stack-probability 0.5 --stack-max-tokens 133); }
    run mkdir -p "$save"
    # 3. Training; it resumes from checkpoint_last.pt.
    [ -e "$save/trained" ] || run fairseq-train "$DATA" --user-dir "$USER_DIR" --save-dir "$save" "${options[@]}" --source-lang en \
        --target-lang de --seed 1 --criterion label_smoothed_cross_entropy_chunked --label-smoothing 0.1 --fast-dropout --dropout 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr 4e-3 --lr-scheduler inverse_sqrt \
        --warmup-updates 200 --max-tokens 4096 --max-update "$UPDATES" --update-epoch-batch-itr True \
        --save-interval-updates 100 --keep-interval-updates 1 --no-epoch-checkpoints --log-interval 50 --num-workers 0
    run touch "$save/trained"
    # 4. Translation of sentences and documents, and the loss of the reference at every position.
    generate=(fairseq-generate "$DATA" --user-dir "$USER_DIR" --path "$save/checkpoint_best.pt" --beam 4 --remove-bpe --num-workers 0)
    [ -e "$save/1.txt" ] || write "$save/1.txt" "${generate[@]}"
    for times in 3 10; do
        stacks=(--task stacked_translation --stack-junction "$junction" --stack-min-tokens $((times * LENGTH)))
        [ -e "$save/$times.txt" ] || write "$save/$times.txt" "${generate[@]}" "${stacks[@]}"
    done
    [ -e "$save/loss.txt" ] || write "$save/loss.txt" "${generate[@]}" "${stacks[@]}" --score-reference
done

# 5. The results.
[ -n "$SYSTEMS" ] || exit 0
outputs() { for system in $SYSTEMS; do echo "$system=$OUT/$system/$1"; done; }
for times in 1 3 10; do
    mapfile -t files < <(outputs $times.txt)
    echo "texts of the training length x $times:"
    run cape-fairseq compare "${files[@]}"
done
mapfile -t files < <(outputs loss.txt)
run cape-fairseq position-loss "${files[@]}" --bin-size 100 --train-length $LENGTH --plot "$OUT/loss_by_position.png"
