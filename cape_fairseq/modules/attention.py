"""Multi-head attention over ``scaled_dot_product_attention``, with fairseq's parameters and state."""

from __future__ import annotations

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor
from torch.nn import functional as F

IncrementalState = dict[str, dict[str, Tensor | None]]


class Attention(MultiheadAttention):
    """Self- or cross-attention; one code path for training, evaluation and step-by-step decoding.

    Parameters, their names and initialization, and the reordering of beams are those of
    ``fairseq.modules.MultiheadAttention``; the computation is PyTorch's fused kernel wherever the
    weights themselves are not asked for.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.dropout_module.module_name = "MultiheadAttention"  # what --retain-dropout-modules calls it

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``query`` to ``key``, or to itself in self-attention.

        Args:
            query: [T, B, C].
            key: [S, B, C], the encoder's output; None in self-attention.
            key_padding_mask: bool [B, S], True at keys to ignore; in incremental decoding it covers
                the whole prefix.
            incremental_state: holds the keys and values of earlier steps.
            causal: query i sees keys 0..i only; without meaning in incremental decoding, where
                there are no later keys.
            need_weights: return the attention weights too.

        Returns:
            output [T, B, C], and the weights [H, B, T, S] or None.
        """
        length, batch, width = query.shape
        q = self.split_heads(self.q_proj(query))
        k, v = self.keys_and_values(query if key is None else key, incremental_state)
        mask = visible_keys(key_padding_mask, length, causal)
        causal = causal and mask is None and incremental_state is None
        active = self.training or self.dropout_module.apply_during_inference
        dropout = self.dropout_module.p if active else 0.0
        if need_weights:
            x, weights = attend_with_weights(q, k, v, mask, causal, dropout)
        else:
            weights = None
            x = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal)
        x = x.permute(2, 0, 1, 3).reshape(length, batch, width)
        return self.out_proj(x), weights

    def split_heads(self, x: Tensor) -> Tensor:
        """[T, B, C] -> [B, H, T, C / H]."""
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def keys_and_values(self, source: Tensor, state: IncrementalState | None) -> tuple[Tensor, Tensor]:
        """Project ``source`` [S, B, C] to keys and values [B, H, S, C / H], with those of earlier steps."""
        saved = self._get_input_buffer(state) if state is not None else {}
        if saved and self.encoder_decoder_attention:
            return saved["prev_key"], saved["prev_value"]
        k, v = self.split_heads(self.k_proj(source)), self.split_heads(self.v_proj(source))
        if saved:
            k = torch.cat([saved["prev_key"], k], dim=2)
            v = torch.cat([saved["prev_value"], v], dim=2)
        if state is not None:
            self._set_input_buffer(state, {"prev_key": k, "prev_value": v})
        return k, v


def visible_keys(key_padding_mask: Tensor | None, length: int, causal: bool) -> Tensor | None:
    """Turn a padding mask [B, S] into True where a query may look: [B, 1, T or 1, S], or None.

    The last T keys are those of the T queries themselves if ``causal``. A query at padding on the left
    would then see nothing at all, and its softmax would be NaN; it may always see itself, which
    changes nothing for real tokens.
    """
    if key_padding_mask is None:
        return None
    visible = ~key_padding_mask[:, None, None, :]
    if not causal:
        return visible
    earlier = key_padding_mask.size(1) - length
    past = visible.new_ones(length, key_padding_mask.size(1)).tril(earlier)
    return (visible & past) | past.triu(earlier)


def attend_with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float
) -> tuple[Tensor, Tensor]:
    """Attention spelled out, for when its weights are wanted: [B, H, T, D] and [H, B, T, S].

    The softmax is taken in float32, and the weights are returned as they are before dropout.
    """
    scores = (q * q.size(-1) ** -0.5) @ k.transpose(2, 3)
    if causal:
        mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1, dtype=torch.float32)
    return F.dropout(weights, dropout).type_as(v) @ v, weights.transpose(0, 1)
