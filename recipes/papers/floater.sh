# The FLOATER paper's machine translation: what its experiments share (Liu et al. 2020, appendix B). Source it.
# shellcheck shell=bash disable=SC2034
source "$(dirname "${BASH_SOURCE[0]}")/engine.sh"
corpus=wmt14_250_en_de tokens=4096 effective_tokens=32768 average=5 seeds=1
hyper=(--share-all-embeddings --optimizer adam --adam-betas '(0.9, 0.98)' --lr-scheduler inverse_sqrt
    --warmup-updates 4000 --warmup-init-lr 1e-7 --lr 7e-4
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0.1 --max-epoch 30 --keep-last-epochs 5)
decoding=(--beam 4 --lenpen 0.6)
fine_tuning=(--lr 3.5e-4 --max-epoch 10)  # half the peak learning rate
# The paper's solver; the default here is ten times coarser, with an error below 1e-4 of the vectors.
solver=(--floater-solver rk4 --floater-solver-steps 5 --floater-gradient adjoint)

# table2_rows: encoders at all blocks and at the input.
table2_rows() {
    row sinpos-input sinpos
    row abspos-input abspos
    row sinpos-all sinpos --position-layers all
    row abspos-all abspos --position-layers all
    row floater-all floater from=sinpos-input "${fine_tuning[@]}" "${solver[@]}"
    row floater-input floater from=sinpos-input "${fine_tuning[@]}" "${solver[@]}" --floater-layers input
}
