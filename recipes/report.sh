# shellcheck shell=bash disable=SC2154
# Sourced by environment.sh and papers/length.yaml: tables of the systems "${names[@]}" with "${SEEDS[@]}". The file FILE of
# a system and a seed is OUT/SYSTEM/SEED/FILE.

run() {  # run COMMAND...: run a command, or print it as it can be pasted into a shell
    if [ -z "${DRY_RUN:-}" ]; then "$@"; else echo "${*@Q}"; fi
}

text() {  # text LINE...: lines of a report
    [ -n "${DRY_RUN:-}" ] || printf '%s\n' "$@"
}

list_files() {  # list_files FILE [SUFFIX]: NAME SUFFIX=FILE,FILE... of every system; a FILE for each seed
    local name
    for name in "${names[@]}"; do
        echo "$name${2:-}=$(printf ",$OUT/$name/%s/$1" "${SEEDS[@]}" | cut -c2-)"
    done
}

report_test() {  # report_test TEST TITLE [OPTIONS of position-loss]: scores, and the loss by position
    local test=$1 title=$2 files; shift 2
    text "" "## $title" ""
    mapfile -t files < <(list_files "$test.txt")
    if [ "$test" != sentences ]; then mapfile -t -O "${#files[@]}" files < <(list_files sentences.txt .one_by_one); fi
    run cape-fairseq compare --language "$TGT" --json "$OUT/$test.json" "${files[@]}"
    mapfile -t files < <(list_files "$test.loss.txt")
    text "" "### Loss by target position" ""
    run cape-fairseq position-loss --json "$OUT/$test.loss.json" "$@" "${files[@]}"
}
