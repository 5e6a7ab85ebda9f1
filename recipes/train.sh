#!/usr/bin/env bash
# Train one architecture on parallel text, translate a test set and score it.
#
#   bash recipes/train.sh --data DIR --arch ARCH --src en --tgt de --out DIR [...] [-- FAIRSEQ-TRAIN OPTIONS]
#
#   --data DIR          folder with SPLIT.LANG or SPLIT.LANG.gz: UTF-8, one sentence a line, no empty lines
#   --arch ARCH         sinpos_transformer_tiny, cape_transformer_tiny, shape_transformer_tiny, ...
#   --src, --tgt LANG   source and target language
#   --out DIR           everything goes here; text and binarized data are shared by all runs in it
#   --train, --valid, --test SPLIT    names of the splits (train, val, test_2016_flickr)
#   --bpe N             joint BPE merges (4000)
#   --max-update N      updates to train (2200); a larger number in the same --out goes on from the last
#   --select loss|bleu  what chooses the checkpoint on the validation set (loss)
#   --seed N            (1)
#   --name NAME         name of the run: OUT/NAME/results.json (ARCH)
#
# A second start skips what is done; a killed run goes on where it was.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

train=train valid=val test=test_2016_flickr bpe=4000 updates=2200 select=loss seed=1
data= arch= src= tgt= out= name=
while [ $# -gt 0 ]; do
    case $1 in
        -h|--help) usage; exit ;;
        --) shift; break ;;
        --data|--arch|--src|--tgt|--out|--train|--valid|--test|--bpe|--select|--seed|--name)
            need_value "$@"; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
        --max-update) need_value "$@"; updates=$2; shift 2 ;;
        *) die "unknown option $1 (options for fairseq-train go after --); try --help" ;;
    esac
done
for option in data arch src tgt out; do
    [ -n "${!option}" ] || die "--$option is missing; try --help"
done
for option in bpe updates seed; do
    [[ ${!option} =~ ^[1-9][0-9]*$ ]] \
        || die "--${option/updates/max-update} is ${!option}, but it must be a whole number above 0"
done
choose=()
case $select in
    loss) ;;
    bleu) choose=(--eval-bleu --eval-bleu-args '{"beam": 4}' --eval-bleu-detok moses
        --eval-bleu-detok-args "{\"target_lang\": \"$tgt\"}" --eval-bleu-remove-bpe
        --best-checkpoint-metric bleu --maximize-best-checkpoint-metric) ;;
    *) die "--select is $select, but it must be loss or bleu" ;;
esac
[ -d "$data" ] || die "there is no folder $data; give --data a folder with $train.$src and $train.$tgt"
out=$(absolute "$out") run=$out/${name:-$arch} text=$out/text

install_if_needed
files=()
for split in "$train" "$valid" "$test"; do
    for lang in "$src" "$tgt"; do
        found=
        for file in "$data/$split.$lang" "$data/$split.$lang.gz"; do [ -f "$file" ] && { found=$file; break; }; done
        [ -n "$found" ] || die "there is no $split.$lang or $split.$lang.gz in $data"
        files+=("$found")
    done
done
cape-fairseq check-text "${files[@]}" || exit 1
remember "$out/settings" "$train $valid $test $src-$tgt bpe=$bpe checksum=$(cat "${files[@]}" | cksum)"
remember "$run/settings" "--arch $arch --seed $seed --select $select ${tiny_training[*]} $*"

for i in 0 1; do
    lang=$src
    [ $i = 0 ] || lang=$tgt
    step "tokenize-$lang" "$text/logs" cape-fairseq tokenize "$lang" \
        "${files[i]}" "$text/train.$lang" "${files[i + 2]}" "$text/valid.$lang" "${files[i + 4]}" "$text/test.$lang"
done
prepare_bpe "$text" "$out/data-bin" "$bpe" "$src" "$tgt" test

train_model "$out/data-bin" "$run" --arch "$arch" --source-lang "$src" --target-lang "$tgt" \
    "${tiny_training[@]}" --max-update "$updates" --seed "$seed" ${choose[@]+"${choose[@]}"} "$@"
inputs=$run/checkpoints/checkpoint_best.pt \
    step translate "$run/logs" translate "$out/data-bin" "$run" test "$test" "$src" "$tgt"
rm -f "$run/logs/score.done"
step score "$run/logs" cape-fairseq score "$run" --test "$test=${files[5]}" --language "$tgt"
cat "$run/logs/score.log"
