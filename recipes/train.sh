#!/usr/bin/env bash
# Train one architecture on parallel text, translate a test set and score it.
#
#   bash recipes/train.sh --data DIR --arch ARCH --src en --tgt de --out DIR [...] [-- FAIRSEQ-TRAIN OPTIONS]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
recipe train "$@"
