#!/usr/bin/env bash
# From a model of Hugging Face (OPUS-MT, M2M-100, NLLB) to one of your own: import it, translate the test set as it
# is, fine-tune it on your text with another position encoding, translate again, and export.
#
#   MODEL=FOLDER TEXT=DIR [SRC=en] [TGT=de] [WAY=ctranslate2|documents] [OUT=runs/pretrained] recipes/pretrained.sh [--dry-run] [-- OPTIONS]
#
# MODEL has config.json, model.safetensors and the tokenizer's files; TEXT is that of recipes/train.sh. MODEL_SRC
# and MODEL_TGT are the languages as the model calls them (default: SRC, TGT), for instance eng_Latn. Two ways:
#   ctranslate2  ENCODING (default: rope) replaces the sinusoids, and CTranslate2 serves the model
#   documents    rope_cross with --sentence-context CONTEXT (default: 1) and --target-context TARGET_CONTEXT (0);
#                cape-fairseq translate runs it
# Also LR, UPDATES and SEED. The same command continues after an interruption.
set -euo pipefail
export BPE=sentencepiece
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

need MODEL "give the folder of a model: MODEL=FOLDER TEXT=DIR recipes/pretrained.sh"
need TEXT "give the folder of your text: MODEL=FOLDER TEXT=DIR recipes/pretrained.sh"
MODEL=${MODEL%/} TEXT=${TEXT%/}
SRC=${SRC:-en} TGT=${TGT:-de} WAY=${WAY:-ctranslate2} OUT=${OUT:-runs/pretrained} SEED=${SEED:-1}
MODEL_SRC=${MODEL_SRC:-$SRC} MODEL_TGT=${MODEL_TGT:-$TGT} LR=${LR:-1e-4} UPDATES=${UPDATES:-2000} CONTEXT=${CONTEXT:-1} TARGET_CONTEXT=${TARGET_CONTEXT:-0}
case $WAY in
    ctranslate2) ENCODING=${ENCODING:-rope} DOCUMENTS=() ;;
    documents) ENCODING=rope_cross DOCUMENTS=(--sentence-context "$CONTEXT" --target-context "$TARGET_CONTEXT" --task stacked_translation --stack-junction separator
        --stack-probability 0.5 --stack-max-tokens 400 --required-batch-size-multiple 1) ;;
    *) stop "WAY is $WAY; give ctranslate2 or documents" ;;
esac
check_counts 1 UPDATES
check_counts 0 CONTEXT TARGET_CONTEXT
read_options "$@"
check_arch "${ENCODING}_transformer"
IMPORTED=$OUT/imported DATA=$OUT/data-bin SAVE=$OUT/$WAY-$ENCODING
for split in train valid test; do same_lines "$TEXT/$split.$SRC" "$TEXT/$split.$TGT"; done
if [ "$WAY" = ctranslate2 ]; then
    case $ENCODING in
        rope | relpos | t5 | sinpos | abspos | nopos | cape | shape) ;;
        *) stop "CTranslate2 has no $ENCODING; give another ENCODING, or WAY=documents" ;;
    esac
    python -c 'import ctranslate2' 2>/dev/null || stop "CTranslate2 is not installed; pip install ctranslate2"
fi
keep_settings "$OUT" "MODEL=$MODEL" "MODEL_SRC=$MODEL_SRC" "MODEL_TGT=$MODEL_TGT" "TEXT=$TEXT" "TEXT_CHECKSUM=$(sum_files "$TEXT"/{train,valid,test}.{"$SRC","$TGT"})"
keep_settings "$SAVE" "LR=$LR" "SEED=$SEED" "DOCUMENTS=${DOCUMENTS[*]}" "OPTIONS=${OPTIONS[*]}"

# 1. The model as it is.
run mkdir -p "$OUT/tok" "$OUT/bpe"
[ -e "$IMPORTED" ] || run cape-fairseq import "$MODEL" "$IMPORTED" --source-lang "$MODEL_SRC" --target-lang "$MODEL_TGT"

check_pieces() {  # check_pieces DICTIONARY...: stop if a piece has white space inside, where fairseq-preprocess would cut it
    python -c 'import sys; sys.exit(any(len(line.split()) != 2 for path in sys.argv[1:] for line in open(path, encoding="utf-8")))' "$@" \
        || stop "$MODEL has pieces with white space in them, which fairseq-preprocess would cut; translate with it, but do not fine-tune it"
}
[ -n "$DRY_RUN" ] || check_pieces "$IMPORTED"/dict.*.txt

separate_documents() {  # separate_documents FILE: the lines of the test set, with an empty line between documents
    paste "$TEXT/test.documents" "$1" | awk -F '\t' 'NR > 1 && $1 != name { print "" } { name = $1; sub(/^[^\t]*\t/, ""); print }'
}

translate_lines() {  # translate_lines CHECKPOINT: the test set, a line for each line
    if [ ! -e "$TEXT/test.documents" ]; then
        cape-fairseq translate "$1" --no-split < "$TEXT/test.$SRC"
        return
    fi
    separate_documents "$TEXT/test.$SRC" | cape-fairseq translate "$1" --no-split \
        | paste <(separate_documents "$TEXT/test.documents") - | grep -v $'^\t' | cut -f2-
}

