#!/usr/bin/env bash
# Compare position encodings on your own text: train each with every seed, translate, score, and write
# OUT/report.md. TEXT has train.en, train.de, valid.en and so on. The same command continues after an interruption.
#
#   TEXT=DIR [ENCODINGS="sinpos; cape; rope_cross"] [SEEDS="1 10000001 20000001"] [LONGEST=L] [OUT=runs/compare]
#       recipes/compare.sh [--dry-run] [-- OPTIONS]
#
# A system is an encoding, or NAME: ENCODING OPTIONS, for instance "cape50: cape --cape-global-shift 50".
# Differences are to the first system. With LONGEST=L the texts of training are sentences and stacks of at
# most L tokens, and the model is tested on stacks within L and of 4 L tokens, too.
# Also SIZE (_tiny), SRC (en), TGT (de), MERGES, LR, UPDATES, WARMUP and BPE as in train.sh, BEAM (4), and USER_DIR, a
# folder with encodings of your own (docs/development.md).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

need TEXT "give the folder of your text: TEXT=DIR recipes/compare.sh"
TEXT=${TEXT%/}
SRC=${SRC:-en} TGT=${TGT:-de} SIZE=${SIZE-_tiny}
OUT=${OUT:-runs/compare}
MERGES=${MERGES:-4000} BEAM=${BEAM:-4} LONGEST=${LONGEST:-0}
read -r -d '' -a SEEDS <<< "${SEEDS:-1 10000001 20000001}" || true  # also of several lines
case $SIZE in
    _tiny) LR=${LR:-4e-3} WARMUP=${WARMUP:-500} UPDATES=${UPDATES:-3000} ;;
    *) LR=${LR:-5e-4} WARMUP=${WARMUP:-4000} UPDATES=${UPDATES:-30000} ;;
esac
check_counts 1 MERGES UPDATES WARMUP BEAM
check_counts 0 LONGEST
for seed in "${SEEDS[@]}"; do check_counts 1 seed; done
OPTIONS=()
read_options "$@"

names=() encodings=() variants=()
systems=${ENCODINGS:-sinpos; cape; rope_cross}
case $systems in *[\"\']*) stop "ENCODINGS has quotes, which are not read; give such options to all systems after --" ;; esac
IFS=';' read -r -a items <<< "${systems//$'\n'/ }"
for item in "${items[@]}"; do
    read -r -a words <<< "${item/:/ : }"
    case ${words[*]:1:1} in
        :) name=${words[0]} encoding=${words[2]:-} variant=${words[*]:3} ;;
        '') name=${words[0]:-} encoding=$name variant= ;;
        *) stop "ENCODINGS has '$item'; give an encoding, or NAME: ENCODING OPTIONS, with ; between systems" ;;
    esac
    if [ -z "$name" ]; then continue; fi
    [[ $name =~ ^[A-Za-z0-9_.-]+$ ]] || stop "ENCODINGS names '$name'; give letters, digits, _, . and -"
    case $name in tok | bpe | data-bin) stop "ENCODINGS names '$name', a folder of OUT; give another name" ;; esac
    case " ${names[*]} " in *" $name "*) stop "ENCODINGS has $name twice; give one of them another name" ;; esac
    names+=("$name") encodings+=("$encoding") variants+=("$variant")
