#!/usr/bin/env bash
# Fetch and prepare the corpus wmt16_en_de: bash recipes/data/wmt16_en_de.sh --out DIR [--archives DIR] [--workers N] [--limit N]
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
case " $* " in *" -h "*|*" --help "*) usage; exit ;; esac
install_if_needed
exec cape-fairseq prepare-corpus wmt16_en_de "$@"
