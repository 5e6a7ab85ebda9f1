#!/usr/bin/env bash
# Train three position encodings on synthetic English-German texts of at most 40 tokens, and test them on sentences, on
# texts of that length and on texts four times as long; then fine-tune rope_cross on documents, in which pronouns need
# context. Prints two tables and plots the loss by position. The same command continues after an interruption.
#
#   [OUT=runs/quickstart] [UPDATES=N] recipes/quickstart.sh [--dry-run]
#
# UPDATES=N is for a trial: each training then has N updates instead of 380 (documents: 150).
set -euo pipefail
export BPE=subword_nmt OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((($(nproc) + 1) / 2))}  # two programs at once
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

[ $# = 0 ] || [ "$*" = --dry-run ] || stop "the only options are --dry-run and --help"
OUT=${OUT:-runs/quickstart}
MERGES=400
if [ -n "${UPDATES:-}" ]; then check_counts 1 UPDATES; fi

# 1. The corpus: 8,000 sentences of at most 16 words, in documents.
TEXT=$OUT/corpus DATA=$OUT/data-bin
export SRC=en TGT=de
run mkdir -p "$OUT"
keep_settings "$OUT" "SYSTEMS=sinpos rope rope_cross documents" "UPDATES=${UPDATES:-380, documents 150}"
[ -e "$TEXT/train.en" ] || run cape-fairseq synthetic-corpus "$TEXT"

# 2. Tokenization, byte-pair encoding and binarization (recipes/environment.sh).
prepare_text "$MERGES"

train() {  # train SYSTEM UPDATES OPTIONS...: it resumes from checkpoint_last.pt
    local save=$OUT/$1 updates=${UPDATES:-$2} start=$SECONDS resumes=; shift 2
    if [ -e "$save/seconds" ]; then return; fi
    if [ -e "$save/checkpoint_last.pt" ]; then resumes=yes; fi
    run mkdir -p "$save"
    run fairseq-train "$DATA" --user-dir "$USER_DIR" --save-dir "$save" --source-lang en --target-lang de --seed 1 \
        --criterion label_smoothed_cross_entropy_chunked --label-smoothing 0.1 --fast-dropout --dropout 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --lr 4e-3 --lr-scheduler inverse_sqrt --warmup-updates 200 \
        --task stacked_translation --stack-probability 1 --required-batch-size-multiple 1 \
        --max-tokens 2000 --max-update "$updates" --disable-validation --no-epoch-checkpoints --update-epoch-batch-itr True \
        --save-interval-updates 100 --keep-interval-updates 1 --log-interval 50 --num-workers 0 "$@"
    run cp "$DATA/dict.en.txt" "$DATA/dict.de.txt" "$OUT/bpecodes" "$save/"  # for cape-fairseq translate
    if [ -n "$DRY_RUN" ]; then return; fi
    echo "${resumes:+at least }$((SECONDS - start))" > "$save/seconds"
}

generate() {  # generate SYSTEM NAME OPTIONS...: translations or scores of the test set in SYSTEM/NAME.txt
    local save=$OUT/$1 name=$2; shift 2
    write "$save/$name.txt" fairseq-generate "$DATA" --user-dir "$USER_DIR" --path "$save/checkpoint_last.pt" \
        --source-lang en --target-lang de --max-len-a 1.5 --max-len-b 10 --remove-bpe --num-workers 0 "$@"
}

judge_pronouns() {  # judge_pronouns SYSTEM NAME OPTIONS...: right pronouns in SYSTEM/NAME.json
    local save=$OUT/$1 name=$2; shift 2
    [ -e "$save/$name.json" ] || run cape-fairseq contrastive "$save/checkpoint_last.pt" --source "$TEXT/test.pronouns.en" \
        --target "$TEXT/test.pronouns.de" --json "$save/$name.json" "$@"
}

stacks=(--task stacked_translation --stack-junction none)
compare_lengths() {  # compare_lengths ENCODING: trained on texts of at most 40 tokens
    train "$1" 380 --arch "$1_transformer_tiny" --stack-junction none --stack-max-tokens 40
    generate "$1" sentences --beam 4
    generate "$1" within --beam 4 "${stacks[@]}" --stack-min-tokens 28 --stack-max-tokens 40
    generate "$1" beyond --beam 4 "${stacks[@]}" --stack-min-tokens 160
    generate "$1" loss "${stacks[@]}" --stack-min-tokens 160 --score-reference
    judge_pronouns "$1" pronouns
}

documents=(--task stacked_translation --stack-junction separator --stack-min-tokens 100000 --stack-keep-rest)
fine_tune() {  # fine_tune documents: from rope_cross; each sentence sees the one before
    train "$1" 150 --arch rope_cross_transformer_tiny --finetune-from-model "$OUT/rope_cross/checkpoint_last.pt" \
        --sentence-context 1 --stack-junction separator --stack-max-tokens 120 --lr 2e-3 --warmup-updates 50
    generate "$1" whole --beam 4 "${documents[@]}"
    generate "$1" split --beam 4 "${documents[@]}" --model-overrides "{'sentence_context': 0}"
    judge_pronouns "$1" pronouns
    judge_pronouns "$1" split-pronouns --context 0
}

run_both() {  # run_both COMMAND COMMAND: at the same time; a signal ends both trainings, which then save
    local first='' second='' job
    if [ -n "$DRY_RUN" ]; then $1; $2; return; fi
    trap 'end_both; exit 143' TERM INT HUP
    set -m  # a process group each; a shell with a trap waits until its training has saved
    (trap 'exit 143' TERM; $1) > >(trap '' TERM INT HUP; exec sed -u "s/^/${1#* }: /") 2>&1 & first=$!
    (trap 'exit 143' TERM; $2) > >(trap '' TERM INT HUP; exec sed -u "s/^/${2#* }: /") 2>&1 & second=$!
    set +m
    for job in $first $second; do
        wait "$job" || { end_both; stop "a training or a test failed; see above"; }
    done
    trap - TERM INT HUP
}

end_both() {
    kill -TERM -- ${first:+"-$first"} ${second:+"-$second"} 2> /dev/null || true
    wait
}

# 3. Trainings and tests, two systems at once.
run_both "compare_lengths sinpos" "compare_lengths rope_cross"
run_both "compare_lengths rope" "fine_tune documents"

# 4. The tables and the figure.
losses=(sinpos="$OUT/sinpos/loss.txt" rope="$OUT/rope/loss.txt" rope_cross="$OUT/rope_cross/loss.txt")
write "$OUT/loss_by_position.txt" cape-fairseq position-loss "${losses[@]}" --train-length 40 --plot "$OUT/loss_by_position.png"
write "$OUT/report.txt" python "$ROOT/recipes/quickstart_table.py" "$OUT"
run cat "$OUT/report.txt"
