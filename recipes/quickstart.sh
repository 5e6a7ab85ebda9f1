#!/usr/bin/env bash
# Train, translate and score two small models on a corpus made on the spot, in minutes on a CPU.
#
#   bash recipes/quickstart.sh [--out DIR]
#
#   --out DIR    where everything goes (runs/quickstart)
#
# sinpos has plain sinusoidal positions, cape has CAPE's. "test" has sentences as long as those in
# training, "test_long" longer ones. A second start skips what is done.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$root/runs/quickstart
while [ $# -gt 0 ]; do
    case $1 in
        -h|--help) usage; exit ;;
        --out) need_value "$@"; out=$(absolute "$2"); shift 2 ;;
        *) die "unknown option $1; try --help" ;;
    esac
done
install_if_needed
begin=$SECONDS text=$out/text

quick=("${tiny_training[@]}" --max-tokens 2048 --warmup-updates 200 --max-update 600 --seed 1)
remember "$out/settings" "${quick[*]}"
quickstart_corpus "$out"

for encoding in sinpos cape; do
    run=$out/$encoding
    train_model "$out/data-bin" "$run" --arch "${encoding}_transformer_tiny" --source-lang en --target-lang de \
        "${quick[@]}"
    inputs=$run/checkpoints/checkpoint_best.pt
    inputs=$inputs step translate-test "$run/logs" translate "$out/data-bin" "$run" test test en de
    inputs=$inputs step translate-test_long "$run/logs" translate "$out/data-bin" "$run" test1 test_long en de
    inputs=$run/test_long.out step score "$run/logs" cape-fairseq score "$run" --language de \
        --test "test=$text/raw/test.de" --test "test_long=$text/raw/test_long.de"
    inputs=
done
cape-fairseq compare "$out/sinpos/results.json" "$out/cape/results.json"
say "done in $((SECONDS - begin)) s; everything is in $out"
