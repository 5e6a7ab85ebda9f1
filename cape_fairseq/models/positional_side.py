"""Positions in an encoder or decoder: what both sides share."""

import math
from typing import Any

import torch
from fairseq.distributed import fsdp_wrap
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cape_fairseq.data.separator import Separator
from cape_fairseq.models.config import find_encoding
from cape_fairseq.models.token_windows import TokenWindows
from cape_fairseq.modules.masks import has_leading_padding, has_padding
from cape_fairseq.modules.plan import AttentionPlan, SidePlan
from cape_fairseq.modules.windows import Condition, Mask, Window
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import UNLIMITED, Noise, PositionEncoding, SourceStatistic
from cape_fairseq.positions.layout import Layout
from cape_fairseq.positions.randpos import RandomPositions


class PositionalSide:
    """An encoder or decoder with a position encoding, a mixin for fairseq's.

    ``window`` are the sentences that self-attention sees, or None without ``--sentence-context``;
    ``cross_window`` those that the decoder sees of the source. ``token_windows`` limit both by
    tokens.
    """

    def build_positions(self, cfg: Any, side: Side, window: Window | None) -> None:
        """Build the encoding, and the kernel that it gives to each layer."""
        self.embed_positions = None
        self.autocast = cfg.autocast
        self.window = window
        self.cross_window = Window(cfg.sentence_cross_context, cfg.sentence_cross_context)
        self.token_windows = TokenWindows.of(cfg)
        self.checkpoint_activations = cfg.checkpoint_activations
        self.positions = find_encoding(cfg)(cfg, side)  # the prefix of its parameters
        is_random = cfg.position_augmentation == "randpos"
        self.random_positions = RandomPositions(cfg) if is_random else None
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

    @property
    def separator(self) -> Separator | None:
        """Return what is between the sentences of a document, or None without documents."""
        return None if self.window is None else Separator(self.dictionary)

    def max_positions(self) -> int:
        """Return the number of tokens that a text may have."""
        return UNLIMITED if self.window is not None else self.base_encoding.max_length

    @property
    def counts_through_text(self) -> bool:
        """Return whether cross-attention counts source positions through a whole document."""
        sees_neighbours = self.cross_window.sees_earlier
        return sees_neighbours or self.token_windows.cross_attention is not None

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

    def embed_input_tokens(self, tokens: Tensor) -> Tensor:
        """Embed int64 [B, T]: [B, T, C]. A separator is an end of sentence."""
        if self.separator is not None:
            tokens = self.separator.replace_by_eos(tokens)
        return self.embed_scale * self.embed_tokens(tokens)

    def bound_offsets(self, layout: Layout) -> int:
        """Return an exclusive upper bound of the offsets of real tokens: the length of the longest
        sentence, or of the text where a GPU would have to be waited for in training."""
        if layout.sentence is None or (self.training and layout.padding.device.type != "cpu"):
            return layout.index.size(1)
        return max(1, int(layout.offset.masked_fill(layout.padding, 0).max()) + 1)

    def scale_positions(self, positions: Tensor) -> Tensor:
        """Multiply positions by the source scale; the decoder's stay as they are."""
        return positions

    def place_tokens(
        self, layout: Layout, noise: Noise, statistic: SourceStatistic
    ) -> tuple[Tensor, Tensor]:
        """Return the positions of all tokens, scaled and with noise, which sinusoids and
        cross-attention take, and those that self-attention takes: float32 [B or 1, T] each."""
        offsets, columns = map(self.scale_positions, (layout.offset, layout.column))
        augmented = self.augmenter.augment(offsets, layout.padding, noise, statistic)
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
        if self.window is not None:
            conditions.append(Condition(self.window, queries.sentence, keys.sentence))
        window = self.token_windows.find_attention(keys.padding.size(1), causal)
        if window is None and causal and (conditions or has_mask):
            window = Window(math.inf)
        if window is not None:
            conditions.append(Condition(window, queries.column, keys.column))
        return conditions
