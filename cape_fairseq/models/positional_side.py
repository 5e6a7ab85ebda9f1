"""Positions in an encoder or decoder: what both sides share."""

from typing import Any, NamedTuple

import torch
from fairseq.distributed import fsdp_wrap
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cape_fairseq.data.separator import Separator
from cape_fairseq.models.config import find_encoding
from cape_fairseq.modules.masks import build_mask, has_padding
from cape_fairseq.modules.plan import AttentionPlan
from cape_fairseq.modules.windows import Window, WindowMask
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise, PositionEncoding, Summary
from cape_fairseq.positions.layout import Layout
from cape_fairseq.positions.randpos import RandomPositions


class Positions(NamedTuple):
    """Positions of the tokens of one side, and what is added to layers."""

    moved: Tensor  # [B or 1, T], scaled and with noise; cross-attention rotates by them
    attended: Tensor  # [B or 1, T], what self-attention sees
    embeddings: list[Tensor]  # of the last queries, for the input of each layer, [B or 1, T, C]


UNLIMITED = 2**24  # float32 counts without gaps up to here


class PositionalSide:
    """An encoder or decoder with ``positions``, a mixin for fairseq's.

    ``window`` are the sentences that self-attention sees, or None without ``--sentence-context``;
    ``cross_window`` those that the decoder sees of the source.
    """

    def build_positions(self, cfg: Any, side: Side, window: Window | None) -> None:
        """Build the encoding, and the kernel that it gives to each layer."""
        self.embed_positions = None
        self.autocast = cfg.autocast
        self.window = window
        self.cross_window = Window(cfg.sentence_cross_context, cfg.sentence_cross_context)
        self.checkpoint_activations = cfg.checkpoint_activations
        self.positions = find_encoding(cfg)(cfg, side)
        is_random = cfg.position_augmentation == "randpos"
        self.random_positions = RandomPositions(cfg) if is_random else None
        for number in range(len(self.layers)):
            layer = self.layers[number]
            layer.number = number  # iteration over the layers may drop some (layer drop)
            layer.self_attn.kernel = self.positions.build_kernel(number)
            layer.self_attn.layer = number

    @property
    def noise_source(self) -> PositionEncoding | RandomPositions:
        """Return what samples noise and moves positions by it."""
        return self.random_positions or self.positions

    @property
    def separator(self) -> Separator | None:
        """Return what is between the sentences of a document, or None without documents."""
        return None if self.window is None else Separator(self.dictionary)

    @property
    def length_limit(self) -> int:
        """Return the number of tokens that a text may have."""
        limit = None if self.window is not None else self.positions.max_length
        return UNLIMITED if limit is None else limit

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

    def embed_input_tokens(self, tokens: Tensor) -> Tensor:
        """Embed int64 [B, T]: [B, T, C]. A separator is an end of sentence."""
        if self.separator is not None:
            tokens = self.separator.replace_by_eos(tokens)
        return self.embed_scale * self.embed_tokens(tokens)

    @staticmethod
    def add_embedding(x: Tensor, embeddings: list[Tensor], layer: int) -> Tensor:
        """Add the position embedding of a layer to its input x [T, B, C]."""
        if layer >= len(embeddings):
            return x
        return x + embeddings[layer].transpose(0, 1).type_as(x)

    def bound_offsets(self, layout: Layout) -> int:
        """Return an exclusive upper bound of the offsets in sentences. It is exact unless a GPU
        would have to be waited for in training."""
        is_cpu = layout.padding.device.type == "cpu"
        return layout.bound_offsets(exactly=is_cpu or not self.training)

    def scale_positions(self, positions: Tensor) -> Tensor:
        """Multiply positions by the source scale; the decoder's stay as they are."""
        return positions

    def find_positions(
        self, layout: Layout, queries: int, noise: Noise, summary: Summary
    ) -> Positions:
        """Find the positions of all tokens, scaled and moved by noise, and what they add to the
        last ``queries`` ones."""
        offsets, columns = map(self.scale_positions, (layout.offset, layout.column))
        moved = self.noise_source.augment(offsets, layout.padding, noise, summary)
        is_augmented = noise is not None or summary is not None
        attended = self.positions.attention_positions(moved, columns, is_augmented)
        embeddings = self.positions.embed(moved[:, -queries:], self.bound_offsets(layout))
        return Positions(moved, attended, embeddings)

    def plan_sentence(
        self, positions: Tensor, queries: int, padding: Tensor | None, causal: bool
    ) -> AttentionPlan:
        """Plan the self-attention of single sentences.

        Args:
            positions: of all keys, [B or 1, S]; the last ``queries`` ones are those of queries.
            padding: bool [B, S], True at padding, or None if none has to be hidden.
        """
        q_positions = positions[:, -queries:]
        bias = self.positions.score_bias(q_positions, positions)
        rotation = self.positions.rotation(q_positions)
        mask = build_mask(padding, queries, causal, bias)
        return AttentionPlan(mask, None, causal, rotation, rotation)

    def plan_document(
        self, layout: Layout, positions: Tensor, queries: int, causal: bool
    ) -> AttentionPlan:
        """Plan the self-attention of documents: ``layout`` and ``positions`` are those of all keys,
        and the last ``queries`` ones are those of queries."""
        q_layout, q_positions = layout.select(slice(-queries, None)), positions[:, -queries:]
        rotation = self.positions.rotation(q_positions)

        def compute_bias(rows: slice, columns: slice) -> Tensor | None:
            return self.positions.score_bias(q_positions[:, rows], positions[:, columns])

        mask = WindowMask(
            self.window,
            q_layout.sentence,
            layout.sentence,
            q_layout.padding,
            layout.padding if has_padding(layout.padding) else None,
            causal,
            compute_bias,
        )
        blocks = mask.build_blocks() if mask.is_long else None
        whole = None if mask.is_long else mask.build()
        return AttentionPlan(whole, blocks, causal, rotation, rotation)
