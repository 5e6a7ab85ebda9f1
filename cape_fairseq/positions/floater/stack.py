"""FLOATER in a stack of blocks: which trajectory goes where (Liu et al. 2020, sections 3.1-3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cape_fairseq.positions.floater.trajectories import Trajectories
from cape_fairseq.positions.padding import Padding

# Along the stack's own tokens; in a decoder also what the cross-attention gets, by where it runs.
OWN = ("query_bias", "key_bias", "value_bias")
CROSS_OWN = ("cross_query_bias",)
CROSS_SOURCE = ("cross_key_bias", "cross_value_bias")
INPUT = ("input",)
NAMES = {"encoder": OWN, "decoder": (*OWN, *CROSS_OWN, *CROSS_SOURCE)}


class StackFlow(Trajectories):
    """The trajectories of an encoder or a decoder: one for each name in each block that has any.

    Args:
        dim: width d of the vectors.
        blocks: how many blocks have positions.
        names: what each of them gets.
        two: whether what runs along the source has dynamics of its own, as in the authors' code.
        settings: of :class:`Trajectories`.
    """

    def __init__(
        self, dim: int, blocks: int, names: Sequence[str], two: bool = False, **settings: Any
    ) -> None:
        self.names = tuple(name for name in names if not (two and name in CROSS_SOURCE))
        self.blocks = blocks
        source = [name in CROSS_SOURCE for name in self.names]
        groups = [int(along and not all(source)) for along in source]
        super().__init__(dim, blocks * len(self.names), groups=groups * blocks, **settings)
        self.counted = dict(zip(groups, self.names, strict=True))  # a name of each group
        # Forms may have as many trajectories as others; this tells them apart in a checkpoint.
        self.register_buffer("names_a_block", torch.tensor(len(self.names)))
        self.source = StackFlow(dim, blocks, CROSS_SOURCE, **settings) if two else None

    def for_blocks(self, own: Places, source: Places | None = None) -> list[dict[str, Tensor]]:
        """Solve for a batch: what each block gets by name, [T or S, B or 1, d].

        Args:
            own: places of the stack's own tokens.
            source: places of the source's tokens in a decoder, while the keys and values of its
                cross-attention are still to be made.
        """
        places = dict.fromkeys((*OWN, *CROSS_OWN, *INPUT), own)
        if source is not None:
            places.update(dict.fromkeys(CROSS_SOURCE, source))
        found = self.taken(places)
        if self.source is None:
            return found
        return [one | other for one, other in zip(found, self.source.taken(places), strict=True)]

    def taken(self, places: Mapping[str, Places]) -> list[dict[str, Tensor]]:
        """What each block gets of this module's own names, as far as they have places."""
        named = [(i, name) for i, name in enumerate(self.names) if name in places]
        if not named:
            return [{} for _ in range(self.blocks)]
        if self.training:
            for group, name in self.counted.items():
                if name in places:
                    self.seen.add(group, places[name].lengths)
        # One view of each; slices would each make a gradient of the size of them all.
        trajectories = self(max(places[name].length for _, name in named)).unbind(1)
        return [
            {
                name: places[name].take(trajectories[block * len(self.names) + i])
                for i, name in named
            }
            for block in range(self.blocks)
        ]


class Places:
    """Which positions the tokens of a padded batch have, counted from 0.

    Args:
        padding: of the batch, [B, T].
        last_only: for the last token of each row alone.
    """

    def __init__(self, padding: Padding, last_only: bool = False) -> None:
        self.length = padding.mask.size(1)
        self.padding = padding
        self.new = slice(self.length - 1 if last_only else 0, self.length)
        self.index = None
        # On the right, padding comes after all that counts; on the left it moves a row's tokens.
        if padding.left:
            self.index = ((~padding.mask).cumsum(1) - 1).clamp(min=0).t()[self.new]

    @property
    def lengths(self) -> Tensor:
        """Of the rows, [B]."""
        return (~self.padding.mask).sum(1)

    def take(self, trajectory: Tensor) -> Tensor:
        """[L, d] -> [T, B or 1, d]."""
        if self.index is None:
            return trajectory[self.new].unsqueeze(1)
        return F.embedding(self.index, trajectory)  # several times as fast as indexing
