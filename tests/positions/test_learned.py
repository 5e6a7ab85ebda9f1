"""The learned table against fairseq's."""

import pytest
import torch
from fairseq.modules import LearnedPositionalEmbedding

from cape_fairseq.positions import token_positions
from cape_fairseq.positions.learned import LearnedEncoding
from tests.support import PAD, batch


@pytest.mark.parametrize("left", [True, False])
def test_equals_fairseqs_with_its_gradient(left):
    tokens = batch([6, 2, 4], left)
    theirs, ours = LearnedPositionalEmbedding(6 + PAD + 1, 8, PAD), LearnedEncoding(6, 8, PAD)
    ours.load_state_dict(theirs.state_dict())
    outputs = theirs(tokens), ours(token_positions(tokens.eq(PAD), PAD + 1))
    assert torch.equal(*outputs)
    for output in outputs:
        output.square().sum().backward()
    assert torch.equal(theirs.weight.grad, ours.weight.grad)
    assert (ours.weight.grad[: PAD + 1] == 0).all()


def test_initial_table():
    table = LearnedEncoding(2000, 64, PAD)
    assert table.max_positions == 2000
    assert (table.weight[PAD] == 0).all()
    assert float(table.weight[PAD + 1 :].std()) == pytest.approx(64**-0.5, rel=0.02)
