#!/usr/bin/env bash
# FLOATER, Table 2: WMT14 en-fr, base (Liu et al. 2020).
source "$(dirname "${BASH_SOURCE[0]}")/floater.sh"
corpus=wmt14_en_fr fine_tuning=(--lr 3.5e-4 --max-epoch 1)
table2_rows
experiment "$@"
