#!/usr/bin/env bash
# Fetch and prepare the corpus wmt16_en_de: bash recipes/data/wmt16_en_de.sh --out DIR [--archives DIR] [--limit N]
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe prepare-corpus wmt16_en_de "$@"
