#!/usr/bin/env bash
# FLOATER, Table 2: WMT14 en-de, large (Liu et al. 2020).
source "$(dirname "${BASH_SOURCE[0]}")/floater.sh"
size=_vaswani_wmt_en_de_big
hyper+=(--dropout 0.3)  # as Vaswani et al.; the paper does not say
table2_rows
experiment "$@"
