#!/usr/bin/env bash
# CAPE, Table 2: WMT14 en-fr, 6 + 6 layers (Likhomanenko et al. 2021, on the recipe of ADMIN).
source "$(dirname "${BASH_SOURCE[0]}")/cape.sh"
corpus=wmt14_en_fr tokens=8000 effective_tokens=640000
hyper+=(--lr 7e-4 --max-epoch 75 --eval-bleu-args '{"beam": 5, "lenpen": 0.8}')
decoding=(--beam 5 --lenpen 0.8)
experiment "$@"
