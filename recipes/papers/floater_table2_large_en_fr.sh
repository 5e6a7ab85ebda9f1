#!/usr/bin/env bash
# FLOATER, Table 2: WMT14 en-fr, large (Liu et al. 2020).
source "$(dirname "${BASH_SOURCE[0]}")/floater.sh"
size=_vaswani_wmt_en_de_big corpus=wmt14_en_fr
# One epoch has one end, so what is averaged is saved within it.
fine_tuning=(--lr 3.5e-4 --max-epoch 1 --no-epoch-checkpoints --save-interval-updates 1000 --keep-interval-updates 5)
table2_rows
experiment "$@"
