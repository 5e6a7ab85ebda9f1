#!/usr/bin/env bash
# FLOATER, Table 2: WMT14 en-de, base size (Liu et al. 2020).
source "$(dirname "${BASH_SOURCE[0]}")/floater.sh"
row sinpos-input sinpos
row abspos-input abspos
row sinpos-all sinpos --position-layers all
row abspos-all abspos --position-layers all
row floater-all floater from=sinpos-input "${fine_tuning[@]}"
row floater-input floater from=sinpos-input "${fine_tuning[@]}" --floater-layers input
experiment "$@"
