"""Cosine similarities against torch's own, token by token."""

import torch

from cape_fairseq.evaluation.invariance import similarity_sums


def test_sums_of_cosines_over_real_tokens():
    states = [torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    real = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]).bool()
    sums = similarity_sums(states, real)
    for layer in range(2):
        for m in range(3):
            for n in range(3):
                cosines = torch.cosine_similarity(states[m][layer], states[n][layer], dim=-1)
                torch.testing.assert_close(sums[layer, m, n], cosines[real].sum().double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(sums.diagonal(dim1=1, dim2=2), torch.full((2, 3), 9.0, dtype=torch.float64))
