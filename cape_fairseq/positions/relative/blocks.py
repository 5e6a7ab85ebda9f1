"""Relative attention cut into blocks of queries, and the band that a block's distances fill.

A tensor of length x length x head width is never made. Products with the table of distances give a
band: query i's column c belongs to distance c + first, so that neighbouring queries' keys stand
shifted by one. Reading that memory with a row length of one less undoes the shift, for free and in
both directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Block:
    """Some rows of a batch, some queries, and all keys that they may see.

    Keys in ``near`` have distances within the clip for some of the queries; those before and after
    have the clipped distance -k or k for all of them.
    """

    rows: slice
    queries: slice
    keys: slice
    near: slice
    distances: Tensor  # int64 [Q + near keys - 1]: row of the table for each column of the band


def blocks(
    batch: int,
    queries: int,
    keys: int,
    max_distance: int,
    causal: bool,
    size: int,
    elements: int,
    device: torch.device,
) -> Iterator[Block]:
    """Cut the scores [batch, queries, keys] into blocks of about ``elements`` scores.

    The last ``queries`` keys are those of the queries themselves. ``size`` is the number of queries
    of a block: the fewer, the less of a band is wasted and the more keys a causal block can leave
    out.
    """
    earlier = keys - queries
    for start in range(0, queries, size):
        stop = min(start + size, queries)
        end = stop + earlier if causal else keys
        first, last = start + earlier, stop - 1 + earlier  # the queries' own places among the keys
        near = slice(max(0, first - max_distance + 1), min(end, last + max_distance))
        offsets = torch.arange(near.start - last, near.stop - first, device=device)
        distances = offsets.clamp(-max_distance, max_distance) + max_distance
        step = max(1, elements // ((stop - start) * end))
        for row in range(0, batch, step):
            yield Block(
                slice(row, min(row + step, batch)),
                slice(start, stop),
                slice(0, end),
                near,
                distances,
            )


def skew(band: Tensor) -> Tensor:
    """See a band [N, Q, Q + K - 1] as [N, Q, K]: entry (q, c) of the view is column c - q + Q - 1
    of row q."""
    rows, queries, columns = band.shape
    strides = (queries * columns, columns - 1, 1)
    return band.as_strided(
        (rows, queries, columns - queries + 1), strides, band.storage_offset() + queries - 1
    )


def near_products(x: Tensor, table: Tensor) -> Tensor:
    """Products of x [N, Q, D] with the rows of a band's table [Q + K - 1, D], for each key: a view
    [N, Q, K]."""
    return skew(torch.mm(x.reshape(-1, x.size(-1)), table.t()).view(*x.shape[:2], -1))


def add_products(scores: Tensor, x: Tensor, table: Tensor, block: Block) -> None:
    """Add x . row of the clipped distance to scores in place.

    Args:
        scores: [N, Q, K], for all keys of the block.
        x: [N, Q, D].
        table: [2k + 1, D].
    """
    near = block.near
    scores[:, :, near] += near_products(x, table[block.distances])
    if near.start > 0:
        scores[:, :, : near.start] += (x @ table[0]).unsqueeze(-1)
    if near.stop < scores.size(2):
        scores[:, :, near.stop :] += (x @ table[-1]).unsqueeze(-1)


@dataclass
class DistanceSums:
    """What a block's queries gave to each distance: the weights of the band, and the sums beyond
    the clip."""

    band: Tensor  # [N, Q, Q + near keys - 1]
    before: Tensor | None  # [N, Q], at distance -k
    after: Tensor | None  # [N, Q], at distance k

    @classmethod
    def of(
        cls, weights: Tensor, block: Block, buffers: dict[tuple[int, ...], Tensor]
    ) -> DistanceSums:
        """Sum weights [N, Q, K] by clipped distance.

        ``buffers`` keeps bands by their shape: what a view of one fills is the same each time, and
        all else in it stays zero.
        """
        near = block.near
        shape = (*weights.shape[:2], block.distances.numel())
        if shape not in buffers:
            buffers[shape] = weights.new_zeros(shape)
        band = buffers[shape]
        skew(band).copy_(weights[:, :, near])
        before = weights[:, :, : near.start].sum(-1) if near.start > 0 else None
        after = weights[:, :, near.stop :].sum(-1) if near.stop < weights.size(2) else None
        return cls(band, before, after)

    def add_rows(self, out: Tensor, table: Tensor, block: Block) -> None:
        """Add sum x row of the distance, over all distances, to out [N, Q, D] in place."""
        flat = out.view(-1, out.size(-1))
        flat.addmm_(self.band.view(flat.size(0), -1), table[block.distances])
        for far, row in ((self.before, table[0]), (self.after, table[-1])):
            if far is not None:
                flat.addr_(far.reshape(-1), row)

    def add_to_table(self, gradient: Tensor, x: Tensor, block: Block) -> None:
        """Add sum x vector of the query, x [N, Q, D], to the rows of gradient [2k + 1, D] in
        place."""
        flat = x.reshape(-1, x.size(-1))
        rows = self.band.view(flat.size(0), -1).t() @ flat
        gradient.index_add_(0, block.distances, rows.type_as(gradient))
        for far, row in ((self.before, 0), (self.after, -1)):
            if far is not None:
                gradient[row] += far.reshape(-1) @ flat