done
[ ${#names[@]} -gt 0 ] || stop "ENCODINGS is empty; give encodings, such as 'sinpos; cape; rope_cross'"
check_arch "${encodings[@]/%/_transformer$SIZE}"

# 1. Tokenization, byte-pair encoding and binarization (recipes/environment.sh).
DATA=$OUT/data-bin
for split in train valid test; do same_lines "$TEXT/$split.$SRC" "$TEXT/$split.$TGT"; done
keep_settings "$OUT" "TEXT=$TEXT" "TEXT_CHECKSUM=$(sum_files "$TEXT"/{train,valid,test}.{"$SRC","$TGT"})" "BPE=$BPE" \
    "MERGES=$MERGES" "SRC=$SRC" "TGT=$TGT" "SIZE=$SIZE" "LR=$LR" "WARMUP=$WARMUP" "LONGEST=$LONGEST" "BEAM=$BEAM" "OPTIONS=${OPTIONS[*]}"
prepare_text "$MERGES"

stacks=(--task stacked_translation --stack-junction none)
training=() tests=(sentences)
if [ "$LONGEST" -gt 0 ]; then
    training=("${stacks[@]}" --required-batch-size-multiple 1 --stack-probability 1 --stack-max-tokens "$LONGEST")
    tests=(sentences within beyond)
fi

train() {  # train SAVE SEED ENCODING OPTIONS...: it resumes from checkpoint_last.pt, also with more UPDATES
    local save=$1 seed=$2 encoding=$3 start=$SECONDS resumes=; shift 3
    if is_trained "$save" "$UPDATES"; then return; fi
    if [ -e "$save/checkpoint_last.pt" ]; then resumes=yes; fi
    fit "$save" "$UPDATES" --arch "${encoding}_transformer$SIZE" --seed "$seed" --lr "$LR" --warmup-updates "$WARMUP" \
        --max-tokens 4096 --no-epoch-checkpoints --save-interval-updates 500 --keep-interval-updates 1 \
        "${training[@]}" "$@" "${OPTIONS[@]}"
    if [ -n "$DRY_RUN" ]; then return; fi
    echo "${resumes:+at least }$((SECONDS - start))" > "$save/seconds"
    mark_trained "$save" "$UPDATES" "$save"/*.txt
}

evaluate() {  # evaluate SAVE: translations and losses of every test
    local save=$1 test options
    for test in "${tests[@]}"; do
        case $test in
            sentences) options=() ;;
            within) options=("${stacks[@]}" --stack-min-tokens $((LONGEST / 2)) --stack-max-tokens "$LONGEST") ;;
            beyond) options=("${stacks[@]}" --stack-min-tokens $((4 * LONGEST))) ;;
        esac
        options+=(--user-dir "$USER_DIR" --path "$save/checkpoint_last.pt" --source-lang "$SRC" --target-lang "$TGT")
        options+=(--num-workers 0 --max-source-positions 100000 --max-target-positions 100000)
        write "$save/$test.txt" fairseq-generate "$DATA" "${options[@]}" --beam "$BEAM" --max-len-a 2 --max-len-b 10 \
            "${REMOVE_BPE[@]}" "${DETOKENIZE[@]}"
        write "$save/$test.loss.txt" fairseq-generate "$DATA" "${options[@]}" --score-reference
    done
}

# 2. Training and evaluation, seed by seed.
for seed in "${SEEDS[@]}"; do
    for i in "${!names[@]}"; do
        save=$OUT/${names[i]}/$seed
        read -r -a variant <<< "${variants[i]}"
        keep_settings "$save" "SYSTEM=${encodings[i]} ${variants[i]}"
        train "$save" "$seed" "${encodings[i]}" "${variant[@]}"
        evaluate "$save"
    done
done

# 3. The report.
report() {
    local test title files name length=()
    text "# Comparison of position encodings" "" "Seeds: ${SEEDS[*]}. See also the [settings](settings)."
    for test in "${tests[@]}"; do
        case $test in
            sentences) title=Sentences ;;
            within) title="Stacks of $((LONGEST / 2)) to $LONGEST tokens" ;;
            beyond) title="Stacks of at least $((4 * LONGEST)) tokens" length=(--train-length "$LONGEST") ;;
        esac
        report_test "$test" "$title" --plot "$OUT/loss.$test.png" "${length[@]}"
        text "" "![loss by position](loss.$test.png)"
    done
    text "" "## Learning curves" "" "![learning curves](learning_curves.png)" ""
    mapfile -t files < <(list_files train.log)
    run python "$ROOT/recipes/plot_learning_curves.py" "$OUT/learning_curves.png" "${files[@]}"
    for name in "${names[@]}"; do
        text "- $name: $UPDATES updates, $(cat "$OUT/$name"/*/seconds 2> /dev/null | paste -sd,) seconds"
    done
}
write_report
