#!/usr/bin/env bash
# From a model that you have to one of your own: import it, translate the test set as it is, fine-tune it on your text
# with another position encoding, and translate again.
#
#   MODEL=FOLDER|CHECKPOINT TEXT=DIR [SRC=en] [TGT=de] [WAY=ctranslate2|documents|long] [OUT=runs/pretrained]
#       recipes/pretrained.sh [--dry-run] [-- OPTIONS]
#
# MODEL is a folder of Hugging Face (OPUS-MT, M2M-100, NLLB), or a checkpoint of fairseq or of this package with its
# dictionaries and bpecodes or SentencePiece models beside it. TEXT is that of recipes/train.sh. MODEL_SRC and MODEL_TGT
# are the languages as the model calls them (default: SRC, TGT), for instance eng_Latn. Three ways:
#   ctranslate2  ENCODING (default: rope) replaces the sinusoids, and CTranslate2 serves the model
#   documents    rope_cross on sentences with up to CONTEXT (default: 1) sentences of their document before them;
#                cape-fairseq translate runs it
#   long         rope_cross on sentences and stacks of at most LONGEST tokens (default: 400, or the longest text of the
#                model's training, if its checkpoint stores a shorter one); cape-fairseq translate then takes longer texts
#                in one pass. Compared on the documents of TEXT (test.documents), or on LONG.SRC and LONG.TGT, a text a
#                line
# Also LR, UPDATES and SEED. The same command continues after an interruption. Messages of fairseq are in the *.log
# files of OUT; VERBOSE=1 shows them, too.
set -euo pipefail
export BPE=sentencepiece
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

need MODEL "give a model: MODEL=FOLDER TEXT=DIR recipes/pretrained.sh"
need TEXT "give the folder of your text: MODEL=FOLDER TEXT=DIR recipes/pretrained.sh"
MODEL=${MODEL%/} TEXT=${TEXT%/}
[ -n "$DRY_RUN" ] || [ -e "$MODEL" ] || stop "there is no MODEL $MODEL; give a folder of Hugging Face or a checkpoint"
SRC=${SRC:-en} TGT=${TGT:-de} WAY=${WAY:-ctranslate2} OUT=${OUT:-runs/pretrained} SEED=${SEED:-1}
MODEL_SRC=${MODEL_SRC:-$SRC} MODEL_TGT=${MODEL_TGT:-$TGT}
CONTEXT=${CONTEXT:-1} LONGEST=${LONGEST:-}
reject_settings TARGET_CONTEXT
case $WAY in
    ctranslate2) ENCODING=${ENCODING:-rope} UPDATES=${UPDATES:-2000} ;;
    documents) ENCODING=rope_cross UPDATES=${UPDATES:-2000} ;;
    long) ENCODING=rope_cross UPDATES=${UPDATES:-1000} ;;
    *) stop "WAY is $WAY; give ctranslate2, documents or long" ;;
esac
check_counts 1 UPDATES ${LONGEST:+LONGEST}
check_counts 1 CONTEXT
read_options "$@"
check_arch "${ENCODING}_transformer"
IMPORTED=$OUT/imported DATA=$OUT/data-bin SAVE=$OUT/$WAY-$ENCODING
for split in train valid test; do same_lines "$TEXT/$split.$SRC" "$TEXT/$split.$TGT"; done
if [ -e "$TEXT/test.documents" ]; then same_lines "$TEXT/test.documents" "$TEXT/test.$SRC"; fi
if [ -n "${LONG:-}" ]; then same_lines "$LONG.$SRC" "$LONG.$TGT"; fi
if [ "$WAY" = ctranslate2 ]; then
    case $ENCODING in
        rope | relpos | t5 | sinpos | abspos | nopos | cape | shape) ;;
        *) stop "CTranslate2 has no $ENCODING; give another ENCODING, or WAY=documents" ;;
    esac
    python -c 'import ctranslate2' 2>/dev/null || stop "CTranslate2 is not installed; pip install ctranslate2"
fi
keep_settings "$OUT" "MODEL=$MODEL" "MODEL_SRC=$MODEL_SRC" "MODEL_TGT=$MODEL_TGT" "TEXT=$TEXT" \
    "TEXT_CHECKSUM=$(sum_files "$TEXT"/{train,valid,test}.{"$SRC","$TGT"})"

# 1. The model as it is.
run mkdir -p "$OUT/tok" "$OUT/bpe"
say "importing $MODEL and translating with it"
[ -e "$IMPORTED" ] || quietly "$OUT/import.log" cape-fairseq import "$MODEL" "$IMPORTED" \
    --source-lang "$MODEL_SRC" --target-lang "$MODEL_TGT"

