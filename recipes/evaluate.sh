#!/usr/bin/env bash
# How models behave on text longer than they were trained on: one report for any fairseq translation checkpoints.
#
#   bash recipes/evaluate.sh NAME=CHECKPOINT[,CHECKPOINT...] ... --data-bin DIR --src LANG --tgt LANG --out DIR [...]
#
#   NAME=CHECKPOINT[,...]  a model, and more seeds of it; the first model is the baseline
#   --data-bin DIR         binarized data with the split to test on; all models must share its dictionaries
#   --src, --tgt LANG      source and target language
#   --out DIR              report.md, its figures and everything behind them
#   --subset SPLIT         split to test on (test)
#   --bpe-codes FILE       codes of subword-nmt, so that words changed at junctions are segmented as in training
#   --min-tokens N         target tokens of a stack (300)
#   --edges "A B ..."      edges of the bins of source length in tokens, or floater, or shape (shape)
#   --detokenize           undo Moses' tokenization before BLEU
#   --max-tokens N         of a batch (4096)
#
# A second start skips what is done. Models without absolute positions have no part in the shift-invariance probe.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

models=() data='' src='' tgt='' out='' subset=test codes='' tokens=300 edges=shape detokenize='' max=4096
while [ $# -gt 0 ]; do
    case $1 in
        -h|--help) usage; exit ;;
        --detokenize) detokenize=yes; shift ;;
        --src|--tgt|--out|--subset|--edges) need_value "$@"; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
        --data-bin) need_value "$@"; data=$2; shift 2 ;;
        --bpe-codes) need_value "$@"; codes=$2; shift 2 ;;
        --min-tokens) need_value "$@"; tokens=$2; shift 2 ;;
        --max-tokens) need_value "$@"; max=$2; shift 2 ;;
        --*) die "unknown option $1; try --help" ;;
        *=*) models+=("$1"); shift ;;
        *) die "'$1' should be NAME=CHECKPOINT; try --help" ;;
    esac
