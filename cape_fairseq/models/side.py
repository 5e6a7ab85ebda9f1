"""Positions in an encoder or decoder: what both sides share."""

from typing import Any, NamedTuple

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from cape_fairseq.models.config import find_encoding
from cape_fairseq.modules.dot_product import build_mask, has_padding
from cape_fairseq.modules.windows import Window
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise
from cape_fairseq.positions.sentences import Sentences, find_first, find_sentences

UNLIMITED = 2**24  # float32 counts without gaps up to here


class Context(NamedTuple):
    """Target sentences before the current one, in document-level decoding."""

    hidden: Tensor  # bool [B, W], True at padding
    sentences: Tensor  # int64 [B, W], the sentence of each token
    positions: Tensor  # [B, W]
    start: Tensor  # float32 [B, 1], tokens of all earlier sentences
    number: Tensor  # int64 [B, 1], the last finished sentence; the next separator adds 1


class SideMixin:
    """An encoder or decoder with ``positions``."""

    def build_positions(self, cfg: Any, side: Side) -> None:
        """Build the encoding, and the attention that it gives to each layer."""
        self.embed_positions = None
        self.autocast = cfg.autocast
        self.sentence_context = cfg.sentence_context
        self.cross_context = cfg.sentence_cross_context
        self.positions = find_encoding(cfg)(cfg, side)
        for number in range(len(self.layers)):
            layer = self.layers[number]
            layer.number = number
            layer.self_attn.attend = self.positions.build_attention(number)

    def wrap_layer(self, layer: nn.Module, cfg: Any) -> nn.Module:
        """Apply ``--checkpoint-activations`` and FSDP as fairseq does."""
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        minimum = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
        return fsdp_wrap(layer, min_num_params=minimum)

    def find_sentences(self, tokens: Tensor, numbers: Tensor) -> Sentences | None:
        """Find the sentences of int64 [B, T], if attention has windows."""
        if self.sentence_context is None:
            return None
        separator_opens = self.positions.side.name == "decoder"
        return find_sentences(tokens, self.dictionary.bos(), numbers, separator_opens)

    def scale_positions(self, numbers: Tensor) -> Tensor:
        """Turn token numbers into positions; the encoder multiplies them by the source scale."""
        return numbers

    def prepare_attention(
        self,
        positions: Tensor,
        noise: Noise | None,
        summary: Tensor | None,
        hidden: Tensor | None,
        causal: bool = False,
        last_only: bool = False,
        sentences: Tensor | None = None,
        context: Context | None = None,
    ) -> dict[str, Any]:
        """Compute mask and rotation of self-attention, which are equal in all layers.

        Args:
            hidden: bool [B, T], True at padding, or None if none has to be hidden.
            last_only: the last position is the only query (step-by-step decoding).
            sentences: int64 [B, T], the sentence of each token, if there are windows.
            context: keys before the first token; all of them are in the window.
        """
        if self.positions.relative and noise is None and summary is None:
            # Differences between real tokens are those of an unpadded row, in every row.
            numbers = torch.arange(positions.size(1), device=positions.device).float().unsqueeze(0)
            positions = self.scale_positions(numbers)
            positions = positions if context is None else positions + context.start
        queries = positions[:, -1:] if last_only else positions
        rotation, keys = self.positions.rotation(queries), positions
        if context is not None:
            keys = torch.cat([context.positions, positions.expand(len(context.hidden), -1)], 1)
            visible = torch.zeros_like(keys[:, context.hidden.size(1) :], dtype=torch.bool)
            hidden = torch.cat([context.hidden, visible if hidden is None else hidden], 1)
            hidden = None if last_only and not has_padding(hidden) else hidden
        if sentences is None or context is not None:
            bias = self.positions.score_bias(queries, keys)
            mask = build_mask(hidden, queries.size(1), causal, bias)
            return {"mask": mask, "rotation": rotation}
        cached = None
        if last_only:  # what is before the window of every row leaves the cache
            first = find_first(sentences, sentences[:, -1:] - self.sentence_context)
            cached = sentences.size(1) - 1 - int(first.min())
            hidden = None if hidden is None else hidden[:, -cached - 1 :]
            keys, sentences = keys[:, -cached - 1 :], sentences[:, -cached - 1 :]
        window = Window(sentences[:, -1:] if last_only else sentences, sentences,
                        self.sentence_context, 0, causal, hidden)  # fmt: skip
        mask = window.build_mask(
            hidden, lambda q, k: self.positions.score_bias(queries[:, q], keys[:, k])
        )
        return {"mask": mask, "rotation": rotation, "cached": cached}

    @staticmethod
    def add_embedding(x: Tensor, embeddings: list[Tensor], layer: int) -> Tensor:
        """Add the position embedding of a layer to its input x [T, B, C]."""
        if layer >= len(embeddings):
            return x
        return x + embeddings[layer].transpose(0, 1).type_as(x)

    @property
    def length_limit(self) -> int:
        """Return the number of tokens that a sentence may have."""
        limit = None if self.sentence_context is not None else self.positions.max_length
        return UNLIMITED if limit is None else limit


def select_layer(biases: list[dict[str, Tensor]], layer: int) -> dict[str, Tensor]:
    """Return the attention biases of a layer, if it has any."""
    return biases[layer] if layer < len(biases) else {}
