#!/usr/bin/env bash
# CAPE, Table 2: WMT14 en-de, 18 + 18 layers (Likhomanenko et al. 2021, on the recipe of ADMIN).
source "$(dirname "${BASH_SOURCE[0]}")/cape_en_de.sh"
size=_wmt_en_de_18l
experiment "$@"
