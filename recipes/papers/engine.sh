# What the papers' experiments share: one corpus, rows of a table, seeds; train, select or average, translate, score.
# An experiment sets the variables below, names its rows, and calls `experiment "$@"`. Options of every experiment:
#
#   --out DIR          everything goes here (runs/NAME OF THE EXPERIMENT)
#   --archives DIR     the corpus's archives, where they are already; else they are fetched to OUT/archives
#   --rows "A B ..."   only these rows (all)
#   --seeds "N ..."    (the experiment's own)
#   --gpus N --nodes M --node-rank R --master HOST:PORT
#                      GPUs of a node, nodes, this node's number, and where the first one listens; the tokens of an
#                      update stay the paper's, by accumulation (1, 1, 0, 127.0.0.1:29500)
#   --smoke            the same path with a small model and a few updates, without a GPU: on a slice of --archives, or
#                      without them on made-up archives of the same names and formats
#   --dry-run          print the commands instead
#
# A second start skips what is done; a killed training goes on where it was.
# shellcheck shell=bash disable=SC2034,SC2154
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# --- an experiment sets these; one place for each hyper-parameter ---
corpus='' size=_wmt_en_de derive=none tokens=4096 effective_tokens=4096 average=0 subsets=(test) names=()
hyper=() decoding=() rows=() seeds='1 10000001 20000001'
# fairseq seeds update n with seed + n, so seeds are further apart than any run is long

# row NAME ENCODING [from=ROW] OPTIONS...: a row of the table; from=ROW starts from that row's model.
row() { local IFS=$'\x1f'; rows+=("$*"); }

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; sed -n '/^#   --out/,/^# A second/s/^# \{0,1\}//p' "$root/recipes/papers/engine.sh"; }

experiment() {
    local gpus=1 nodes=1 node_rank=0 master=127.0.0.1:29500 smoke='' dry='' only='' out=$root/runs/$recipe archives=''
    while [ $# -gt 0 ]; do
        case $1 in
            -h|--help) usage; exit ;;
            --smoke) smoke=yes; shift ;;
            --dry-run) dry=yes; shift ;;
            --out|--archives|--seeds|--gpus|--nodes|--master) need_value "$@"; printf -v "${1#--}" '%s' "$2"; shift 2 ;;
            --node-rank) need_value "$@"; node_rank=$2; shift 2 ;;
            --rows) need_value "$@"; only=$2; shift 2 ;;
            *) die "unknown option $1; try --help" ;;
        esac
    done
    local option name spec found=''
    for option in gpus nodes; do
        [[ ${!option} =~ ^[1-9][0-9]*$ ]] || die "--$option is ${!option}, but it must be a whole number above 0"
    done
    [[ $node_rank =~ ^[0-9]+$ ]] && [ "$node_rank" -lt "$nodes" ] \
        || die "--node-rank is $node_rank, but it must be a number from 0 to $((nodes - 1))"
    for name in $seeds; do
        [[ $name =~ ^[1-9][0-9]*$ ]] || die "--seeds has $name, but seeds must be whole numbers above 0"
    done
    for name in $only; do
        for spec in "${rows[@]}"; do [ "${spec%%$'\x1f'*}" = "$name" ] && found=yes; done
        [ -n "$found" ] || die "there is no row $name; choose from ${rows[*]%%$'\x1f'*}"
        found=''
    done
    local fields
    for spec in "${rows[@]}"; do  # a row that starts from another needs it
        IFS=$'\x1f' read -ra fields <<< "$spec"
        [ -n "$only" ] && [[ " $only " == *" ${fields[0]} "* ]] && [[ ${fields[2]-} == from=* ]] || continue
        name=${fields[2]#from=}
        [[ " $only " == *" $name "* ]] || [ -d "$out/$name" ] \
            || die "row ${fields[0]} starts from row $name; add it: --rows \"$name $only\""
    done
    out=$(absolute "$out")
    [ -z "$archives" ] || archives=$(absolute "$archives")
    if [ -n "$dry" ]; then print_commands; else install_if_needed; fi
    prepare_run
    [ "$node_rank" = 0 ] || [ -n "$dry" ] || [ -d "$data" ] \
        || die "there are no data in $data yet; start the first node, with the same --out on a shared disk"
    local seed
    for seed in $seeds; do
        for spec in "${rows[@]}"; do
            IFS=$'\x1f' read -ra fields <<< "$spec"
            [ -z "$only" ] || [[ " $only " == *" ${fields[0]} "* ]] || continue
            run_row "$seed" "${fields[@]}"
        done
    done
    ! declare -F finish > /dev/null || finish
    rm -f "$out/logs/collect.done"
    do_step collect "$out/logs" cape-fairseq collect "$out" --table "$recipe"
    [ -n "$dry" ] || [ "$node_rank" != 0 ] || cat "$out/logs/collect.log"
}

