#!/usr/bin/env bash
# CAPE, Table 2, en-fr, 6 + 6 layers.
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
recipe papers cape_en_fr_6l "$@"
