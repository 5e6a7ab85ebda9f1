#!/usr/bin/env bash
# Which encoding for which text: every row trained alike, tested on sentences and on stacks of them.
#
#   bash recipes/length.sh [--data DIR --src LANG --tgt LANG] [--out DIR] [...]
#
#   --data DIR          text as recipes/train.sh takes it (default: the quick start's corpus)
#   --src, --tgt LANG   source and target language (en, de)
#   --train, --valid, --test SPLIT    names of the splits (train, valid, test)
#   --out DIR           where everything goes (runs/length)
#   --rows "A B ..."    only these rows (all; --rows list prints them)
#   --seeds "N ..."     (1 10000001 20000001)
#   --max-update N      updates of every row (600; with --data 3000)
#   --stack N           target tokens of the stacks that are tested on, and most tokens of those
#                       that mixed rows are trained on (100; with --data 300)
#   --bpe N             joint BPE merges, with --data (4000)
#
# The row "split, translate, join" is sinpos on the sentences of each stack. OUT/length.json and
# length.png have the table; a second start skips what is done.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

data='' src=en tgt=de train=train valid=valid test=test out=$root/runs/length only='' bpe=4000
seeds='1 10000001 20000001' updates='' stack=''
while [ $# -gt 0 ]; do
    case $1 in
        -h|--help) usage; exit ;;
        --data|--src|--tgt|--train|--valid|--test|--out|--seeds|--stack|--bpe)
            need_value "$@"; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
        --rows) need_value "$@"; only=$2; shift 2 ;;
        --max-update) need_value "$@"; updates=$2; shift 2 ;;
        *) die "unknown option $1; try --help" ;;
    esac
done
updates=${updates:-$([ -n "$data" ] && echo 3000 || echo 600)}
stack=${stack:-$([ -n "$data" ] && echo 300 || echo 100)}
for option in updates stack bpe; do
    [[ ${!option} =~ ^[1-9][0-9]*$ ]] \
        || die "--${option/updates/max-update} is ${!option}, but it must be a whole number above 0"
done
for seed in $seeds; do
    [[ $seed =~ ^[1-9][0-9]*$ ]] || die "--seeds has $seed, but seeds must be whole numbers above 0"
done
[ -n "$seeds" ] || die "--seeds is empty; give at least one number"
out=$(absolute "$out") text=$out/text bin=$out/data-bin

# row NAME ENCODING OPTIONS...: everything that is trained; "mixed" stands for mixed lengths.
names=() specs=()
row() { names+=("$1"); local IFS=$'\x1f'; specs+=("${*:2}"); }
row sinpos sinpos
row abspos abspos
row nopos nopos
row cape cape
row shape shape
row relpos relpos
row rope rope
row alibi alibi
row floater floater
row t5 t5
row fire fire
row kerple kerple
row randpos sinpos --position-augmentation randpos --randpos-range $((4 * stack))
row cape-unscaled cape --source-scale 1 --source-bos off
row cape-far cape --cape-global-shift "$stack"
row cape-grown cape --cape-global-shift "$stack" --shift-warmup "$updates"
row cape-share cape --cape-global-shift "$stack" --shift-probability 0.5
row shape-far shape --shape-max-shift "$stack"
row shape-shared shape --shape-max-shift "$stack" --shape-shared-shift
row shape-grown shape --shape-max-shift "$stack" --shift-warmup "$updates"
row sinpos-mixed sinpos mixed
row cape-mixed cape mixed
row shape-mixed shape --shape-max-shift 50 mixed
[ "$only" != list ] || { printf '%s\n' "${names[@]}"; exit; }
for name in $only; do
    [[ " ${names[*]} " == *" $name "* ]] || die "there is no row $name; choose from ${names[*]}"
done
install_if_needed

if [ -z "$data" ]; then
    remember "$out/settings" "quickstart stack=$stack updates=$updates"
    quickstart_corpus "$out"
else
    [ -d "$data" ] || die "there is no folder $data; give --data a folder with $train.$src and $train.$tgt"
    files=()
    for split in "$train" "$valid" "$test"; do
        for lang in "$src" "$tgt"; do
            found=
            for file in "$data/$split.$lang" "$data/$split.$lang.gz"; do
                [ -f "$file" ] && { found=$file; break; }
            done
            [ -n "$found" ] || die "there is no $split.$lang or $split.$lang.gz in $data"
            files+=("$found")
        done
    done
    cape-fairseq check-text "${files[@]}" || exit 1
    remember "$out/settings" "$train $valid $test $src-$tgt bpe=$bpe stack=$stack updates=$updates checksum=$(cat "${files[@]}" | cksum)"
    for i in 0 1; do
        lang=$src
        [ $i = 0 ] || lang=$tgt
        step "tokenize-$lang" "$text/logs" cape-fairseq tokenize "$lang" "${files[i]}" "$text/train.$lang" \
            "${files[i + 2]}" "$text/valid.$lang" "${files[i + 4]}" "$text/test.$lang"
    done
    prepare_bpe "$text" "$bin" "$bpe" "$src" "$tgt" test
fi
mixed=(--task stacked_translation --stack-junction none --stack-probability 0.3 --stack-max-tokens "$stack")
stacked=(--task stacked_translation --stack-junction none --stack-min-tokens "$stack" --max-len-a 2 --max-len-b 200)

# score_references RUN: log-probabilities of the references of stacks, without joining subwords.
score_references() {
    fairseq-generate "$bin" --user-dir "$root/cape_fairseq" --path "$1/checkpoints/checkpoint_best.pt" \
        --source-lang "$src" --target-lang "$tgt" --gen-subset test --max-tokens 4096 --score-reference \
        --log-format simple ${device[@]+"${device[@]}"} "${stacked[@]}" | tee "$1/score_stacks.out.tmp" || return
    mv "$1/score_stacks.out.tmp" "$1/score_stacks.out"
}

for seed in $seeds; do
    for i in "${!names[@]}"; do
        name=${names[i]} run=$out/${names[i]}/$seed options=()
        [ -z "$only" ] || [[ " $only " == *" $name "* ]] || continue
        IFS=$'\x1f' read -ra spec <<< "${specs[i]}"
        for word in "${spec[@]:1}"; do
            if [ "$word" = mixed ]; then options+=("${mixed[@]}"); else options+=("$word"); fi
        done
        say "row $name, seed $seed"
        [ -n "$data" ] || options+=(--max-tokens 2048 --warmup-updates 200)
        train_model "$bin" "$run" --arch "${spec[0]}_transformer_tiny" --source-lang "$src" --target-lang "$tgt" \
            "${tiny_training[@]}" --max-update "$updates" --seed "$seed" "${options[@]}"
        best=$run/checkpoints/checkpoint_best.pt
        inputs=$best step translate "$run/logs" translate "$bin" "$run" test test "$src" "$tgt"
        inputs=$best step translate-stacks "$run/logs" translate "$bin" "$run" test stacks "$src" "$tgt" "${stacked[@]}"
        inputs=$best step score-stacks "$run/logs" score_references "$run"
        inputs=$run/score_stacks.out step measure "$run/logs" cape-fairseq length-run "$run" --language "$tgt"
    done
done
cape-fairseq length "$out" --output "$out/length"
