"""The decoder: fairseq's, with the hooks of a position encoding."""

from typing import Any

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from cape_fairseq.models.encoder import drop_bos, mask_source
from cape_fairseq.models.side import Context, SideMixin, select_layer
from cape_fairseq.modules.attention import IncrementalState
from cape_fairseq.modules.layers import DecoderLayer
from cape_fairseq.modules.precision import autocast
from cape_fairseq.modules.windows import Window
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise, number_tokens
from cape_fairseq.positions.sentences import Sentences, find_first

EncoderOut = dict[str, list[Tensor]]


class PositionalDecoder(SideMixin, TransformerDecoderBase):
    """Transformer decoder."""

    def __init__(
        self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, no_encoder_attn: bool = False
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn)
        self.has_source_bos = cfg.source_bos == "on"
        self.align_in_training = False  # set if the criterion learns from alignments
        heads, limit = cfg.decoder.attention_heads, cfg.max_target_positions
        side = Side("decoder", cfg.decoder.layers, self.embed_dim, heads, limit, self.padding_idx)
        self.build_positions(cfg, side)

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return self.wrap_layer(DecoderLayer(cfg, no_encoder_attn), cfg)

    @autocast
    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut | None = None,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False, full_context_alignment: bool = False,
        alignment_layer: int | None = None, alignment_heads: int | None = None,
        noise: Noise | None = None, all_tokens: bool = False, **_: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:  # fmt: skip
        """Score the next token at every position, or at the last one in step-by-step decoding.

        The arguments are fairseq's, ``noise`` of the target positions, and ``all_tokens``, which
        puts the keys of all tokens into an incremental state in one pass. Returns scores
        [B, T, vocabulary] or features [B, T, C], and a dictionary with the cross-attention weights
        of ``alignment_layer`` (``attn``, [B, T, S]) and ``inner_states``.
        """
        last_only = incremental_state is not None and not all_tokens
        new = slice(-1, None) if last_only else slice(None)
        attention, biases, embeddings = self.prepare_positions(
            prev_output_tokens, encoder_out, incremental_state, not full_context_alignment, noise,
            last_only,
        )  # fmt: skip
        # Weights cost time, and in training only a criterion on alignments needs them.
        weighted_layer = self.num_layers - 1 if alignment_layer is None else alignment_layer
        needs_weights = alignment_layer is not None or self.align_in_training or not self.training
        needs_weights = needs_weights and self.sentence_context is None
        weights = None
        x = self.embed(prev_output_tokens[:, new], embeddings)
        inner_states: list[Tensor | None] = [x]
        for layer in self.layers:
            x = self.add_embedding(x, embeddings, layer.number) if layer.number > 0 else x
            x, layer_weights, _ = layer(
                x,
                get_entry(encoder_out, "encoder_out"),
                incremental_state=incremental_state,
                need_attn=needs_weights and layer.number == weighted_layer,
                **select_layer(biases, layer.number),
                **attention,
            )
            inner_states.append(x)
            weights = layer_weights if layer.number == weighted_layer else weights
        x = x if self.layer_norm is None else self.layer_norm(x)
        x = x.transpose(0, 1)
        x = x if self.project_out_dim is None else self.project_out_dim(x)
        if weights is not None:
            weights = self.average_weights(weights, alignment_heads, encoder_out).type_as(x)
        x = x if features_only else self.output_layer(x)
        if last_only and self.sentence_context is not None and not encoder_out.get("context"):
            x = self.constrain_ends(x, prev_output_tokens, encoder_out)
        return x, {"attn": [weights], "inner_states": inner_states}

    def constrain_ends(self, scores: Tensor, tokens: Tensor, encoder_out: EncoderOut) -> Tensor:
        """Make EOS unlikely before the last sentence, separators in it, and empty sentences."""
        separator, eos = self.dictionary.bos(), self.dictionary.eos()
        last = get_entry(encoder_out, "source_sentences").amax(1)
        numbers = (tokens == separator).cumsum(1)
        number = numbers[:, -1:].clamp(max=last.unsqueeze(1))
        is_last = number.squeeze(1) == last
        is_empty = (tokens[:, -1] == separator) | (tokens[:, -1] == eos)
        # The penalty is finite, since fairseq needs EOS at the maximal length.
        scores[:, -1, eos] -= 1e4 * (~is_last | is_empty)
        scores[:, -1, separator] -= 1e4 * (is_last | is_empty)
        # The longest output, twice the source + 200 tokens, is divided among the sentences.
        source_mask = get_entry(encoder_out, "encoder_padding_mask")
        source = (get_entry(encoder_out, "source_sentences") == number) & ~source_mask
        too_long = (numbers == number).sum(1) > 2 * source.sum(1) + 200 // (last + 1)
        scores[:, -1, eos] += 2e4 * (too_long & is_last)
        scores[:, -1, separator] += 2e4 * (too_long & ~is_last)
        return scores

    def average_weights(
        self, weights: Tensor, heads: int | None, encoder_out: EncoderOut
    ) -> Tensor:
        """Average weights [B, H, T, S] over heads, without the source BOS."""
        weights = weights[:, :heads].mean(dim=1)
        source_mask = get_entry(encoder_out, "encoder_padding_mask")
        return drop_bos(weights, source_mask) if self.has_source_bos else weights

    def extract_features(self, *args: Any, **kwargs: Any) -> Any:
        """Run :meth:`forward` without the output projection."""
        return self(*args, features_only=True, **kwargs)

    def prepare_positions(
        self,
        tokens: Tensor,
        encoder_out: EncoderOut | None,
        incremental_state: IncrementalState | None,
        causal: bool,
        noise: Noise | None,
        last_only: bool,
    ) -> tuple[dict[str, Any], list[dict[str, Any]], list[Tensor]]:
        """Return the arguments of attention in all layers, those of each layer, and embeddings."""
        new = slice(-1, None) if last_only else slice(None)
        padding_mask = tokens.eq(self.padding_idx)
        source_mask = get_entry(encoder_out, "encoder_padding_mask")
        summary = get_entry(encoder_out, "source_summary")
        context = get_context(encoder_out)
        numbers = number_tokens(padding_mask)
        sentences = self.find_sentences(tokens, numbers)
        if sentences is not None:
            sentences = self.clamp_sentences(sentences, encoder_out, context)
        offsets = numbers if sentences is None else sentences.offsets
        positions = self.positions.augment(offsets, padding_mask, noise, summary)
        # Padding on the right is later than every real token, and so hidden already.
        hidden = None if causal and numbers.size(0) == 1 else padding_mask
        attention = self.prepare_attention(
            positions, noise, summary, hidden, causal, last_only,
            None if sentences is None else sentences.numbers, context,
        )  # fmt: skip
        has_keys = last_only and tokens.size(1) > 1  # of cross-attention, rotated and with biases
        target = None if sentences is None else sentences.numbers[:, new]
        attention |= self.prepare_cross_attention(
            positions[:, new], encoder_out, has_keys, target, padding_mask[:, new]
        )
        needs_source = source_mask is not None and not has_keys
        source_numbers = number_tokens(source_mask) if needs_source else None
        if needs_source and sentences is not None:
            source_numbers = get_entry(encoder_out, "source_offsets")
        biases = self.positions.attention_biases(offsets[:, new], source_numbers)
        if self.training and source_mask is not None and sentences is None:
            self.positions.count_lengths(padding_mask, source_mask)
        return {"causal": causal, **attention}, biases, self.positions.embed(positions[:, new])

    def clamp_sentences(
        self, sentences: Sentences, encoder_out: EncoderOut, context: Context | None
    ) -> Sentences:
        """Count sentences after those of the context, and none beyond the source's last."""
        numbers = sentences.numbers if context is None else sentences.numbers + context.number
        last = get_entry(encoder_out, "source_sentences").amax(1, keepdim=True)
        return sentences._replace(numbers=torch.minimum(numbers, last))

    def prepare_cross_attention(
        self,
        positions: Tensor,
        encoder_out: EncoderOut | None,
        has_keys: bool,
        sentences: Tensor | None,
        padding_mask: Tensor,
    ) -> dict[str, Any]:
        """Compute mask and rotations of cross-attention, which are equal in all layers.

        ``positions``, ``sentences`` and ``padding_mask``, [B, T], are those of the queries.
        """
        source_mask = get_entry(encoder_out, "encoder_padding_mask")
        if source_mask is None:
            return {}
        arguments = {"cross_mask": mask_source(source_mask)}
        source = get_entry(encoder_out, "source_positions")
        if sentences is not None:
            source_sentences, reach = get_entry(encoder_out, "source_sentences"), self.cross_context
            if not encoder_out.get("context"):  # whose source has the sentences of the window only
                window = Window(sentences, source_sentences, reach, reach, padding=padding_mask)
                arguments = {"cross_mask": window.build_mask(source_mask)}
            if source is not None and reach > 0:  # the target begins where its source sentence does
                starts = source.gather(1, find_first(source_sentences, sentences))
                positions = positions + starts.clamp(min=0)  # padding on the left has -1
        if self.positions.rotates_cross_attention:
            arguments["cross_rotation"] = self.positions.rotation(positions)
            arguments["cross_key_rotation"] = None if has_keys else self.positions.rotation(source)
        return arguments

    def embed(self, tokens: Tensor, embeddings: list[Tensor]) -> Tensor:
        """Compute the input of the first layer: int64 [B, T] -> [T, B, C]."""
        x = self.embed_scale * self.embed_tokens(tokens)
        x = x if self.quant_noise is None else self.quant_noise(x)
        x = x if self.project_in_dim is None else self.project_in_dim(x)
        x = self.add_embedding(x.transpose(0, 1), embeddings, 0)
        x = x if self.layernorm_embedding is None else self.layernorm_embedding(x)
        return self.dropout_module(x)

    def max_positions(self) -> int:
        """Return the number of target tokens."""
        return self.length_limit


def get_context(encoder_out: EncoderOut | None) -> Context | None:
    """Return the earlier sentences of document-level decoding, or None."""
    entries = (encoder_out or {}).get("context")
    return Context(*entries[: len(Context._fields)]) if entries else None


def get_entry(encoder_out: EncoderOut | None, name: str) -> Tensor | None:
    """Return an entry of the encoder's output, or None."""
    entries = (encoder_out or {}).get(name)
    return entries[0] if entries else None
