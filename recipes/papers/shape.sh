# The SHAPE paper: what its three data sets share (Kiyono et al. 2021, Table 4). Source it.
# shellcheck shell=bash disable=SC2034
source "$(dirname "${BASH_SOURCE[0]}")/engine.sh"
corpus=wmt16_en_de tokens=7000 effective_tokens=112000 average=10 subsets=(test test1 test2)
# Noam's schedule with factor 2 at width 512: its peak after 8,000 updates is 2 / sqrt(512 * 8000).
hyper=(--share-all-embeddings --optimizer adam --adam-betas '(0.9, 0.998)'
    --lr-scheduler inverse_sqrt --warmup-updates 8000 --lr 9.882e-4
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.1
    --max-update 200000 --no-epoch-checkpoints --save-interval-updates 5000 --keep-interval-updates 10)
decoding=(--beam 4)
row ape sinpos
row rpe relpos --relpos-max-distance 16
row shape shape --shape-max-shift 500
