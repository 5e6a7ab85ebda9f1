#!/usr/bin/env bash
# Train a model that sees earlier source sentences on your own text: a sentence model (recipes/train.sh), then a second
# training on rows, sentences with up to CONTEXT sentences of their document before them. Print the scores of the
# sentence model, of the same trained as long on sentences, and of rows with and without their context.
#
#   TEXT=DIR [SRC=en] [TGT=de] [ARCH=rope_cross_transformer_tiny] [OUT=runs/documents] [CONTEXT=1]
#       recipes/documents.sh [--dry-run] [-- OPTIONS]
#
# TEXT is that of recipes/train.sh, and has train.documents, valid.documents and test.documents with the
# name of the document in every line (without them a split is one document). Also BPE, MERGES, LR, UPDATES,
# WARMUP (of the sentence model) and SEED; and options of fairseq-train after -- or in EXTRA, as in recipes/train.sh.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

need TEXT "give the folder of your text: TEXT=DIR recipes/documents.sh"
export TEXT=${TEXT%/} SRC=${SRC:-en} TGT=${TGT:-de}
export ARCH=${ARCH:-rope_cross_transformer_tiny} OUT=${OUT:-runs/documents} SEED=${SEED:-1}
CONTEXT=${CONTEXT:-1}
reject_settings TARGET_CONTEXT STACKS LENGTHS
case $ARCH in
    *_tiny) export LR=${LR:-4e-3} UPDATES=${UPDATES:-3000} ;;
    *) export LR=${LR:-5e-4} UPDATES=${UPDATES:-30000} ;;
esac
check_counts 1 UPDATES CONTEXT
read_options "$@"
for split in train valid test; do
    if [ -e "$TEXT/$split.documents" ]; then same_lines "$TEXT/$split.documents" "$TEXT/$split.$SRC"; fi
done
DATA=$OUT/data-bin SENTENCES=$OUT/$ARCH

# 1. The sentence model.
bash "$ROOT/recipes/train.sh" "$@"

# 2. A fifth of the updates on sentences and on rows, with half the learning rate.
MORE=$(((UPDATES + 4) / 5)) HALF=$(awk -v lr="$LR" 'BEGIN { print lr / 2 }')
MORE_WARMUP=$((MORE < 600 ? (MORE + 5) / 6 : 100))  # a sixth of the updates, at most 100

fine_tune() {  # fine_tune SAVE SETTING OPTIONS...: from the sentence model
    local save=$1 setting=$2; shift 2
    keep_settings "$save" "$setting" "DOCUMENTS_CHECKSUM=$(sum_files "$TEXT"/{train,valid,test}.documents)" "LR=$LR" "SEED=$SEED" \
        "OPTIONS=${OPTIONS[*]}" "DETOKENIZE=${DETOKENIZE[*]}"
    if [ -z "$DRY_RUN" ]; then
        if [ -e "$save/sentence_updates" ] && ! cmp -s "$SENTENCES/trained" "$save/sentence_updates"; then
            echo "the sentence model has $(cat "$SENTENCES/trained") updates now, so the second training begins again"
            rm -f "$save"/checkpoint*.pt "$save/trained"
        fi
        cp "$SENTENCES/trained" "$save/sentence_updates"
    fi
    if ! is_trained "$save" "$MORE"; then
        fit "$save" "$MORE" --arch "$ARCH" --finetune-from-model "$SENTENCES/checkpoint_best.pt" "$@" --seed "$SEED" --lr "$HALF" \
            --warmup-updates "$MORE_WARMUP" --max-tokens 4096 --keep-last-epochs 2 --save-interval-updates 500 \
            --keep-interval-updates 1 "${OPTIONS[@]}"
        mark_trained "$save" "$MORE" "$save"/*.txt
    fi
    run cp "$DATA/dict.$SRC.txt" "$DATA/dict.$TGT.txt" "$(find_codes)" "$save/"  # for cape-fairseq translate
}
rows=(--task stacked_translation --source-context "$CONTEXT")
fine_tune "$SENTENCES-sentences" CONTEXT=0
fine_tune "$SENTENCES-rows" "CONTEXT=$CONTEXT" "${rows[@]}"

# 3. The test set: sentences alone, and after the sentences before them.
translate() {  # translate SAVE NAME OPTIONS...: in SAVE/NAME.txt
    local save=$1 name=$2; shift 2
    write "$save/$name.txt" "${generate[@]}" --path "$save/checkpoint_best.pt" "$@"
}
generate=(fairseq-generate "$DATA" --user-dir "$USER_DIR" --source-lang "$SRC" --target-lang "$TGT" --beam 4 "${REMOVE_BPE[@]}"
    "${DETOKENIZE[@]}" --num-workers 0)
write "$SENTENCES-sentences/before.txt" "${generate[@]}" --path "$SENTENCES/checkpoint_best.pt"  # removed with those of an earlier training
translate "$SENTENCES-sentences" sentences
translate "$SENTENCES-rows" sentences
translate "$SENTENCES-rows" rows "${rows[@]}"
run cape-fairseq compare --language "$TGT" "sentences=$SENTENCES-sentences/before.txt" "as long=$SENTENCES-sentences/sentences.txt" \
    "rows, alone=$SENTENCES-rows/sentences.txt" "rows, with context=$SENTENCES-rows/rows.txt"
[ -n "$DRY_RUN" ] || echo "model: $SENTENCES-rows/checkpoint_best.pt"
