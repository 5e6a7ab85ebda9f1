"""Multi-head attention over ``scaled_dot_product_attention``, with fairseq's parameters and
state."""

from __future__ import annotations

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.modules.precision import full_precision
from cape_fairseq.positions.relative.attention import relative_attention
from cape_fairseq.positions.relative.shaw import init_table, pairwise_products, pairwise_sums
from cape_fairseq.positions.rotary import rotate

IncrementalState = dict[str, dict[str, Tensor | None]]


class Attention(MultiheadAttention):
    """Self- or cross-attention of every encoding, in training, evaluation and step-by-step
    decoding.

    Parameters, their names and initialization are those of
    ``fairseq.modules.MultiheadAttention``; the computation is PyTorch's fused kernel wherever
    neither the weights themselves are asked for nor learned relative positions are part of it.

    Args:
        relative_distance: k > 0 gives self-attention learned relative positions of -k to k.
        relative_values: whether the values have them too, and not only the keys.
    """

    def __init__(
        self, *args, relative_distance: int = 0, relative_values: bool = True, **kwargs
    ) -> None:
        super().__init__(*args, **kwargs)
        # What --retain-dropout-modules calls it.
        self.dropout_module.module_name = "MultiheadAttention"
        self.relative_keys = self.relative_values = None
        if relative_distance:
            self.relative_keys = nn.Parameter(init_table(relative_distance, self.head_dim))
            if relative_values:
                self.relative_values = nn.Parameter(init_table(relative_distance, self.head_dim))

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        causal: bool = False,
        need_weights: bool = False,
        rotation: Tensor | None = None,
        query_bias: Tensor | None = None,
        key_bias: Tensor | None = None,
        value_bias: Tensor | None = None,
        query_scale: Tensor | None = None,
        key_rotation: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``query`` to ``key``, or to itself in self-attention.

        Args:
            query: [T, B, C].
            key: [S, B, C], the encoder's output; None in self-attention. With B / n rows, each is
                for n rows of ``query``, one after another, and so are its biases and the mask.
            mask: broadcastable to [B, H, T, S]: bool, True where a query may look, or float, added
                to the scores; every query must see a key. In incremental decoding S is the whole
                prefix.
            incremental_state: holds the keys and values of earlier steps.
            causal: query i sees keys 0..i only. A mask has to say so itself; in incremental
                decoding there are no later keys.
            need_weights: return the attention weights too.
            rotation: complex [B or 1, 1, T, D / 2], turns queries and, in self-attention, the keys
                of the same tokens.
            key_rotation: complex [B, 1, S, D / 2], turns the keys of ``key``.
            query_bias: [T, B or 1, C], added to the projected queries.
            query_scale: [B, 1, T or 1, 1], multiplies the scores of a query, and what the mask
                adds to them.
            key_bias, value_bias: [T or S, B or 1, C], the same for the keys and values of ``key``.

        Returns:
            output [T, B, C], and the weights [H, B, T, S] or None.
        """
        length, batch, width = query.shape
        q = self.split_heads(add(self.q_proj(query), query_bias))
        q = q if rotation is None else rotate(q, rotation)
        if query_scale is not None:
            q = q * query_scale.type_as(q)
            mask = mask * query_scale if mask is not None and mask.is_floating_point() else mask
        source = query if key is None else key
        biases = (key_bias, value_bias)
        turn = rotation if key is None else key_rotation
        k, v = self.keys_and_values(source, batch, incremental_state, turn, *biases)
        causal = causal and mask is None and incremental_state is None
        copies = times(batch, k.size(0))  # hypotheses of a sentence look at one copy of its keys
        mask = mask if mask is None else as_many(mask, k.size(0))
        # For a single query the fused kernel of CPUs is slower (three times, at 100 keys).
        alone = length == 1 and not self.training and q.device.type == "cpu"
        x, weights = self.attend(fold(q, copies), k, v, mask, causal, need_weights or alone)
        x = unfold(x, copies).permute(2, 0, 1, 3).reshape(length, batch, width)
        if need_weights:
            weights = unfold(weights.transpose(0, 1), copies).transpose(0, 1)
        return self.out_proj(x), weights if need_weights else None

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, spelled_out: bool
    ) -> tuple[Tensor, Tensor | None]:
        """What [B, H, T, D] queries find in [B, H, S, D] keys and values, [B, H, T, D]; with the
        weights [H, B, T, S] where the attention is ``spelled_out``."""
        active = self.training or self.dropout_module.apply_during_inference
        dropout = self.dropout_module.p if active else 0.0
        tables = (self.relative_keys, self.relative_values)
        if spelled_out:
            return attend_with_weights(q, k, v, mask, causal, dropout, *tables)
        if self.relative_keys is not None:
            return relative_attention(q, k, v, *tables, mask, causal, dropout), None
        with full_precision(q, self.training) as exact:
            q, k, v = (exact(part) for part in (q, k, v))
            if mask is not None and mask.is_floating_point():
                mask = mask.type_as(q)  # of float32 all that q keeps
            return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal), None

    def set_beam_size(self, beam_size: int) -> None:
        """fairseq's hint that the keys of a beam's hypotheses are equal; here it changes nothing,
        because the encoder's output says so itself."""

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> IncrementalState:
        """fairseq's, where the keys of a cross-attention may be one copy for several rows.

        In a beam search every sentence has equally many rows, one after another, and keeps them or
        ends. Where rows are chosen otherwise, each gets keys of its own.
        """
        saved = self._get_input_buffer(incremental_state)
        if not saved or not self.encoder_decoder_attention:
            return super().reorder_incremental_state(incremental_state, new_order)
        order, copies = sources(new_order, int(saved["copies"]))
        if order != list(range(saved["prev_key"].size(0))):
            chosen = new_order.new_tensor(order)
            for name in ("prev_key", "prev_value"):
                saved[name] = saved[name].index_select(0, chosen)
        saved["copies"] = torch.tensor(copies)
        self._set_input_buffer(incremental_state, saved)
        return incremental_state

    def split_heads(self, x: Tensor) -> Tensor:
        """[T, B, C] -> [B, H, T, C / H]."""
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def keys_and_values(
        self,
        source: Tensor,
        batch: int,
        state: IncrementalState | None,
        rotation: Tensor | None,
        key_bias: Tensor | None,
        value_bias: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Project ``source`` [S, B, C] to keys and values [B, H, S, C / H], with those of earlier
        steps, for queries of ``batch`` rows."""
        saved = self._get_input_buffer(state) if state is not None else {}
        if saved and self.encoder_decoder_attention:
            return saved["prev_key"], saved["prev_value"]
        k = self.split_heads(add(self.k_proj(source), key_bias))
        v = self.split_heads(add(self.v_proj(source), value_bias))
        k = k if rotation is None else rotate(k, rotation)
        if saved:
            k = torch.cat([saved["prev_key"], k], dim=2)
            v = torch.cat([saved["prev_value"], v], dim=2)
        elif state is not None and self.encoder_decoder_attention:
            k, v = k.contiguous(), v.contiguous()  # read at every step to come
            saved = {"copies": torch.tensor(times(batch, k.size(0)))}
        if state is not None:
            self._set_input_buffer(state, {**saved, "prev_key": k, "prev_value": v})
        return k, v


def fold(x: Tensor, copies: int) -> Tensor:
    """Rows for one sentence one after another in it: [B, H, T, D] -> [B / n, H, n T, D]."""
    return x if copies == 1 else x.unflatten(0, (-1, copies)).transpose(1, 2).flatten(2, 3)


def unfold(x: Tensor, copies: int) -> Tensor:
    """The reverse of :func:`fold`."""
    return x if copies == 1 else x.unflatten(2, (copies, -1)).transpose(1, 2).flatten(0, 1)


def sources(rows: Tensor, copies: int) -> tuple[list[int], int]:
    """Which keys the chosen rows [B] look at, where so many rows one after another shared one: once
    for as many again, or, if rows were chosen otherwise, for each; and for how many."""
    wanted = (rows // copies).tolist()
    once = wanted[::copies]
    if wanted == [source for source in once for _ in range(copies)]:
        return once, copies
    return wanted, 1


def times(rows: int, each: int) -> int:
    """How many rows there are for each; one in an empty batch."""
    return rows // each if each else 1


def as_many(mask: Tensor, rows: int) -> Tensor:
    """A mask of [B, H, T, S], each row of it for equally many of ``rows``, or the reverse."""
    if mask.dim() < 4 or mask.size(0) in (1, rows):
        return mask
    if mask.size(0) > rows:
        return mask[:: mask.size(0) // rows]
    return mask.repeat_interleave(rows // mask.size(0), 0)


def add(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias.type_as(x)


def attend_with_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    dropout: float,
    key_table: Tensor | None = None,
    value_table: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention spelled out, for when its weights are wanted: [B, H, T, D] and [H, B, T, S].

    The softmax is taken in float32 at least, and the weights are returned as they are before
    dropout.
    """
    q = q * q.size(-1) ** -0.5
    scores = q @ k.transpose(2, 3)
    if key_table is not None:
        scores = scores + pairwise_products(q, key_table.type_as(q), k.size(2))
    if causal:
        mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = (
            scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, float("-inf"))
        )
    weights = scores.softmax(dim=-1, dtype=torch.promote_types(q.dtype, torch.float32))
    dropped = F.dropout(weights, dropout).type_as(v)
    x = dropped @ v
    if value_table is not None:
        x = x + pairwise_sums(dropped, value_table.type_as(v))
    return x, weights.transpose(0, 1)