# do_step NAME LOGDIR COMMAND...: a step, or the commands in it on the screen. Nodes other than the first only train.
do_step() {
    [ "$node_rank" = 0 ] || [ "$1" = train ] || return 0
    if [ -z "$dry" ]; then step "$@"; else "${@:3}"; fi
}

# print_commands: let the programs that steps call print themselves, and those that move files do nothing.
print_commands() {
    show() { printf '%q ' "$@"; printf '\n'; }
    cape-fairseq() { show cape-fairseq "$@"; }
    torchrun() { show torchrun "$@"; }
    fairseq-train() { show fairseq-train "$@"; }
    fairseq-generate() { show fairseq-generate "$@"; }
    fairseq-preprocess() { show fairseq-preprocess "$@"; }
    cp() { show cp "$@"; }
    sample_pair() { show sample_pair "$@"; }
    tee() { cat; }
    mv() { :; }
    rm() { :; }
    mkdir() { :; }
}

# prepare_run: settings of --smoke, the number of accumulated batches, and the data.
prepare_run() {
    local world=$((gpus * nodes)) limit=()
    update_freq=$(((effective_tokens + tokens * world - 1) / (tokens * world)))
    batch_tokens=$((effective_tokens / (world * update_freq)))
    small=() precision=(--fp16)
    if [ -n "$smoke" ]; then
        seeds=${seeds%% *} limit=(--limit 1000) update_freq=1 batch_tokens=500
        small=(--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 64 --encoder-ffn-embed-dim 128
            --encoder-attention-heads 4 --decoder-attention-heads 4 --max-update 6 --save-interval-updates 2
            --warmup-updates 4 --log-interval 1)
        decoding+=(--max-len-a 0 --max-len-b 10 --beam 2)
    fi
    [ -z "$smoke${device[*]-}" ] || precision=() device=(--cpu)
    text=$out/corpus data=$out/corpus/data-bin
    local kind=archives
    [ -z "$smoke" ] || [ -n "$archives" ] || kind=stand-ins
    [ -n "$dry" ] || [ "$node_rank" != 0 ] || remember "$out/text" "$kind"
    [ -z "$smoke" ] || [ -n "$archives" ] || { archives=$out/stand-ins
        [ -d "$archives" ] || do_step stand-ins "$out/logs" \
            cape-fairseq stand-ins "$corpus" "$archives"; }
    do_step "corpus" "$out/logs" cape-fairseq prepare-corpus "$corpus" --out "$text" \
        --archives "${archives:-$out/archives}" ${limit[@]+"${limit[@]}"}
    [ "$derive" = none ] || derive_data "$derive"
}

# split_names: the splits of the corpus, as fairseq calls them.
split_names() { printf '%s\n' train valid "${subsets[@]}"; }

