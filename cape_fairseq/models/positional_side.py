"""Positions in an encoder or decoder: what both sides share."""

import math
from typing import Any

import torch
from fairseq.distributed import fsdp_wrap
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cape_fairseq.models.config import find_encoding
from cape_fairseq.models.token_windows import TokenWindows
from cape_fairseq.modules.masks import has_leading_padding, has_padding
from cape_fairseq.modules.plan import AttentionPlan, SidePlan
from cape_fairseq.modules.windows import Condition, Mask, Window
from cape_fairseq.options import select_options
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise, PositionEncoding, SourceStatistic
from cape_fairseq.positions.layout import Layout
from cape_fairseq.positions.randpos import RandomPositions, RandposConfig


class PositionalSide:
    """An encoder or decoder with a position encoding, a mixin for fairseq's."""

    def build_positions(self, cfg: Any, side: Side) -> None:
        """Build the encoding, and the kernel that it gives to each layer."""
        self.embed_positions = None
        self.autocast = cfg.autocast
        self.token_windows = TokenWindows.of(cfg)
        self.checkpoint_activations = cfg.checkpoint_activations
        self.positions = find_encoding(cfg).build(cfg, side)  # the prefix of its parameters
        self.random_positions = None
        if cfg.position_augmentation == "randpos":
            self.random_positions = RandomPositions(select_options(RandposConfig, cfg))
        for number in range(len(self.layers)):
            layer = self.layers[number]
            layer.number = number  # iteration over the layers may drop some (layer drop)
            layer.self_attn.kernel = self.base_encoding.build_kernel(number)

    @property
    def encoding(self) -> PositionEncoding:
        """Return the position encoding, which adds vectors and biases."""
        return self.positions

    @property
    def base_encoding(self) -> PositionEncoding:
        """Return what computes positions, rotations and biases of scores: the encoding itself, or
        the one that FLOATER adds to."""
        return getattr(self.positions, "base_encoding", self.positions)

    @property
    def augmenter(self) -> PositionEncoding | RandomPositions:
        """Return what samples noise and adds it to positions."""
        return self.random_positions or self.base_encoding

    def max_positions(self) -> int:
        """Return the number of tokens that a text may have."""
        return self.base_encoding.max_length

    def wrap_layer(self, layer: nn.Module, cfg: Any) -> nn.Module:
        """Apply FSDP as fairseq does."""
        minimum = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
        return fsdp_wrap(layer, min_num_params=minimum)

    def run_layer(self, layer: nn.Module, *inputs: Any) -> Any:
        """Run a layer, with ``--checkpoint-activations`` so that it is computed again in the
        backward pass. (fairseq's wrapper would keep the graph of tensors inside a plan.)"""
        if self.checkpoint_activations and torch.is_grad_enabled():
            return checkpoint(layer, *inputs, use_reentrant=False)
        return layer(*inputs)

    def run_layers(
        self, x: Tensor, plan: SidePlan, *inputs: Any
    ) -> tuple[list[Tensor], dict[int, Tensor]]:
        """Return the input of the first layer and the outputs of all, each [T, B, C], and the
        cross-attention weights of the layers that return them, [B, H, T, S or W]."""
        states, weights = [x], {}
        for layer in self.layers:
            number = layer.number
            if number > 0:
                x = plan.add_embedding(x, number)
            x, layer_weights = self.run_layer(layer, x, *plan.select(number), *inputs)
            states.append(x)
            if layer_weights is not None:
                weights[number] = layer_weights
        return states, weights

    def scale_positions(self, positions: Tensor) -> Tensor:
        """Multiply positions by the source scale; the decoder's stay as they are."""
        return positions

    def place_tokens(
        self, layout: Layout, noise: Noise, statistic: SourceStatistic
    ) -> tuple[Tensor, Tensor]:
        """Return the positions of all tokens, scaled and with noise, which sinusoids and
        cross-attention take, and those that self-attention takes: float32 [B or 1, T] each."""
        index, columns = map(self.scale_positions, (layout.index, layout.column))
        augmented = self.augmenter.augment(index, layout.padding, noise, statistic)
        is_augmented = noise is not None or statistic is not None
        return augmented, self.base_encoding.attention_positions(augmented, columns, is_augmented)

    def plan_self_attention(
        self, layout: Layout, positions: Tensor, queries: int, causal: bool
    ) -> AttentionPlan:
        """Plan the self-attention: ``layout`` and ``positions`` are those of all keys, and the last
        ``queries`` ones are those of queries."""
        q_layout, q_positions = layout.select(slice(-queries, None)), positions[:, -queries:]

        def compute_bias(rows: slice, columns: slice) -> Tensor | None:
            return self.base_encoding.score_bias(q_positions[:, rows], positions[:, columns])

        # Padding on the right is later than every real token, and so hidden already.
        check_padding = has_leading_padding if causal else has_padding
        hides_padding = check_padding(layout.padding)
        # Without anything else in the mask, causality has a kernel of its own.
        has_mask = hides_padding or compute_bias(slice(1), slice(1)) is not None
        conditions = self.list_conditions(q_layout, layout, causal, has_mask and queries > 1)
        mask = Mask(
            conditions,
            q_layout.padding,
            layout.padding,
            hides_padding,
            has_own_keys=True,
            bias=compute_bias,
        )
        rotation = self.base_encoding.rotation(q_positions)
        return AttentionPlan(mask.divide(), causal, rotation, rotation)

    def list_conditions(
        self, queries: Layout, keys: Layout, causal: bool, has_mask: bool
    ) -> list[Condition]:
        """List the conditions on which queries see keys of their own side, besides padding; without
        others, later keys are hidden only in a mask that there is already."""
        conditions = []
        window = self.token_windows.build_window(keys.padding.size(1), causal)
        if window is None and causal and has_mask:
            window = Window(math.inf)
        if window is not None:
            conditions.append(Condition(window, queries.column, keys.column))
        return conditions
