#!/usr/bin/env bash
# SHAPE, Table 2, Interpolate, and Table 1: WMT16 en-de in groups of ten sentences (Kiyono et al. 2021).
source "$(dirname "${BASH_SOURCE[0]}")/shape.sh"
derive=concat
decoding+=(--max-len-a 2 --max-len-b 200)  # fairseq would stop ten sentences at 200 subwords

# Table 1: 10,000 training sequences, and the same with the first sentence at the end.
finish() {
    local swapped=$out/swapped order bin models=() spec fields which=average run
    do_step sample "$out/logs" sample_pair "$out/concat/train" "$swapped/original" 10000
    do_step swap "$out/logs" cape-fairseq derive swap "$swapped/original.en" \
        "$swapped/original.de" "$swapped/swapped.en" "$swapped/swapped.de"
    for order in original swapped; do
        do_step "binarize-$order" "$out/logs" binarize "$swapped/$order" --source-lang en --target-lang de \
            --joined-dictionary --srcdict "$data/dict.en.txt" --testpref "$swapped/$order"
    done
    for spec in "${rows[@]}"; do
        IFS=$'\x1f' read -ra fields <<< "$spec"
        [ -z "$only" ] || [[ " $only " == *" ${fields[0]} "* ]] || continue
        run=$out/${fields[0]}/${seeds%% *}
        for order in original swapped; do
            which=$which do_step "translate-$order" "$run/logs" translate "$swapped/$order" "$run" test "$order" en de \
                "${decoding[@]}"
        done
        models+=("${fields[0]}=$run/original.out,$run/swapped.out")
    done
    do_step swap-test "$out/logs" cape-fairseq swap-test "${models[@]}" --language de --output "$out/swap"
}

# sample_pair FROM TO N: lines of a parallel text at equal distances.
declare -F sample_pair > /dev/null || sample_pair() {
    local lines language
    lines=$(wc -l < "$1.en")
    mkdir -p "$(dirname "$2")"
    for language in en de; do
        awk -v n="$3" -v every=$((lines > $3 ? lines / $3 : 1)) '(NR - 1) % every == 0 && found++ < n' \
            "$1.$language" > "$2.$language" || return
    done
}

experiment "$@"
