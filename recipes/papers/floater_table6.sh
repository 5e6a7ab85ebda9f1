#!/usr/bin/env bash
# FLOATER, Table 6, en-de, base.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers floater_table6 "$@"
