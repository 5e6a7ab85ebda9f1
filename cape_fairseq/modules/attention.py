"""Multi-head attention with fairseq's parameters, initialization and incremental state."""

from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.modules.kernels import DotProduct, rotate
from cape_fairseq.modules.plan import AttentionPlan, take_columns

IncrementalState = dict[str, Any]  # fairseq's: keys and values of the source, and a cache:
KEY_CACHE = "key_cache"  # of earlier target tokens, for all layers (models/decoding_state.py)


class Attention(MultiheadAttention):
    """Self-attention or cross-attention of every encoding.

    ``kernel`` maps queries, keys and values to the output; an encoding may replace it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kernel = DotProduct()

    def set_beam_size(self, beam_size: int) -> None:
        """Do nothing: fairseq would keep one row of the source for all hypotheses of a sentence."""

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        plan: AttentionPlan,
        incremental_state: IncrementalState | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from query [T, B, C] to key [S, B, C], or to itself if ``key`` is None.

        ``incremental_state`` holds keys and values of earlier steps. Returns [T, B, C] and the
        weights [B, H, T, S], if the plan wants them.
        """
        q = self.project(self.q_proj, query, plan.biases.query)
        if plan.query_rotation is not None:
            q = rotate(q, plan.query_rotation)
        source = query if key is None else key
        k, v = self.project_keys(source, plan, incremental_state)
        if v.dtype != q.dtype:  # biases make float32 of what they are added to
            q, k, v = q.float(), k.float(), v.float()
        x, weights = self.attend(q, k, v, plan)
        x = self.project_output(x.permute(2, 0, 1, 3).flatten(2), query.dtype)
        return x, weights if plan.need_weights else None

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, plan: AttentionPlan
    ) -> tuple[Tensor, Tensor | None]:
        """Run the kernel on q [B, H, T, D], k and v [B, H, S, D], block by block. The weights are
        those of the last block, for its keys."""
        # A single query after earlier ones sees all keys.
        causal = plan.causal and q.size(2) == k.size(2)
        # The fused kernel of a CPU takes three times as long for one query as weights.
        is_single = q.size(2) == 1 and not self.training and q.device.type == "cpu"
        dropout = self.dropout_module
        drops = self.training or dropout.apply_during_inference  # --retain-dropout
        parts, weights = [], None
        for block in plan.blocks:
            x, weights = self.kernel(
                q[:, :, block.queries],
                take_columns(k, block.keys, dim=2),
                take_columns(v, block.keys, dim=2),
                block.mask,
                causal and block.mask is None,
                dropout.p if drops else 0.0,
                plan.need_weights or is_single,
                block.own_column,
            )
            parts.append(x)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2), weights

    def project(self, projection: nn.Module, x: Tensor, bias: Tensor | None) -> Tensor:
        """Project x [T, B, C] to heads [B, H, T, D]. With a bias, which may be large, the result is
        float32."""
        x = projection(x) if bias is None else projection(x).float() + bias
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)

    def project_keys(
        self, source: Tensor, plan: AttentionPlan, incremental_state: IncrementalState | None
    ) -> tuple[Tensor, Tensor]:
        """Project ``source`` [S, B, C] to keys and values [B, H, S, D], after those of earlier
        steps."""
        caches_source = incremental_state is not None and self.encoder_decoder_attention
        saved = self._get_input_buffer(incremental_state) if caches_source else {}
        if saved:
            return saved["prev_key"], saved["prev_value"]
        k = self.project(self.k_proj, source, plan.biases.key)
        v = self.project(self.v_proj, source, plan.biases.value)
        if plan.key_rotation is not None:
            k = rotate(k, plan.key_rotation)
        if caches_source:
            k, v = k.contiguous(), v.contiguous()  # every step reads them
            self._set_input_buffer(incremental_state, {"prev_key": k, "prev_value": v})
        elif incremental_state is not None:
            k, v = incremental_state[KEY_CACHE].append(self, k, v)
        return k, v

    def project_output(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Apply the output projection to x [T, B, C], in float32 if biases made it so."""
        if x.dtype == dtype or torch.is_autocast_enabled(x.device.type):
            return self.out_proj(x)
        bias = None if self.out_proj.bias is None else self.out_proj.bias.to(x.dtype)
        x = F.linear(x, self.out_proj.weight.to(x.dtype), bias)
        limits = torch.finfo(dtype)
        return x.clamp(limits.min, limits.max).to(dtype)
