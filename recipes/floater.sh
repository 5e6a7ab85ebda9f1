#!/usr/bin/env bash
# FLOATER by the paper's protocol: train a plain Transformer, copy it into FLOATER, go on at half the peak
# learning rate, average the last checkpoints, test (Liu et al. 2020, appendix B.2).
#
#   bash recipes/floater.sh [--out DIR] [--data-bin DIR --src LANG --tgt LANG] [...] [-- FAIRSEQ-TRAIN OPTIONS]
#
#   --out DIR              where everything goes (runs/floater)
#   --data-bin DIR         binarized data, with --src and --tgt (default: the quick start's corpus)
#   --size SUFFIX          of the architectures (_tiny)
#   --lr X                 peak learning rate of the plain training (4e-3); FLOATER has half of it
#   --warmup N             updates until the peak learning rate, in all trainings (200)
#   --plain-updates N      updates of the plain training (600)
#   --updates N            updates of the fine-tuning (300)
#   --average N            checkpoints to average (5), one after every --updates / N updates; those of epochs are kept, too
#   --compare              also fine-tune the plain model for as long, and train FLOATER from scratch
#   --seed N               (1)
#
# Options after -- go to all trainings. Without --data-bin, "test" is scored with detokenized sacreBLEU;
# with it, the score is fairseq-generate's own on the test split. A second start skips what is done.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$root/runs/floater data= src=en tgt=de size=_tiny lr=4e-3 warmup=200 plain=600 updates=300 average=5 seed=1 compare=
while [ $# -gt 0 ]; do
    case $1 in
        -h|--help) usage; exit ;;
        --) shift; break ;;
        --compare) compare=yes; shift ;;
        --out|--src|--tgt|--size|--lr|--warmup|--updates|--average|--seed)
            need_value "$@"; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
        --data-bin) need_value "$@"; data=$2; shift 2 ;;
        --plain-updates) need_value "$@"; plain=$2; shift 2 ;;
        *) die "unknown option $1 (options for fairseq-train go after --); try --help" ;;
    esac
done
for option in warmup plain updates average seed; do
    [[ ${!option} =~ ^[1-9][0-9]*$ ]] || die "--${option/#plain/plain-updates} is ${!option}, but it must be a whole number above 0"
done
[ "$updates" -ge "$average" ] || die "--updates is $updates, but $average checkpoints are to be averaged"
interval=$((updates / average))
[ "$plain" -ge $((interval * average)) ] \
    || die "--plain-updates is $plain, but must be at least $((interval * average)), as long as checkpoints are averaged over"
[ -z "$data" ] || [ -f "$data/dict.$src.txt" ] || die "$data has no dict.$src.txt; give --data-bin what fairseq-preprocess wrote, and its --src and --tgt"
out=$(absolute "$out")
install_if_needed
half=$(python -c "import sys; print(float(sys.argv[1]) / 2)" "$lr") || die "--lr is $lr, but it must be a number"
remember "$out/settings" "$data $src-$tgt $size lr=$lr warmup=$warmup plain=$plain updates=$updates average=$average seed=$seed ${tiny_training[*]} $*"
if [ -n "$data" ]; then data=$(absolute "$data"); else quickstart_corpus "$out"; data=$out/data-bin; fi

common=(--source-lang "$src" --target-lang "$tgt" "${tiny_training[@]}" --warmup-updates "$warmup" --seed "$seed" "$@")
keep=(--save-interval-updates "$interval" --keep-interval-updates "$average")
epoch_checkpoints=()  # where an epoch ends, fairseq saves no other
runs=(plain floater)

# test_run NAME: average the last checkpoints, translate and score; store FLOATER's vectors and tell their error.
test_run() {
    local run=$out/$1
    inputs=$run/checkpoints/checkpoint_last.pt step average "$run/logs" cape-fairseq average \
        "$run/checkpoints" "$run/checkpoints/checkpoint_average.pt" --last "$average" --every "$interval"
    which=average inputs=$run/checkpoints/checkpoint_average.pt \
        step translate "$run/logs" translate "$data" "$run" test test "$src" "$tgt"
    case $1 in floater|scratch)
        inputs=$run/checkpoints/checkpoint_average.pt step solve "$run/logs" cape-fairseq solve-floater \
            "$run/checkpoints/checkpoint_average.pt" "$run/checkpoints/checkpoint_solved.pt"
        sed "s/^/$recipe: $1: /" "$run/logs/solve.log" ;;
    esac
    [ -f "$out/text/raw/test.$tgt" ] || { say "$1: $(tail -n 1 "$run/test.out")"; return; }
    inputs=$run/test.out step score "$run/logs" cape-fairseq score "$run" --checkpoint average \
        --language "$tgt" --test "test=$out/text/raw/test.$tgt"
}

# fine_tune NAME ARCH: from the plain model's best checkpoint, at half the peak learning rate.
fine_tune() {
    train_model "$data" "$out/$1" --arch "$2_transformer$size" "${common[@]}" --lr "$half" "${keep[@]}" \
        --max-update "$updates" --finetune-from-model "$out/plain/checkpoints/checkpoint_best.pt"
    test_run "$1"
}

train_model "$data" "$out/plain" --arch "sinpos_transformer$size" "${common[@]}" --lr "$lr" --max-update "$plain" \
    "${keep[@]}"
test_run plain
fine_tune floater floater
if [ -n "$compare" ]; then
    fine_tune plain-longer sinpos
    train_model "$data" "$out/scratch" --arch "floater_transformer$size" "${common[@]}" --lr "$lr" "${keep[@]}" \
        --max-update $((plain + updates))
    test_run scratch
    runs+=(plain-longer scratch)
fi
results=()
for run in "${runs[@]}"; do [ -f "$out/$run/results.json" ] && results+=("$out/$run/results.json"); done
[ ${#results[@]} = 0 ] || cape-fairseq compare "${results[@]}"
say "everything is in $out"
