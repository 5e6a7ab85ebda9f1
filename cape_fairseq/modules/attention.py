"""Multi-head attention with fairseq's parameters, initialization and incremental state."""

from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.modules.dot_product import DotProductAttention, rotate
from cape_fairseq.modules.windows import Block

IncrementalState = dict[str, dict[str, Tensor | None]]


class Attention(MultiheadAttention):
    """Self-attention or cross-attention of every encoding.

    ``attend`` maps queries, keys and values to the output; an encoding may replace it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.attend = DotProductAttention()

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        mask: Tensor | list[Block] | None = None,
        causal: bool = False,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
        cached: int | None = None,
        rotation: Tensor | None = None,
        key_rotation: Tensor | None = None,
        query_bias: Tensor | None = None,
        key_bias: Tensor | None = None,
        value_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from query [T, B, C] to key [S, B, C], or to itself in self-attention.

        Args:
            mask: broadcastable to [B, H, T, S], see :class:`DotProductAttention`, or its blocks.
            causal: without a mask and in the parallel pass, hide later keys.
            incremental_state: keys and values of earlier steps.
            need_weights: also return the attention weights [B, H, T, S].
            cached: keys and values of earlier steps that are still needed (default: all).
            rotation: complex [B or 1, 1, T, D / 2] for queries, and for keys in self-attention.
            key_rotation: complex [B or 1, 1, S, D / 2] for the keys of ``key``.
            query_bias, key_bias, value_bias: [T or S, B or 1, C], added after the projections.
        """
        q = self.project(self.q_proj, query, query_bias)
        q = q if rotation is None else rotate(q, rotation)
        key_rotation = rotation if key is None else key_rotation
        source = query if key is None else key
        k, v = self.project_keys(
            source, incremental_state, key_rotation, key_bias, value_bias, cached
        )
        if v.dtype != q.dtype:  # biases make float32 of what they are added to
            q, k, v = q.float(), k.float(), v.float()
        causal = causal and mask is None and incremental_state is None
        dropout = self.dropout_module.p if self.training else 0.0
        # For a single query, the fused kernel of CPUs takes three times as long.
        single = q.size(2) == 1 and not self.training and q.device.type == "cpu"
        if isinstance(mask, list):  # the same result in less memory
            parts = [
                self.attend(q[:, :, rows], k[:, :, columns], v[:, :, columns], block,
                            dropout=dropout, start=rows.start - columns.start)[0]
                for rows, columns, block in mask
            ]  # fmt: skip
            x, weights = torch.cat(parts, dim=2), None
        else:
            x, weights = self.attend(q, k, v, mask, causal, dropout, need_weights or single)
        x = self.project_output(x.permute(2, 0, 1, 3).flatten(2), query.dtype)
        return x, weights if need_weights else None

    def project(self, projection: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
        """Project x [T, B, C] to heads [B, H, T, D]. With a bias, which may be large, the result is
        float32."""
        x = projection(x) if bias is None else projection(x).float() + bias
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)

    def project_keys(
        self,
        source: Tensor,
        incremental_state: IncrementalState | None,
        rotation: Tensor | None,
        key_bias: Tensor | None,
        value_bias: Tensor | None,
        cached: int | None,
    ) -> tuple[Tensor, Tensor]:
        """Project ``source`` [S, B, C] to keys and values [B, H, S, D], after those of earlier
        steps."""
        saved = {} if incremental_state is None else self._get_input_buffer(incremental_state)
        if saved and self.encoder_decoder_attention:
            return saved["prev_key"], saved["prev_value"]
        k = self.project(self.k_proj, source, key_bias)
        v = self.project(self.v_proj, source, value_bias)
        k = k if rotation is None else rotate(k, rotation)
        if saved:
            first = 0 if cached is None else saved["prev_key"].size(2) - cached
            k = torch.cat([saved["prev_key"][:, :, first:], k], dim=2)
            v = torch.cat([saved["prev_value"][:, :, first:], v], dim=2)
        if incremental_state is not None:
            k, v = k.contiguous(), v.contiguous()  # every step reads them
            self._set_input_buffer(incremental_state, {"prev_key": k, "prev_value": v})
        return k, v

    def project_output(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Apply the output projection to x [T, B, C], in float32 if biases made it so."""
        if x.dtype == dtype or torch.is_autocast_enabled(x.device.type):
            return self.out_proj(x)
        bias = None if self.out_proj.bias is None else self.out_proj.bias.to(x.dtype)
        x = F.linear(x, self.out_proj.weight.to(x.dtype), bias)
        limits = torch.finfo(dtype)
        return x.clamp(limits.min, limits.max).to(dtype)

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> IncrementalState:
        """Reorder cached keys and values. Those of the source stay unless sentences are finished:
        hypotheses of one sentence have the same source."""
        saved = self._get_input_buffer(incremental_state)
        same_size = saved and saved["prev_key"].size(0) == len(new_order)
        if same_size and self.encoder_decoder_attention:
            return incremental_state
        reordered = {name: tensor.index_select(0, new_order) for name, tensor in saved.items()}
        return self._set_input_buffer(incremental_state, reordered)
