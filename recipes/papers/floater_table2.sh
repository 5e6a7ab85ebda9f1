#!/usr/bin/env bash
# FLOATER, Table 2: WMT14 en-de, base (Liu et al. 2020).
source "$(dirname "${BASH_SOURCE[0]}")/floater.sh"
table2_rows
experiment "$@"
