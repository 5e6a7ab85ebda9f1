#!/usr/bin/env bash
# Train sinusoids and rope_cross on synthetic English-German texts of at most 40 tokens, and test them on sentences, on
# texts of that length, and on texts 4 and 16 times as long: rope_cross also with three rules of inference, windows of
# tokens, the end and alignment. Then fine-tune rope_cross on rows, sentences with the one before, which decides their
# pronouns. Prints two tables and plots the loss by position. The same command continues after an interruption.
#
#   [OUT=runs/quickstart] [UPDATES=N] recipes/quickstart.sh [--dry-run]
#
# UPDATES=N is for a trial: each training then has N updates instead of 380 (rows: 150). Messages of fairseq are in
# the *.log files of OUT; VERBOSE=1 shows them, too.
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
keep_settings "$OUT" "SYSTEMS=sinpos rope_cross rows" "UPDATES=${UPDATES:-380, rows 150}"
[ -e "$TEXT/train.en" ] || run cape-fairseq synthetic-corpus "$TEXT"

# 2. Tokenization, byte-pair encoding and binarization (recipes/environment.sh). Texts of 640 tokens are longer than the
# documents of the test set, so it is one document for them.
prepare_text "$MERGES"
JOINED=$OUT/data-bin-joined
if [ ! -e "$JOINED/done" ]; then
    run rm -rf "$JOINED.part"
    run cp -r "$DATA" "$JOINED.part"
    run rm -f "$JOINED.part/test.documents"
    run mv "$JOINED.part" "$JOINED"
fi

train() {  # train SYSTEM UPDATES OPTIONS...: it resumes from checkpoint_last.pt
    local save=$OUT/$1 updates=${UPDATES:-$2}; shift 2
    if is_trained "$save" "$updates"; then return; fi
    fit "$save" "$updates" --seed 1 --lr 4e-3 --warmup-updates 200 --max-tokens 2000 \
        --task stacked_translation --required-batch-size-multiple 1 \
        --validate-after-updates "$updates" --no-epoch-checkpoints --save-interval-updates 100 \
        --keep-interval-updates 1 --log-interval 20 "$@"
    mark_trained "$save" "$updates"
    run cp "$DATA/dict.en.txt" "$DATA/dict.de.txt" "$OUT/bpecodes" "$save/"  # for cape-fairseq translate
}

generate() {  # generate SYSTEM NAME DATA OPTIONS...: translations or scores of a test set in SYSTEM/NAME.txt
    local save=$OUT/$1 name=$2 data=$3; shift 3
    write "$save/$name.txt" fairseq-generate "$data" --user-dir "$USER_DIR" --path "$save/checkpoint_last.pt" \
        --source-lang en --target-lang de --beam 1 --max-len-a 1.5 --max-len-b 10 --remove-bpe --num-workers 0 "$@"
}

judge_pronouns() {  # judge_pronouns SYSTEM NAME OPTIONS...: right pronouns in SYSTEM/NAME.json
    local save=$OUT/$1 name=$2; shift 2
    [ -e "$save/$name.json" ] || quietly "$save/$name.log" cape-fairseq contrastive "$save/checkpoint_last.pt" --source "$TEXT/test.pronouns.en" \
        --target "$TEXT/test.pronouns.de" --json "$save/$name.json" "$@"
}

stacks=(--task stacked_translation --stack-junction none)
train_encoding() {  # train_encoding ENCODING: on texts of at most 40 tokens
    train "$1" 380 --arch "$1_transformer_tiny" --stack-probability 1 --stack-junction none --stack-max-tokens 40
}

test_lengths() {  # test_lengths SYSTEM PREFIX OPTIONS...: translations in SYSTEM/PREFIX*.txt
    local system=$1 prefix=$2; shift 2
    generate "$system" "${prefix}sentences" "$DATA" "$@"
    generate "$system" "${prefix}within" "$DATA" "${stacks[@]}" --stack-min-tokens 28 --stack-max-tokens 40 "$@"
    generate "$system" "${prefix}beyond" "$DATA" "${stacks[@]}" --stack-min-tokens 160 "$@"
    generate "$system" "${prefix}beyond16" "$JOINED" "${stacks[@]}" --stack-min-tokens 640 "$@"
}

score_references() {  # score_references SYSTEM NAME OPTIONS...: losses at 160 tokens in SYSTEM/NAME.txt
    local system=$1 name=$2; shift 2
    generate "$system" "$name" "$DATA" "${stacks[@]}" --stack-min-tokens 160 --score-reference "$@"
}

N_M="'attention_window': 20, 'cross_attention_window': 20"
windows=(--model-overrides "{$N_M}")
end=(--model-overrides "{$N_M, 'alignment_end': 10}")
alignment=(--model-overrides "{$N_M, 'alignment_end': 10, 'alignment_gain': 0.1}")
translate_lengths() {
    test_lengths sinpos ""
    test_lengths rope_cross ""
    test_lengths rope_cross windows. "${windows[@]}"
    test_lengths rope_cross end. "${end[@]}"
}

fine_tune_rows() {  # from rope_cross; each sentence sees the one before
    train rows 150 --arch rope_cross_transformer_tiny --finetune-from-model "$OUT/rope_cross/checkpoint_last.pt" \
        --source-context 1 --lr 2e-3 --warmup-updates 50
    generate rows context "$DATA" --task stacked_translation --source-context 1
    generate rows alone "$DATA"
    judge_pronouns rows context-pronouns
    judge_pronouns rows alone-pronouns --context 0
}

score_and_fine_tune() {
    fine_tune_rows
    test_lengths rope_cross alignment. "${alignment[@]}"
    score_references sinpos loss
    score_references rope_cross loss
    score_references rope_cross alignment.loss "${alignment[@]}"
    judge_pronouns sinpos pronouns
    judge_pronouns rope_cross pronouns
}

run_both() {  # run_both COMMAND COMMAND: at the same time; a signal ends both trainings, which then save
    local first='' second='' job
    if [ -n "$DRY_RUN" ]; then $1; $2; return; fi
    trap 'end_both; exit 143' TERM INT HUP
    set -m  # a process group each; a shell with a trap waits until its training has saved
    (trap 'exit 143' TERM; PROGRESS_ROW=0 $1) & first=$!
    (trap 'exit 143' TERM; PROGRESS_ROW=1 $2) & second=$!
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

# 3. Trainings and tests, two at once.
say "training sinpos and rope_cross"
run_both "train_encoding sinpos" "train_encoding rope_cross"
say "translating with sinpos and rope_cross, and training on rows"
run_both translate_lengths score_and_fine_tune

# 4. The tables and the figure.
losses=(sinpos="$OUT/sinpos/loss.txt" rope_cross="$OUT/rope_cross/loss.txt"
    "rope_cross, all rules=$OUT/rope_cross/alignment.loss.txt")
write "$OUT/loss_by_position.txt" cape-fairseq position-loss "${losses[@]}" --train-length 40 --plot "$OUT/loss_by_position.png"
write "$OUT/report.txt" python "$ROOT/recipes/quickstart_table.py" "$OUT"
run cat "$OUT/report.txt"
