#!/usr/bin/env bash
# Train three systems on a synthetic English-German corpus, and test them on sentences and on documents of
# three and of ten times the training length. 7 to 18 minutes on two cores. The same command continues
# after an interruption.
#
#   recipes/quickstart.sh [--dry-run]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

OUT=${OUT:-runs/quickstart}
SYSTEMS=${SYSTEMS-sinpos cape documents}  # documents: rope_cross with windows of sentences
UPDATES=${UPDATES:-350} MERGES=2000 LENGTH=41

# 1. The corpus: 20,000 sentences of up to 41 tokens.
TEXT=$OUT/corpus DATA=$OUT/data-bin
export SRC=en TGT=de
run mkdir -p "$OUT"
[ -e "$TEXT/test.de" ] || run cape-fairseq synthetic-corpus "$TEXT"

# 2. Tokenization, byte-pair encoding and binarization (recipes/environment.sh).
prepare_text "$MERGES"

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
    write "$save/1.txt" "${generate[@]}"
    for times in 3 10; do
        stacks=(--task stacked_translation --stack-junction "$junction" --stack-min-tokens $((times * LENGTH)))
        write "$save/$times.txt" "${generate[@]}" "${stacks[@]}"
    done
    write "$save/loss.txt" "${generate[@]}" "${stacks[@]}" --score-reference
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
