#!/usr/bin/env bash
# Train three systems on a synthetic English-German corpus of documents in which pronouns need context, and
# print one table and a figure. Less than six minutes on two cores. The same command continues after an interruption.
#
#   [OUT=runs/quickstart] [SYSTEMS="sinpos cape documents"] [UPDATES=N] recipes/quickstart.sh [--dry-run]
set -euo pipefail
export BPE=subword_nmt
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

[ $# = 0 ] || [ "$*" = --dry-run ] || stop "the only options are --dry-run and --help"
OUT=${OUT:-runs/quickstart}
SYSTEMS=${SYSTEMS-sinpos cape documents}  # documents: rope_cross with --sentence-context 1
MERGES=400
if [ -n "${UPDATES:-}" ]; then check_counts 1 UPDATES; fi
for system in $SYSTEMS; do
    case $system in sinpos | cape | documents) ;; *) stop "SYSTEMS are sinpos, cape and documents, not $system" ;; esac
done

# 1. The corpus: 8,000 sentences of at most 16 words, in documents.
TEXT=$OUT/corpus DATA=$OUT/data-bin
export SRC=en TGT=de
run mkdir -p "$OUT"
keep_settings "$OUT" "UPDATES=${UPDATES:-380, cape 450}"
[ -e "$TEXT/train.en" ] || run cape-fairseq synthetic-corpus "$TEXT"

# 2. Tokenization, byte-pair encoding and binarization (recipes/environment.sh).
prepare_text "$MERGES"

train() {  # train SYSTEM OPTIONS...: it resumes from checkpoint_last.pt
    local save=$OUT/$1 updates=${UPDATES:-380}; shift
    case $save in */cape) updates=${UPDATES:-450} ;; esac  # its shifts take longer to learn
    if [ -e "$save/seconds" ]; then return; fi
    local start=$SECONDS resumes=
    if [ -e "$save/checkpoint_last.pt" ]; then resumes=yes; fi
    run mkdir -p "$save"
    run fairseq-train "$DATA" --user-dir "$USER_DIR" --save-dir "$save" "$@" --source-lang en --target-lang de --seed 1 \
        --criterion label_smoothed_cross_entropy_chunked --label-smoothing 0.1 --fast-dropout --dropout 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr 4e-3 --lr-scheduler inverse_sqrt --warmup-updates 200 \
        --max-tokens 2000 --max-update "$updates" --disable-validation --no-epoch-checkpoints --update-epoch-batch-itr True \
        --save-interval-updates 100 --keep-interval-updates 1 --log-interval 50 --num-workers 0
    run cp "$DATA/dict.en.txt" "$DATA/dict.de.txt" "$OUT/bpecodes" "$save/"  # for cape-fairseq translate
    if [ -n "$DRY_RUN" ]; then return; fi
    echo "${resumes:+at least }$((SECONDS - start))" > "$save/seconds"
}

translate() {  # translate SYSTEM NAME OPTIONS...: the test set in SYSTEM/NAME.txt
    local save=$OUT/$1 name=$2; shift 2
    write "$save/$name.txt" fairseq-generate "$DATA" --user-dir "$USER_DIR" --path "$save/checkpoint_last.pt" \
        --source-lang en --target-lang de --beam 4 --max-len-a 1.5 --max-len-b 10 --remove-bpe --num-workers 0 "$@"
}

judge_pronouns() {  # judge_pronouns SYSTEM NAME OPTIONS...: right pronouns in SYSTEM/NAME.json
    local save=$OUT/$1 name=$2; shift 2
    [ -e "$save/$name.json" ] || run cape-fairseq contrastive "$save/checkpoint_last.pt" --source "$TEXT/test.pronouns.en" \
        --target "$TEXT/test.pronouns.de" --json "$save/$name.json" "$@"
}

# 3. Training, translation of sentences and of whole documents, and contrastive tests of pronouns.
whole=(--task stacked_translation --stack-min-tokens 100000 --stack-keep-rest)
for system in $SYSTEMS; do
    if [ "$system" = documents ]; then
        train documents --arch rope_cross_transformer_tiny --sentence-context 1 --task stacked_translation \
            --stack-junction separator --stack-probability 1 --stack-max-tokens 120 --required-batch-size-multiple 1
        translate documents whole "${whole[@]}" --stack-junction separator
        translate documents split "${whole[@]}" --stack-junction separator --model-overrides "{'sentence_context': 0}"
        judge_pronouns documents split-pronouns --context 0
    else
        train "$system" --arch "${system}_transformer_tiny"
        translate "$system" whole "${whole[@]}" --stack-junction none
    fi
    translate "$system" sentences
    judge_pronouns "$system" pronouns
done

# 4. The table.
[ -z "$SYSTEMS" ] || run python "$ROOT/recipes/quickstart_table.py" "$OUT"