# derive_data KIND: another data set from the segmented text of the corpus (SHAPE's and FLOATER's).
derive_data() {
    local kind=$1 source=${corpus%_*} target=${corpus##*_} split tests=() derived=$out/$1 options=()
    source=${source##*_}
    for split in $(split_names); do
        case $kind in
            filter) [ "$split" = train ] || { do_step "copy-$split" "$out/logs" copy_pair "$text/bpe/$split" "$derived/$split" \
                        "$source" "$target"; continue; } ;;
            short-to-long) [ "$split" = valid ] || continue
                do_step "copy-$split" "$out/logs" copy_pair "$text/bpe/$split" "$derived/$split" "$source" "$target"
                continue ;;
        esac
        do_step "$kind-$split" "$out/logs" cape-fairseq derive "$kind" "$text/bpe/$split.$source" \
            "$text/bpe/$split.$target" "$derived/$split.$source" "$derived/$split.$target"
    done
    if [ "$kind" = short-to-long ]; then
        do_step "$kind" "$out/logs" cape-fairseq derive "$kind" "$text/bpe/train.$source" \
            "$text/bpe/train.$target" "$derived" ${smoke:+--edges 10 12 14 16 inf}
        local bins=(80-100 100-120 120-140 140-inf) bin
        [ -z "$smoke" ] || bins=(10-12 12-14 14-16 16-inf)
        subsets=() names=()
        for bin in "${bins[@]}"; do
            if [ -z "$dry" ] && [ ! -s "$derived/test.$bin.$source" ]; then say "no sentences of $bin tokens"; continue; fi
            tests+=("$derived/test.$bin") names+=("$bin")
            [ ${#subsets[@]} = 0 ] && subsets=(test) || subsets+=("test${#subsets[@]}")
        done
    else
        for split in "${subsets[@]}"; do tests+=("$derived/$split"); done
    fi
    # A separator is a new word; else the words are those of the corpus.
    [ "$kind" = concat ] || options=(--srcdict "$data/dict.$source.txt")
    data=$derived/data-bin
    do_step "binarize-$kind" "$out/logs" binarize "$data" --source-lang "$source" --target-lang "$target" \
        --joined-dictionary --trainpref "$derived/train" --validpref "$derived/valid" \
        --testpref "$(IFS=,; echo "${tests[*]}")" ${options[@]+"${options[@]}"}
}

# copy_pair FROM TO SOURCE TARGET: both sides of a parallel text.
copy_pair() {
    mkdir -p "$(dirname "$2")"
    cp "$1.$3" "$2.$3" && cp "$1.$4" "$2.$4"
}

# launch OPTIONS...: fairseq-train on the GPUs asked for.
launch() {
    set -- "$@" --distributed-world-size $((gpus * nodes))  # fairseq would take every GPU that it sees
    if [ $((gpus * nodes)) = 1 ]; then
        train_logged "$@"
    else
        local log=$1; shift
        torchrun --nproc_per_node "$gpus" --nnodes "$nodes" --node_rank "$node_rank" --master_addr "${master%:*}" \
            --master_port "${master##*:}" "$(command -v fairseq-train)" "$@" 2>&1 | (trap '' TERM; tee -a "$log")
    fi
}

# run_row SEED NAME ENCODING [from=ROW] OPTIONS...: everything for one row and seed.
run_row() {
    local seed=$1 name=$2 encoding=$3 from=() start='' subset index; shift 3
    local run=$out/$name/$seed which=best
    if [[ ${1-} == from=* ]]; then
        [ -n "$dry" ] || [ -f "$out/${1#from=}/$seed/checkpoints/checkpoint_best.pt" ] \
            || die "row $name starts from row ${1#from=}, which has no checkpoint in $out; add it to --rows"
        start=$out/${1#from=}/$seed/checkpoints/checkpoint_best.pt from=(--finetune-from-model "$start"); shift
    fi
    [ "$average" = 0 ] || which=average
    [ -n "$dry" ] || remember "$run/settings" "$encoding $size $* ${hyper[*]} tokens=$effective_tokens ${small[*]-}"
    inputs=$start do_step train "$run/logs" launch "$run/logs/training.log" "$data" --save-dir "$run/checkpoints" \
        "${training[@]}" --arch "${encoding}_transformer$size" "${hyper[@]}" --max-tokens "$batch_tokens" \
        --update-freq "$update_freq" --seed "$seed" ${from[@]+"${from[@]}"} ${precision[@]+"${precision[@]}"} \
        ${device[@]+"${device[@]}"} "$@" ${small[@]+"${small[@]}"}
    if [ "$average" != 0 ]; then
        do_step average "$run/logs" cape-fairseq average "$run/checkpoints" \
            "$run/checkpoints/checkpoint_average.pt" --last "$([ -n "$smoke" ] && echo 2 || echo "$average")"
    fi
    local source=${corpus%_*} target=${corpus##*_} tests=()
    source=${source##*_}
    for index in "${!subsets[@]}"; do
        subset=${subsets[index]} name=${names[index]:-${subsets[index]}}
        which=$which do_step "translate-$name" "$run/logs" translate "$data" "$run" "$subset" "$name" "$source" "$target" \
            "${decoding[@]}"
        # Original references where the test set is the original one; joined or binned sets have their own.
        case $derive in
            none|filter) tests+=(--test "$name=$text/raw/$subset.$target") ;;
            *) tests+=(--test "$name") ;;
        esac
    done
    do_step score "$run/logs" cape-fairseq score "$run" --checkpoint "$which" --language "$target" \
        "${tests[@]}" --tokenized
}
