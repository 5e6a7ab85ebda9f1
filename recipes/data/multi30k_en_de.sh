#!/usr/bin/env bash
# Fetch and prepare the corpus multi30k_en_de: bash recipes/data/multi30k_en_de.sh --out DIR [--archives DIR] [--limit N]
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe prepare-corpus multi30k_en_de "$@"
