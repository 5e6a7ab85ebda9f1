# The CAPE paper's machine translation: what its three experiments share (ADMIN's settings). Source it.
# shellcheck shell=bash disable=SC2034
source "$(dirname "${BASH_SOURCE[0]}")/engine.sh"
seeds='1111 10001111 20001111'
hyper=(--residual-init admin --share-all-embeddings --optimizer radam --radam-betas '(0.9, 0.98)' --clip-norm 0
    --lr-scheduler inverse_sqrt --warmup-updates 8000 --warmup-init-lr 1e-7
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1 --keep-last-epochs 2
    --eval-bleu --eval-bleu-remove-bpe --eval-tokenized-bleu
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric)
row sinpos sinpos
row abspos abspos
row relpos relpos --relpos-max-distance 150
row cape5 cape --cape-global-shift 5
row cape10 cape --cape-global-shift 10
row cape50 cape --cape-global-shift 50
