#!/usr/bin/env bash
# SHAPE, Table 7: APE by fairseq's own recipe.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers shape_table7 "$@"
