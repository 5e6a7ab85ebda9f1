#!/usr/bin/env bash
# CAPE, Table 2, en-de, 18 + 18 layers.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers cape_en_de_18l "$@"