done
[ ${#models[@]} -gt 0 ] || die "no models; give NAME=CHECKPOINT"
for option in src tgt out; do [ -n "${!option}" ] || die "--$option is missing; try --help"; done
[ -n "$data" ] || die "--data-bin is missing; try --help"
[ -f "$data/dict.$src.txt" ] || die "$data has no dict.$src.txt; give --data-bin what fairseq-preprocess wrote"
[ -z "$codes" ] || [ -f "$codes" ] || die "there is no file $codes; --bpe-codes are what subword-nmt learned"
[[ $tokens =~ ^[1-9][0-9]*$ ]] || die "--min-tokens is $tokens, but it must be a whole number above 0"
compgen -G "$data/$subset.*.bin" > /dev/null || die "$data has no split $subset; choose another --subset"
twice=$(printf '%s\n' "${models[@]%%=*}" | sort | uniq -d)
[ -z "$twice" ] || die "the name $twice is given twice; choose another"
for model in "${models[@]}"; do
    IFS=, read -ra paths <<< "${model#*=}"
    [ ${#paths[@]} -gt 0 ] || die "'$model' should be NAME=CHECKPOINT"
    for path in "${paths[@]}"; do [ -f "$path" ] || die "there is no checkpoint $path"; done
done
install_if_needed
out=$(absolute "$out") data=$(absolute "$data")
# Data that were made anew in the same place are other data.
made_of=("$data/dict.$src.txt" "$data/dict.$tgt.txt" "$data/$subset."*.bin)
sum=$(cat "${made_of[@]}" ${codes:+"$codes"} | sha256sum | cut -c1-12)
remember "$out/settings" "$data $src-$tgt $subset stacks=$tokens codes=$codes sha256=$sum"
bpe=()
[ -z "$codes" ] || bpe=(--bpe subword_nmt --bpe-codes "$(absolute "$codes")")
language=()
[ -z "$detokenize" ] || language=(--language "$tgt")

# generate OUTPUT CHECKPOINT OPTIONS...: fairseq-generate into OUTPUT, which appears when it is complete.
generate() {
    local output=$1 path=$2; shift 2
    fairseq-generate "$data" --user-dir "$root/cape_fairseq" --path "$path" --source-lang "$src" --target-lang "$tgt" \
        --gen-subset "$subset" --beam 4 --max-tokens "$max" --max-len-a 2 --max-len-b 200 --log-format simple \
        ${device[@]+"${device[@]}"} "$@" | tee "$output.tmp" || return
    mv "$output.tmp" "$output"
}

# Codes are for the words at junctions; elsewhere lengths are counted in the tokens of the data.
stacked=(--task stacked_translation --stack-min-tokens "$tokens" "${bpe[@]}")
rm -f "$out"/*.json "$out"/*.tsv "$out"/*.png "$out/report.md"  # of other models, perhaps
first=() losses=() stacked_losses=() swaps=() bleus=() baseline=
for model in "${models[@]}"; do
    name=${model%%=*} number=0 scored='' stacks=''
    IFS=, read -ra paths <<< "${model#*=}"
    for path in "${paths[@]}"; do
        run=$out/$name/$number
        mkdir -p "$run"
        export inputs=$path
        step "score-$name-$number" "$run/logs" generate "$run/score.out" "$path" --score-reference
        step "score-stacks-$name-$number" "$run/logs" generate "$run/score_stacks.out" "$path" --score-reference "${stacked[@]}"
        if [ $number = 0 ]; then
            step "translate-$name" "$run/logs" generate "$run/translate.out" "$path"
            step "translate-stacks-$name" "$run/logs" generate "$run/stacks.out" "$path" "${stacked[@]}"
            step "translate-swapped-$name" "$run/logs" generate "$run/swapped.out" "$path" "${stacked[@]}" --stack-swap
        fi
        unset inputs
        scored+=${scored:+,}$run/score.out stacks+=${stacks:+,}$run/score_stacks.out number=$((number + 1))
    done
    run=$out/$name/0
    first+=("$name=${paths[0]}") losses+=("$name=$scored") stacked_losses+=("$name=$stacks")
    swaps+=("$name=$run/stacks.out,$run/swapped.out") bleus+=("$name=$run/translate.out")
    [ -n "$baseline" ] || baseline=$name
done

longest=$data/train.$src-$tgt.$tgt marked=()
[ ! -f "$longest.idx" ] || marked=(--train-length "$longest")
report() {
    say "$*"
    cape-fairseq "$@" || die "cape-fairseq $1 failed; see above"
}
report position-loss "${stacked_losses[@]}" ${marked[@]+"${marked[@]}"} --output "$out/loss_stacks"
report position-loss "${losses[@]}" ${marked[@]+"${marked[@]}"} --output "$out/loss"
# shellcheck disable=SC2086  # edges are words
report bleu-by-length "${bleus[@]}" "${language[@]}" --edges $edges --output "$out/bleu"
report swap-test "${swaps[@]}" "${language[@]}" --output "$out/swap"
report shift-invariance "${first[@]}" --data-bin "$data" --subset "$subset" --skip-others --output "$out/shift"
for model in "${models[@]:1}"; do
    name=${model%%=*}
    report token-wins "$name=$out/$name/0/score.out" "$baseline=$out/$baseline/0/score.out" \
        --dictionary "$data/dict.$tgt.txt" --output "$out/wins_$name"
done
if [ -n "$codes" ]; then how="segmented by codes of sha256 $(sha256sum "$codes" | cut -c1-12)"; else how="not segmented again"; fi
settings="stacks of $tokens target tokens, junctions with commas and $how; beam 4, at most 2 x source + 200 tokens"
settings+="; BLEU of ${detokenize:+de}tokenized text"
cape-fairseq report "$out" "${models[@]}" --data-bin "$data" --subset "$subset" --settings "$settings" \
    || die "the report could not be written; see above"
