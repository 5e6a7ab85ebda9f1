#!/usr/bin/env bash
# Train a document-level model on your own text: a sentence model (recipes/train.sh), then a second training on
# documents with windows of sentences. Then translate the test set document by document and sentence by
# sentence, and print BLEU and the loss by position.
#
#   TEXT=DIR [SRC=en] [TGT=de] [ARCH=rope_cross_transformer_tiny] [OUT=runs/documents] [CONTEXT=1] [TARGET_CONTEXT=0]
#       recipes/documents.sh [--dry-run] [-- OPTIONS]
#
# TEXT is that of recipes/train.sh, and has train.documents, valid.documents and test.documents with the
# name of the document in every line (without them a split is one document). The model sees CONTEXT earlier
# sentences of the source, and TARGET_CONTEXT of its translations. Also BPE, MERGES, LR,
# UPDATES, WARMUP (of the sentence model) and SEED; STACKS, the longest stack in training; LENGTHS, at which test
# documents are cut; and options of
# fairseq-train after -- or in EXTRA, as in recipes/train.sh.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

need TEXT "give the folder of your text: TEXT=DIR recipes/documents.sh"
export TEXT=${TEXT%/} SRC=${SRC:-en} TGT=${TGT:-de}
export ARCH=${ARCH:-rope_cross_transformer_tiny} OUT=${OUT:-runs/documents} SEED=${SEED:-1}
CONTEXT=${CONTEXT:-1} TARGET_CONTEXT=${TARGET_CONTEXT:-0} STACKS=${STACKS:-400} LENGTHS=${LENGTHS:-"300 1000"}
case $ARCH in
    *_tiny) export LR=${LR:-4e-3} UPDATES=${UPDATES:-3000} ;;
    *) export LR=${LR:-5e-4} UPDATES=${UPDATES:-30000} ;;
esac
check_counts 1 UPDATES STACKS
check_counts 0 CONTEXT TARGET_CONTEXT
# shellcheck disable=SC2034  # check_counts reads it by its name
for LENGTH in $LENGTHS; do check_counts 1 LENGTH; done
read_options "$@"
if [[ $ARCH == fire_* ]] && [ "$CONTEXT" -gt 0 ]; then
    stop "ARCH is $ARCH, whose positions restart in every sentence; give CONTEXT=0 or another ARCH"
fi
for split in train valid test; do
    if [ -e "$TEXT/$split.documents" ]; then same_lines "$TEXT/$split.documents" "$TEXT/$split.$SRC"; fi
done
DATA=$OUT/data-bin SENTENCES=$OUT/$ARCH SAVE=$OUT/$ARCH-documents

# 1. The sentence model.
bash "$ROOT/recipes/train.sh" "$@"

# 2. A fifth of the updates on stacks of sentences with separators, with half the learning rate. fairseq's
# multiple of 8 texts would leave a fifth of each batch empty.
MORE=$(((UPDATES + 4) / 5)) HALF=$(awk -v lr="$LR" 'BEGIN { print lr / 2 }')
MORE_WARMUP=$((MORE < 600 ? (MORE + 5) / 6 : 100))  # a sixth of the updates, at most 100
keep_settings "$SAVE" "CONTEXT=$CONTEXT" "TARGET_CONTEXT=$TARGET_CONTEXT" "STACKS=$STACKS" \
    "DOCUMENTS_CHECKSUM=$(sum_files "$TEXT"/{train,valid,test}.documents)" "LR=$LR" "SEED=$SEED" "OPTIONS=${OPTIONS[*]}" \
    "DETOKENIZE=${DETOKENIZE[*]}"
if [ -z "$DRY_RUN" ]; then
    if [ -e "$SAVE/sentence_updates" ] && ! cmp -s "$SENTENCES/trained" "$SAVE/sentence_updates"; then
        echo "the sentence model has $(cat "$SENTENCES/trained") updates now, so the training on documents begins again"
        rm -f "$SAVE"/checkpoint*.pt "$SAVE/trained"
    fi
    cp "$SENTENCES/trained" "$SAVE/sentence_updates"
fi
if ! is_trained "$SAVE" "$MORE"; then
    fit "$SAVE" "$MORE" --arch "$ARCH" --finetune-from-model "$SENTENCES/checkpoint_best.pt" \
        --sentence-context "$CONTEXT" --target-context "$TARGET_CONTEXT" --task stacked_translation --stack-junction separator --stack-probability 0.5 \
        --stack-max-tokens "$STACKS" --required-batch-size-multiple 1 --seed "$SEED" --lr "$HALF" --warmup-updates "$MORE_WARMUP" --max-tokens 4096 \
        --keep-last-epochs 2 --save-interval-updates 500 --keep-interval-updates 1 "${OPTIONS[@]}"
    mark_trained "$SAVE" "$MORE" "$SAVE"/[0-9]*.txt "$SAVE"/loss*.txt
fi
run cp "$DATA/dict.$SRC.txt" "$DATA/dict.$TGT.txt" "$(find_codes)" "$SAVE/"  # for cape-fairseq translate

# 3. Documents, cut after so many target tokens, with context and (N = 0) sentence by sentence.
generate=(fairseq-generate "$DATA" --user-dir "$USER_DIR" --path "$SAVE/checkpoint_best.pt"
    --source-lang "$SRC" --target-lang "$TGT" --task stacked_translation --stack-junction separator --beam 4
    "${REMOVE_BPE[@]}" "${DETOKENIZE[@]}" --num-workers 0)
for length in $LENGTHS; do
    stacks=(--stack-min-tokens "$length" --stack-keep-rest)
    write "$SAVE/$length.txt" "${generate[@]}" "${stacks[@]}"
    write "$SAVE/$length.sentences.txt" "${generate[@]}" "${stacks[@]}" \
        --model-overrides "{'sentence_context': 0, 'sentence_cross_context': 0}"
    run echo "documents, cut after $length tokens:"
    run cape-fairseq compare --language "$TGT" "documents=$SAVE/$length.txt" "sentences=$SAVE/$length.sentences.txt"
done
write "$SAVE/loss.$length.txt" "${generate[@]}" "${stacks[@]}" --score-reference
run cape-fairseq position-loss "documents=$SAVE/loss.$length.txt" --bin-size 100 --plot "$SAVE/loss_by_position.png"
