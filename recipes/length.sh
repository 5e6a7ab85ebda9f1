#!/usr/bin/env bash
# Which encoding for which text: rows of one table, tested on sentences and stacks.
#
#   bash recipes/length.sh [--data DIR --src LANG --tgt LANG] [--rows "A B ..."] [--out DIR] [...] \
#       [-- FAIRSEQ-TRAIN OPTIONS]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
recipe lengths "$@"