check_pieces() {  # check_pieces DICTIONARY...: stop if a piece has white space inside
    python -c 'import sys; sys.exit(any(len(line.split()) != 2 for path in sys.argv[1:] for line in open(path, encoding="utf-8")))' "$@" \
        || stop "$MODEL has pieces with white space in them, which fairseq-preprocess would cut; translate with it, but do not fine-tune it"
}
[ -n "$DRY_RUN" ] || check_pieces "$IMPORTED"/dict.*.txt

read_option() {  # read_option NAME: an option of the imported model
    sed -n "s/.*--$1 \([0-9]*\).*/\1/p" "$IMPORTED/options.txt" 2> /dev/null || true
}
WIDTH=$(read_option encoder-embed-dim)
case $WAY in
    ctranslate2) LR=${LR:-1e-4} TRAINING=() ;;
    documents) LR=${LR:-1e-4} TRAINING=(--task stacked_translation --source-context "$CONTEXT") ;;
    long)
        # Measured for a width of 128 (docs/pretrained.md); the rate of wider models is a guess.
        if [ "${WIDTH:-512}" -lt 512 ]; then LR=${LR:-2e-3}; else LR=${LR:-3e-4}; fi
        if [ -z "$LONGEST" ] && [ -e "$IMPORTED" ]; then
            LONGEST=$(python -c 'import sys; from cape_fairseq.inference.checkpoints import choose_longest; print(choose_longest(sys.argv[1]))' "$IMPORTED/model.pt" 2>> "$OUT/import.log")
        fi
        LONGEST=${LONGEST:-400}
        TRAINING=(--task stacked_translation --stack-junction none --stack-probability 1
            --stack-max-tokens "$LONGEST" --required-batch-size-multiple 1) ;;
esac
keep_settings "$SAVE" "LONG_CHECKSUM=$(sum_files "$TEXT"/*.documents "${LONG:-}".{"$SRC","$TGT"})" \
    "LR=$LR" "SEED=$SEED" "TRAINING=${TRAINING[*]}" "OPTIONS=${OPTIONS[*]}"

separate_documents() {  # separate_documents FILE: the lines of the test set, with an empty line between documents
    paste "$TEXT/test.documents" "$1" | awk -F '\t' 'NR > 1 && $1 "" != name "" { print "" } { name = $1; sub(/^[^\t]*\t/, ""); print }'
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
    else
        write "$2" translate_lines "$1"
        same_lines "$TEXT/test.$TGT" "$2"
    fi
}

score() {  # score TITLE REFERENCE TRANSLATION...: BLEU and chrF
    say "$1:"
    run sacrebleu "$2" -i "${@:3}" -l "$SRC-$TGT" -m bleu chrf -f text -w 2
}

join_documents() {  # join_documents FILE: the lines of the test set, a document a line
    paste "$TEXT/test.documents" "$1" | awk -F '\t' 'NR > 1 { printf("%s", $1 "" == name "" ? " " : "\n") }
        { name = $1; sub(/^[^\t]*\t/, ""); sub(/\r$/, ""); printf "%s", $0 } END { print "" }'
}
translate "$IMPORTED/model.pt" "$OUT/imported.$TGT"
if [ "$WAY" = long ] && [ -z "${LONG:-}" ] && [ -e "$TEXT/test.documents" ]; then
    LONG=$OUT/documents
    for lang in "$SRC" "$TGT"; do
        if [ -n "$DRY_RUN" ]; then echo "# the documents of ${TEXT@Q}/test.$lang, one a line > ${LONG@Q}.$lang"; continue; fi
        write "$LONG.$lang" join_documents "$TEXT/test.$lang"
    done
fi
if [ "$WAY" = long ] && [ -n "${LONG:-}" ] && [ -z "$DRY_RUN" ]; then
    write "$SAVE/before.cut" cape-fairseq translate "$IMPORTED/model.pt" --no-split --max-subwords "$LONGEST" \
        < "$LONG.$SRC"
fi

# 2. Your text in the model's pieces, with the codes of its languages, by the model's dictionaries.
cut_words() {  # cut_words SIDE LANG: the model's pieces of the input
    local model=$IMPORTED/sentencepiece.model
    if [ -e "$IMPORTED/bpecodes" ]; then
        sacremoses -q -l "$2" tokenize -x -a | subword-nmt apply-bpe -c "$IMPORTED/bpecodes"
        return
    fi
    if [ -e "$IMPORTED/$1.spm" ]; then model=$IMPORTED/$1.spm; fi
    python -m cape_fairseq.data.pieces apply "$model"
}

