#!/usr/bin/env bash
# Score an output of fairseq-generate and print BLEU:
#
#   score.sh sacrebleu GENERATED REFERENCE    detokenized text, against the raw reference
#   score.sh tokenized GENERATED              tokenized text, as multi-bleu
#   score.sh compound GENERATED               tokenized text, compounds split at hyphens (WMT14 en-de)
set -euo pipefail
export LC_ALL=C.UTF-8
lines() { grep -a "^$1-" "$2" | sort -t- -k2,2n | cut -f"$3"; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
case $1 in
    sacrebleu)
        lines D "$2" 3 > "$folder/hypothesis"
        sacrebleu "$3" -i "$folder/hypothesis" -m bleu -b -w 2 ;;
    tokenized | compound)
        split() { if [ "$1" = compound ]; then sed -E 's/(\S)-(\S)/\1 ##AT##-##AT## \2/g'; else cat; fi; }
        lines H "$2" 3 | split "$1" > "$folder/hypothesis"
        lines T "$2" 2 | split "$1" > "$folder/reference"
        sacrebleu "$folder/reference" -i "$folder/hypothesis" -m bleu --tokenize none --force -b -w 2 ;;
    *) echo "score: there is no kind $1" >&2; exit 2 ;;
esac
