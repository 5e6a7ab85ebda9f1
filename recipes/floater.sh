#!/usr/bin/env bash
# FLOATER by the paper's protocol: train, copy, go on, average, test.
#
#   bash recipes/floater.sh [--out DIR] [--data-bin DIR --src LANG --tgt LANG] [...] [-- FAIRSEQ-TRAIN OPTIONS]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
recipe floater "$@"
