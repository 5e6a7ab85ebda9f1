"""The decoder: fairseq's, with the hooks of a position encoding."""

from typing import Any

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from cape_fairseq.models.decoding_state import SOURCE_STATE, EncoderOut, KeyCache, SourceState, Step
from cape_fairseq.models.positional_side import PositionalSide
from cape_fairseq.models.source_attention import SourceAttention
from cape_fairseq.modules.attention import KEY_CACHE, IncrementalState
from cape_fairseq.modules.graph import KeepInGraph
from cape_fairseq.modules.layers import DecoderLayer
from cape_fairseq.modules.masks import drop_bos
from cape_fairseq.modules.plan import LayerBiases, SidePlan
from cape_fairseq.modules.precision import autocast
from cape_fairseq.positions import Side
from cape_fairseq.positions.base import Noise
from cape_fairseq.positions.layout import Layout, compute_layout


class PositionalDecoder(SourceAttention, PositionalSide, TransformerDecoderBase):
    """Transformer decoder."""

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        super().__init__(cfg, dictionary, embed_tokens, cfg.no_cross_attention)
        self.returns_weights = False  # of the cross-attention, also in the parallel pass
        heads, limit = cfg.decoder.attention_heads, cfg.max_target_positions
        side = Side("decoder", cfg.decoder.layers, self.embed_dim, heads, limit, self.padding_idx)
        self.build_positions(cfg, side)

    def build_output_projection(self, cfg: Any, dictionary: Any, embed_tokens: Any) -> None:
        super().build_output_projection(cfg, dictionary, embed_tokens)
        if cfg.output_bias:
            self.output_projection.bias = nn.Parameter(torch.zeros(len(dictionary)))

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return self.wrap_layer(DecoderLayer(cfg, no_encoder_attn), cfg)

    @autocast
    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: IncrementalState | None = None,
        features_only: bool = False,
        alignment_layer: int | None = None,
        noise: Noise = None,
        **_: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Score the next token at every position, or at the last one in step-by-step decoding.

        The arguments are fairseq's and ``noise`` of the target positions. Returns scores
        [B, T, vocabulary] or features [B, T, C], and a dictionary with the cross-attention weights
        of ``alignment_layer`` (``attn``, [B, T, S]) and ``inner_states``.
        """
        step = self.begin_step(prev_output_tokens.size(1), incremental_state)
        wanted = self.num_layers - 1 if alignment_layer is None else alignment_layer
        weighted = [wanted] if self.computes_weights(alignment_layer, step) else []
        source, (hidden,) = encoder_out[SOURCE_STATE], encoder_out["encoder_out"]
        layout = compute_layout(prev_output_tokens, self.padding_idx)
        augmented, attended = self.place_tokens(layout, noise, source.statistic)
        plan = self.plan_layers(layout, augmented, attended, source, step, weighted)
        if self.training and torch.is_grad_enabled():
            self.encoding.count_lengths(layout, source.layout)

        x = self.embed(prev_output_tokens[:, -step.queries :], plan)
        states, weights = self.run_layers(x, plan, hidden, incremental_state)
        x = self.finish(states[-1], features_only)
        if step.cache is not None and self.token_windows.tracks_source:
            token = self.locate_token(layout, augmented, source, step, plan)
            self.update_cache(step.cache, token, weights.get(self.num_layers - 1))
            x = x if features_only else self.delay_end(x, step.cache)
        attention = None
        if wanted in weighted and wanted in weights:
            attention = self.average_weights(weights[wanted], encoder_out)
        return x, {"attn": [attention], "inner_states": states}

    def begin_step(self, length: int, incremental_state: IncrementalState | None) -> Step:
        """Say what a call computes for so many tokens: all scores in parallel, or in a step, which
        keeps keys for later ones, those of the last token."""
        if incremental_state is None:
            return Step(length)
        cache = incremental_state.setdefault(KEY_CACHE, KeyCache())
        cache.window = self.token_windows.attention
        attention = self.layers[0].encoder_attn
        source = {} if attention is None else attention._get_input_buffer(incremental_state)
        return Step(1, cache, has_source_keys=bool(source))

    def computes_weights(self, alignment_layer: int | None, step: Step) -> bool:
        """Return whether weights of the cross-attention are computed: where they are asked for, and
        in steps, since fairseq's search keeps them. Those of windows have no room there."""
        is_asked = alignment_layer is not None or self.returns_weights or step.cache is not None
        return is_asked and self.token_windows.cross_attention is None

    def plan_layers(
        self,
        layout: Layout,
        augmented: Tensor,
        attended: Tensor,
        source: SourceState,
        step: Step,
        weighted: list[int],
    ) -> SidePlan:
        """Plan the attentions of a step in all layers.

        Args:
            layout: of all target tokens, [B, T].
            augmented, attended: their positions, float32 [B or 1, T]; see :meth:`place_tokens`.
            weighted: layers that return the weights of their cross-attention.
        """
        queries = layout.select(slice(-step.queries, None))
        augmented = augmented[:, -step.queries :]
        keys, attended = self.select_keys(layout, attended, step)
        length = layout.padding.size(1)
        if step.cache is not None and self.token_windows.alignment is not None:
            weighted = [*weighted, self.num_layers - 1]
        return SidePlan(
            self.encoding.embed(augmented, length),
            self.compute_biases(queries, None if step.has_source_keys else source, length),
            self.plan_self_attention(keys, attended, step.queries, causal=True),
            self.plan_cross_attention(queries, augmented, source, step),
            weighted,
        )

    def finish(self, x: Tensor, features_only: bool) -> Tensor:
        """Turn the output of the last layer [T, B, C] into features [B, T, C] or scores."""
        x = x if self.layer_norm is None else self.layer_norm(x)
        x = x.transpose(0, 1)
        x = x if self.project_out_dim is None else self.project_out_dim(x)
        if not features_only:
            return self.output_layer(x)
        if self.training and self.output_projection is not None:
            return KeepInGraph.apply(x, self.output_projection.weight)  # for the chunked criterion
        return x

    def average_weights(self, weights: Tensor, encoder_out: EncoderOut) -> Tensor:
        """Average weights [B, H, T, S] over heads, without the source BOS."""
        weights = weights.mean(dim=1).type_as(encoder_out["encoder_out"][0])
        if self.cfg.source_bos == "off":
            return weights
        return drop_bos(weights, encoder_out["encoder_padding_mask"][0])

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: IncrementalState | None = None,
        full_context_alignment: bool = False,
        alignment_layer: int | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Run :meth:`forward` without the output projection; the arguments are fairseq's."""
        state = incremental_state
        return self(prev_output_tokens, encoder_out, state, True, alignment_layer, **kwargs)

    def select_keys(self, layout: Layout, attended: Tensor, step: Step) -> tuple[Layout, Tensor]:
        """Return the layout and the positions of the keys of self-attention: those of all tokens,
        or in a step those of the cache and of the new token."""
        if step.cache is None:
            return layout, attended
        seen = slice(step.cache.count_unseen(layout.padding.size(1) - step.queries), None)
        return layout.select(seen), attended[:, seen]

    def compute_biases(
        self, queries: Layout, source: SourceState | None, length: int
    ) -> list[LayerBiases]:
        """Compute the biases of queries in a target of so many tokens, and those of the source's
        keys, unless an earlier step computed them."""
        if source is None:
            return self.encoding.attention_biases(queries.index, None, length)
        index = source.layout.index
        return self.encoding.attention_biases(queries.index, index, max(length, index.size(1)))

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """Reorder the keys of earlier target tokens, for beam search."""
        if KEY_CACHE in incremental_state:
            incremental_state[KEY_CACHE] = incremental_state[KEY_CACHE].select(new_order)

    def embed(self, tokens: Tensor, plan: SidePlan) -> Tensor:
        """Compute the input of the first layer: int64 [B, T] -> [T, B, C]."""
        x = self.embed_scale * self.embed_tokens(tokens)
        x = x if self.quant_noise is None else self.quant_noise(x)
        x = x if self.project_in_dim is None else self.project_in_dim(x)
        x = plan.add_embedding(x.transpose(0, 1), 0)
        x = x if self.layernorm_embedding is None else self.layernorm_embedding(x)
        return self.dropout_module(x)
