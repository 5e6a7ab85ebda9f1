#!/usr/bin/env bash
# Fetch and prepare the corpus iwslt14_de_en: bash recipes/data/iwslt14_de_en.sh --out DIR [--archives DIR] [--limit N]
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe prepare-corpus iwslt14_de_en "$@"
