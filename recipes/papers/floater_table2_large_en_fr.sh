#!/usr/bin/env bash
# FLOATER, Table 2, en-fr, large.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers floater_table2_large_en_fr "$@"
