# WMT14 en-de as the CAPE paper has it, for 6 and 18 layers. Source it.
# shellcheck shell=bash disable=SC2034
source "$(dirname "${BASH_SOURCE[0]}")/cape.sh"
corpus=wmt14_en_de tokens=8192 effective_tokens=32768
hyper+=(--lr 1e-3 --max-epoch 150 --eval-bleu-args '{"beam": 4, "lenpen": 0.6}')
decoding=(--beam 4 --lenpen 0.6)