translate() {  # translate CHECKPOINT OUTPUT: the test set, a sentence a line
    if [ -n "$DRY_RUN" ]; then
        echo "cape-fairseq translate ${1@Q} --no-split < ${TEXT@Q}/test.$SRC > ${2@Q}"
    elif [ ! -e "$2" ]; then
        translate_lines "$1" > "$2.part"
        same_lines "$TEXT/test.$TGT" "$2.part"
        mv "$2.part" "$2"
    fi
    run sacrebleu "$TEXT/test.$TGT" -i "$2" -l "$SRC-$TGT" -m bleu chrf -f text -w 2
}
translate "$IMPORTED/model.pt" "$OUT/imported.$TGT"

# 2. Your text in the model's pieces, with the codes of its languages, by the model's dictionaries.
segment_side() {  # segment_side SPLIT SIDE LANG NAME: TEXT/SPLIT.LANG in OUT/bpe/SPLIT.NAME
    local model=$IMPORTED/sentencepiece.model code=
    if [ -n "$DRY_RUN" ]; then
        echo "# the code of the language and the model's pieces of ${TEXT@Q}/$1.$3 > ${OUT@Q}/bpe/$1.$4"
        return
    fi
    if [ -e "$IMPORTED/$2.spm" ]; then model=$IMPORTED/$2.spm; fi
    code=$(python -c 'import json, sys; print(*json.load(open(sys.argv[1]))[sys.argv[2]])' "$IMPORTED/prefixes.json" "$2")
    write "$OUT/tok/$1.$4" clean_text < "$TEXT/$1.$3"
    write "$OUT/tok/$1.pieces.$4" python -m cape_fairseq.data.pieces apply "$model" < "$OUT/tok/$1.$4"
    write "$OUT/bpe/$1.$4" sed "s/^/${code:+$code }/" "$OUT/tok/$1.pieces.$4"
}
for split in train valid; do
    segment_side "$split" source "$SRC" "$MODEL_SRC"
    segment_side "$split" target "$TGT" "$MODEL_TGT"
done
if [ ! -e "$DATA/done" ]; then
    run rm -rf "$DATA"
    run fairseq-preprocess --source-lang "$MODEL_SRC" --target-lang "$MODEL_TGT" --srcdict "$IMPORTED/dict.$MODEL_SRC.txt" --tgtdict "$IMPORTED/dict.$MODEL_TGT.txt" \
        --trainpref "$OUT/bpe/train" --validpref "$OUT/bpe/valid" --destdir "$DATA" --workers 1
    for file in "$TEXT"/*.documents; do
        if [ -e "$file" ]; then run cp "$file" "$DATA/"; fi
    done
    for file in source.spm target.spm sentencepiece.model; do
        if [ -e "$IMPORTED/$file" ]; then run cp "$IMPORTED/$file" "$DATA/"; fi
    done
    run touch "$DATA/done"
fi

# 3. Fine-tuning: all parameters but those of positions are the model's.
IMPORTED_OPTIONS=()
if [ -e "$IMPORTED/options.txt" ]; then read -r -a IMPORTED_OPTIONS < "$IMPORTED/options.txt"; fi
[ -z "$DRY_RUN" ] || echo "# with the options in ${IMPORTED@Q}/options.txt, too:"
run mkdir -p "$SAVE"
if ! is_trained "$SAVE" "$UPDATES"; then
    run fairseq-train "$DATA" --user-dir "$USER_DIR" --save-dir "$SAVE" --arch "${ENCODING}_transformer" "${IMPORTED_OPTIONS[@]}" \
        --source-lang "$MODEL_SRC" --target-lang "$MODEL_TGT" --finetune-from-model "$IMPORTED/model.pt" "${DOCUMENTS[@]}" --seed "$SEED" --dropout 0.1 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --fast-dropout --optimizer adam --adam-betas '(0.9, 0.98)' \
        --lr "$LR" --lr-scheduler inverse_sqrt --warmup-updates "$((UPDATES / 10 + 1))" --max-tokens 4096 --max-update "$UPDATES" --update-epoch-batch-itr True \
        --keep-last-epochs 2 --save-interval-updates 500 --keep-interval-updates 1 --num-workers 0 "${OPTIONS[@]}"
    mark_trained "$SAVE" "$UPDATES" "$SAVE/test.$TGT"
    run rm -rf "$SAVE/ct2"
fi
for file in "dict.$MODEL_SRC.txt" "dict.$MODEL_TGT.txt" prefixes.json source.spm target.spm sentencepiece.model; do
    if [ -e "$IMPORTED/$file" ]; then run cp "$IMPORTED/$file" "$SAVE/"; fi
done

# 4. The fine-tuned model, and its export.
translate "$SAVE/checkpoint_best.pt" "$SAVE/test.$TGT"
if [ "$WAY" = ctranslate2 ] && [ ! -e "$SAVE/ct2" ]; then
    run cape-fairseq export "$SAVE/checkpoint_best.pt" --output "$SAVE/ct2" --max-positions 4096
fi
