"""Attention with relative positions, block by block, with a backward pass of its own.

Memory grows with the length, not with its square: as fused attention does, the backward pass of
long sentences computes the weights again. Shorter ones keep them, which is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cape_fairseq.positions.relative.blocks import Block, DistanceSums, add_products, blocks

KEEP_WEIGHTS = 1024  # the weights of all queries are kept for the backward pass up to so many keys
# Queries and scores of a block: on a CPU what its cache holds, elsewhere what keeps the device
# busy.
BLOCK_SIZES = {"cpu": (64, 2**20)}
LARGE_BLOCKS = (256, 2**26)


def relative_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_table: Tensor,
    value_table: Tensor | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """Self-attention with learned clipped relative positions (Shaw et al. 2018, Eqs. 3-4).

    Args:
        q: [B, H, T, D].
        k: [B, H, S, D]; the last T of them belong to the queries.
        v: [B, H, S, D].
        key_table: [2 * max_distance + 1, D], added to the keys by distance.
        value_table: the same for the values, or None.
        mask: bool [B, 1, T or 1, S], True where a query may look (no row without any), or None.
        causal: without a mask, whether query i sees no key after its own.
        dropout: probability of dropping a weight.

    Returns:
        [B, H, T, D].
    """
    tables = [None if table is None else table.type_as(q) for table in (key_table, value_table)]
    with torch.autocast(q.device.type, enabled=False):  # all are of one precision already
        scaled = q * q.size(-1) ** -0.5
        return _RelativeAttention.apply(
            *(scaled.contiguous(), k.contiguous(), v.contiguous(), *tables, mask, causal, dropout),
            torch.is_grad_enabled() and k.size(2) <= KEEP_WEIGHTS,
        )


class _RelativeAttention(torch.autograd.Function):
    """Shapes: N = rows of the block * H, Q its queries, K its keys, D the width of a head."""

    @staticmethod
    def forward(
        ctx: Any, q, k, v, key_table, value_table, mask, causal: bool, dropout: float, keep: bool
    ) -> Tensor:
        seed = int(torch.randint(2**62, ())) if dropout > 0 else 0
        out = torch.empty_like(q)
        kept, bands = [], {}
        for index, block in enumerate(_blocks(q, k, key_table, causal)):
            # Softmax of the scores with the keys and with the rows of their distances: [N, Q, K].
            weights = _weights(q, k, key_table, mask, causal, block)
            if keep:  # they are small, and wanted for gradients
                kept.append(weights)
            weights = _drop(weights, dropout, seed + index)
            # Their sums of the values, [N, Q, D], and of the rows of the value table.
            part = weights @ _rows(v, block.rows, block.keys)
            if value_table is not None:
                DistanceSums.of(weights, block, bands).add_rows(part, value_table, block)
            _store(out, part, block)
        ctx.settings = causal, dropout, seed
        ctx.save_for_backward(q, k, v, key_table, value_table, mask, out, *kept)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor):
        q, k, v, key_table, value_table, mask, out, *kept = ctx.saved_tensors
        causal, dropout, seed = ctx.settings
        grad_q, (grad_k, grad_v) = torch.empty_like(q), (_sum_of(x) for x in (k, v))
        grad_keys = _sum_of(key_table)
        grad_values = None if value_table is None else _sum_of(value_table)
        # The softmax's gradient is w * (g - sum(w * g)). That sum is grad . out for each query,
        # [B, H, T, 1], because out is the sum of what the weights take.
        inner = (grad * out).sum(-1, keepdim=True)
        bands: dict[tuple[int, ...], Tensor] = {}
        for index, block in enumerate(_blocks(q, k, key_table, causal)):
            x, g = (_rows(y, block.rows, block.queries) for y in (q, grad))  # [N, Q, D]
            weights = kept[index] if kept else _weights(q, k, key_table, mask, causal, block)
            dropped = _drop(weights, dropout, seed + index)
            # A value gets the gradients of the queries that took it, weighted: [N, K, D].
            _add(grad_v, dropped.transpose(1, 2) @ g, block)
            # A weight's gradient is what its value, and its distance's row, add to the output.
            slope = g @ _rows(v, block.rows, block.keys).transpose(1, 2)  # [N, Q, K]
            if value_table is not None:
                add_products(slope, g, value_table, block)
                # A row of the value table gets what all weights of its distance took: [2k + 1, D].
                DistanceSums.of(dropped, block, bands).add_to_table(grad_values, g, block)
            # Back through dropout (the same numbers as before) and through the softmax: the
            # gradients of the scores.
            slope = _drop(slope, dropout, seed + index)
            slope = slope.sub_(_rows(inner, block.rows, block.queries)).mul_(weights)
            # A score is query . (key + row of the distance): three gradients, of the key ...
            _add(grad_k, slope.transpose(1, 2) @ x, block)
            # ... of the query, from keys and rows, [N, Q, D] ...
            part = slope @ _rows(k, block.rows, block.keys)
            sums = DistanceSums.of(slope, block, bands)
            sums.add_rows(part, key_table, block)
            _store(grad_q, part, block)
            # ... and of the rows, [2k + 1, D].
            sums.add_to_table(grad_keys, x, block)
        grads = (grad_q, grad_k.type_as(k), grad_v.type_as(v), grad_keys.type_as(q))
        return *grads, None if grad_values is None else grad_values.type_as(q), *[None] * 4


def _blocks(q: Tensor, k: Tensor, table: Tensor, causal: bool) -> Iterator[Block]:
    size, scores = BLOCK_SIZES.get(q.device.type, LARGE_BLOCKS)
    batch, heads, length, _ = q.shape
    return blocks(
        batch, length, k.size(2), table.size(0) // 2, causal, size, scores // heads, q.device
    )


def _rows(x: Tensor, rows: slice, places: slice) -> Tensor:
    """Part of x [B, H, T, D] as [rows * H, places, D]."""
    return x[rows, :, places].flatten(0, 1)


def _store(out: Tensor, part: Tensor, block: Block) -> None:
    """Write [rows * H, Q, D] to its place in [B, H, T, D]."""
    here = out[block.rows, :, block.queries]
    here.copy_(part.view(here.shape))


def _add(total: Tensor, part: Tensor, block: Block) -> None:
    """Add [rows * H, K, D] to its place in [B, H, S, D]."""
    here = total[block.rows, :, block.keys]
    here += part.view(here.shape)


def _sum_of(x: Tensor) -> Tensor:
    """Zeros like x, in which many blocks can be summed: at least float32."""
    return torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))


def _weights(
    q: Tensor, k: Tensor, table: Tensor, mask: Tensor | None, causal: bool, block: Block
) -> Tensor:
    """Attention weights of a block [rows * H, Q, K]; the softmax is taken in float32."""
    x = _rows(q, block.rows, block.queries)
    scores = x @ _rows(k, block.rows, block.keys).transpose(1, 2)
    add_products(scores, x, table, block)
    hidden = _hidden(q, k, mask, causal, block)
    if hidden is not None:
        scores.view(-1, q.size(1), *scores.shape[1:]).masked_fill_(hidden, float("-inf"))
    return scores.softmax(-1, dtype=torch.promote_types(q.dtype, torch.float32)).type_as(q)


def _hidden(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, block: Block) -> Tensor | None:
    """True where a query of the block may not look, broadcastable to [rows, H, Q, K]."""
    if mask is not None:
        queries = block.queries if mask.size(2) > 1 else slice(None)
        return ~mask[block.rows, :, queries, block.keys]
    if not causal:
        return None
    shape = block.queries.stop - block.queries.start, block.keys.stop
    later = k.size(2) - q.size(2) + block.queries.start + 1
    return torch.ones(shape, dtype=torch.bool, device=q.device).triu(later)


def _drop(x: Tensor, dropout: float, seed: int) -> Tensor:
    """Dropout that a seed repeats: the backward pass needs the same numbers again."""
    if dropout == 0:
        return x
    generator = torch.Generator(x.device).manual_seed(seed)
    return x * torch.empty_like(x).bernoulli_(1 - dropout, generator=generator).div_(1 - dropout)
