"""What a model adds to the input, as a table by the index of the token.

In translation nothing is drawn, so where positions depend on the token's index alone, row i of a
table is what token i gets. That is how other systems can have them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cape_fairseq.errors import UserError
from cape_fairseq.positions.batch import Source

ON_LENGTH = (
    "positions of this model depend on the length of the text (a mean taken off, a range pressed "
    "together, attention sharpened), so no table can hold them; leave that option out"
)


@torch.no_grad()
def position_table(stack: nn.Module, positions: int) -> Tensor:
    """What the first tokens of an encoder or decoder get: float32 [positions, d].

    On a source with a begin-of-sentence token that one is the first.

    Raises:
        UserError: it depends on the length of the text, too, or there are not so many positions.
    """
    try:
        short, long = added(stack, max(positions // 2, 2)), added(stack, positions)
    except ValueError as error:
        raise UserError(f"{error}; or export fewer with --max-positions") from None
    if not torch.equal(short, long[: len(short)]):
        raise UserError(ON_LENGTH)
    return long


def added(stack: nn.Module, length: int) -> Tensor:
    """What enters the first block with a text of so many tokens: [length, d].

    Raises:
        UserError: scores of the attention depend on the length.
        ValueError: a learned table is shorter.
    """
    placed = stack.positions
    tokens = torch.full((1, length - placed.extra), placed.padding_idx + 3)
    source = None if placed.opens else Source(torch.zeros(1, length, dtype=torch.bool))
    batch = placed.begin(tokens, source=source, causal=source is not None)
    if batch.sharpness:
        raise UserError(ON_LENGTH)
    width = stack.embed_tokens.embedding_dim
    return batch.enter(torch.zeros(length, 1, width), 1)[:, 0].float()
