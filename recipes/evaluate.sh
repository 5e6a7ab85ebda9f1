#!/usr/bin/env bash
# How models behave on text longer than they were trained on: one report.
#
#   bash recipes/evaluate.sh NAME=CHECKPOINT[,CHECKPOINT...] ... --data-bin DIR --src en --tgt de --out DIR
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
recipe evaluate "$@"
