#!/usr/bin/env bash
# Fetch and prepare the corpus wmt14_en_fr: bash recipes/data/wmt14_en_fr.sh --out DIR [--archives DIR] [--limit N]
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe prepare-corpus wmt14_en_fr "$@"