segment_side() {  # segment_side SPLIT SIDE LANG NAME: TEXT/SPLIT.LANG in OUT/bpe/SPLIT.NAME
    local code=
    if [ -n "$DRY_RUN" ]; then
        echo "# the code of the language and the model's pieces of ${TEXT@Q}/$1.$3 > ${OUT@Q}/bpe/$1.$4"
        return
    fi
    if [ -e "$IMPORTED/prefixes.json" ]; then
        code=$(python -c 'import json, sys; print(*json.load(open(sys.argv[1]))[sys.argv[2]])' "$IMPORTED/prefixes.json" "$2")
    fi
    write "$OUT/tok/$1.$4" clean_text < "$TEXT/$1.$3"
    write "$OUT/tok/$1.pieces.$4" cut_words "$2" "$3" < "$OUT/tok/$1.$4"
    same_lines "$TEXT/$1.$3" "$OUT/tok/$1.pieces.$4"
    write "$OUT/bpe/$1.$4" sed "/./s/^/${code:+$code }/" "$OUT/tok/$1.pieces.$4"
}
for split in train valid; do
    segment_side "$split" source "$SRC" "$MODEL_SRC"
    segment_side "$split" target "$TGT" "$MODEL_TGT"
done
FILES=(bpecodes source.spm target.spm sentencepiece.model prefixes.json)  # those that the model has
if [ ! -e "$DATA/done" ]; then
    run rm -rf "$DATA"
    quietly "$OUT/prepare.log" fairseq-preprocess --source-lang "$MODEL_SRC" --target-lang "$MODEL_TGT" \
        --srcdict "$IMPORTED/dict.$MODEL_SRC.txt" --tgtdict "$IMPORTED/dict.$MODEL_TGT.txt" \
        --trainpref "$OUT/bpe/train" --validpref "$OUT/bpe/valid" --destdir "$DATA" --workers 1
    for file in "$TEXT"/*.documents "${FILES[@]/#/$IMPORTED/}"; do
        if [ -e "$file" ]; then run cp "$file" "$DATA/"; fi
    done
    run touch "$DATA/done"
fi

# 3. Fine-tuning: all parameters but those of positions are the model's.
IMPORTED_OPTIONS=()
if [ -e "$IMPORTED/options.txt" ]; then read -r -a IMPORTED_OPTIONS < "$IMPORTED/options.txt"; fi
[ -z "$DRY_RUN" ] || echo "# with the options in ${IMPORTED@Q}/options.txt, too:"
if ! is_trained "$SAVE" "$UPDATES"; then
    say "fine-tuning as $ENCODING"
    SRC=$MODEL_SRC TGT=$MODEL_TGT fit "$SAVE" "$UPDATES" --arch "${ENCODING}_transformer" "${IMPORTED_OPTIONS[@]}" \
        --finetune-from-model "$IMPORTED/model.pt" "${TRAINING[@]}" --criterion label_smoothed_cross_entropy --seed "$SEED" \
        --lr "$LR" --warmup-updates "$((UPDATES / 10 + 1))" --max-tokens 4096 \
        --keep-last-epochs 2 --save-interval-updates 500 --keep-interval-updates 1 "${OPTIONS[@]}"
    mark_trained "$SAVE" "$UPDATES" "$SAVE/test.$TGT" "$SAVE"/after.*
    run rm -rf "$SAVE/ct2"
fi
for file in "dict.$MODEL_SRC.txt" "dict.$MODEL_TGT.txt" "${FILES[@]}"; do
    if [ -e "$IMPORTED/$file" ]; then run cp "$IMPORTED/$file" "$SAVE/"; fi
done

# 4. The fine-tuned model, and its export or its long texts.
say "translating with the fine-tuned model"
translate "$SAVE/checkpoint_best.pt" "$SAVE/test.$TGT"
if [ "$WAY" = ctranslate2 ] && [ ! -e "$SAVE/ct2" ]; then
    quietly "$SAVE/export.log" cape-fairseq export "$SAVE/checkpoint_best.pt" --output "$SAVE/ct2" --max-positions 4096
fi
score "sentences, before and after" "$TEXT/test.$TGT" "$OUT/imported.$TGT" "$SAVE/test.$TGT"
if [ "$WAY" = long ] && [ -n "${LONG:-}" ] && [ -z "$DRY_RUN" ]; then
    write "$SAVE/after.one-pass" cape-fairseq translate "$SAVE/checkpoint_best.pt" --no-split < "$LONG.$SRC"
    write "$SAVE/after.one-by-one" cape-fairseq translate "$SAVE/checkpoint_best.pt" < "$LONG.$SRC"
    score "long texts, before cut at $LONGEST tokens" "$LONG.$TGT" "$SAVE"/{before.cut,after.one-pass,after.one-by-one}
fi
[ -n "$DRY_RUN" ] || echo "model: $SAVE/checkpoint_best.pt"
