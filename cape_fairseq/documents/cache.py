"""Keys and values of earlier target sentences, which the next sentence of a document sees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cape_fairseq.models.encoder_out import EARLIER_LAYOUT, EncoderOut
from cape_fairseq.positions.layout import Layout

KEYS, VALUES = "earlier_keys", "earlier_values"  # entries of the encoder's output


class SentenceCache:
    """Earlier sentences of some documents, in one model.

    Args:
        layout: of the tokens, [rows, W] each. Rows end in the last column and may begin with
            padding.
        keys, values: of each layer, [rows, H, W, D].
    """

    def __init__(self, layout: Layout, keys: list[Tensor], values: list[Tensor]) -> None:
        self.layout, self.keys, self.values = layout, keys, values

    @classmethod
    def start(cls, decoder: nn.Module, rows: int) -> SentenceCache:
        """Create the cache before the first sentence."""
        weight, attention = next(decoder.parameters()), decoder.layers[0].self_attn
        shape = rows, attention.num_heads, 0, attention.head_dim
        dtype = torch.bfloat16 if decoder.autocast == "bf16" else weight.dtype
        keys = [torch.zeros(shape, dtype=dtype, device=weight.device) for _ in decoder.layers]
        count = torch.zeros(rows, 0, device=weight.device)
        layout = Layout(count.bool(), count, count, count, count.long())
        return cls(layout, keys, list(keys))

    def select(self, rows: Tensor) -> SentenceCache:
        """Return the cache of some documents."""
        layout = Layout(*(part.index_select(0, rows) for part in self.layout))
        keys = [key.index_select(0, rows) for key in self.keys]
        return SentenceCache(layout, keys, [value.index_select(0, rows) for value in self.values])

    def list_entries(self) -> EncoderOut:
        """Return the cache as entries of an encoder's output, whose rows a beam can reorder."""
        return {EARLIER_LAYOUT: list(self.layout), KEYS: self.keys, VALUES: self.values}

    def extend(self, decoder: nn.Module, encoder_out: EncoderOut, tokens: Tensor) -> SentenceCache:
        """Return the cache with one more sentence, without those that no later one sees.

        Args:
            encoder_out: of the sentence, with :meth:`list_entries`.
            tokens: the sentence as an input of the decoder, int64 [rows, T], padded on the right.
        """
        state: dict[str, Any] = {}
        fill_state(decoder, state, encoder_out)
        own = decoder.find_layout(tokens, encoder_out)
        decoder(
            tokens,
            encoder_out=encoder_out,
            incremental_state=state,
            all_tokens=True,
            features_only=True,
        )
        saved = [layer.self_attn._get_input_buffer(state) for layer in decoder.layers]
        keys = [entries["prev_key"] for entries in saved]
        values = [entries["prev_value"] for entries in saved]
        # An attention of a single query has dropped the keys that no later one needs.
        layout = self.layout.join(own).select(slice(-keys[0].size(2), None))
        return SentenceCache(layout, keys, values).trim(decoder)

    def trim(self, decoder: nn.Module) -> SentenceCache:
        """Return the tokens that the next sentence sees, with the last token of each row in the
        last column."""
        real = ~self.layout.padding
        following = self.layout.sentence.amax(1, keepdim=True) + 1
        is_visible = decoder.window.find_visible(following, self.layout.sentence).squeeze(1)
        counts = (real & is_visible).sum(1, keepdim=True)
        ends = torch.where(real, torch.arange(1, real.size(1) + 1, device=real.device), 0)
        ends = ends.amax(1, keepdim=True)  # behind the last token of each row
        width = int(counts.max())
        columns = ends - width + torch.arange(width, device=real.device)
        padding = columns < ends - counts
        columns = columns.clamp(min=0)
        layout = Layout(*(part.gather(1, columns) for part in self.layout))
        layout = layout._replace(padding=padding)
        keys = [select_columns(key, columns) for key in self.keys]
        return SentenceCache(
            layout, keys, [select_columns(value, columns) for value in self.values]
        )


def fill_state(decoder: nn.Module, state: dict[str, Any], encoder_out: EncoderOut) -> None:
    """Put the earlier keys and values of an encoder's output into an incremental state."""
    pairs = zip(decoder.layers, encoder_out[KEYS], encoder_out[VALUES], strict=True)
    for layer, key, value in pairs:
        layer.self_attn._set_input_buffer(state, {"prev_key": key, "prev_value": value})


def select_columns(x: Tensor, columns: Tensor) -> Tensor:
    """Select columns [rows, W] of keys or values [rows, H, S, D]."""
    index = columns[:, None, :, None].expand(-1, x.size(1), -1, x.size(3))
    return x.gather(2, index)
