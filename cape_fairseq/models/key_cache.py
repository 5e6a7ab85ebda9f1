"""Keys and values of earlier target tokens, which step-by-step decoding does not compute again."""

from __future__ import annotations

import torch
from torch import Tensor

from cape_fairseq.modules.windows import Window
from cape_fairseq.positions.layout import Layout, find_spans


class KeyCache:
    """Keys and values of the self-attention of each layer, and in documents their layout.

    In a step the decoder calls :meth:`advance`, then each layer :meth:`append`.

    Args:
        layout: of the tokens, [B, S] each; None without documents, and before the first token.
        keys, values: by number of the layer, [B, H, S, D].
    """

    def __init__(
        self,
        layout: Layout | None = None,
        keys: dict[int, Tensor] | None = None,
        values: dict[int, Tensor] | None = None,
    ) -> None:
        self.layout, self.keys, self.values = layout, keys or {}, values or {}

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of new tokens; return all of the layer."""
        if layer in self.keys:
            keys = torch.cat([self.keys[layer], keys], dim=2)
            values = torch.cat([self.values[layer], values], dim=2)
        # Every step reads them.
        self.keys[layer], self.values[layer] = keys.contiguous(), values.contiguous()
        return self.keys[layer], self.values[layer]

    def advance(self, layout: Layout, window: Window) -> Layout:
        """Add the layout of new tokens, which count on from the last column, and drop the first
        columns that no text sees any more, keys and values as well. Return the layout of all that
        stay."""
        if self.layout is None:
            self.layout = layout.expand()
            return self.layout
        column = layout.column - layout.column[:, :1] + self.layout.column[:, -1:] + 1
        earlier = self.layout.column.size(1)
        self.layout = self.layout.join(layout._replace(column=column))
        first, _ = window.find_columns(layout.sentence, self.layout.sentence)
        self.drop(min(int(first.min()), earlier))
        return self.layout

    def drop(self, count: int) -> None:
        """Drop the first columns."""
        if count:
            self.layout = self.layout.select(slice(count, None))
            self.keys = {layer: keys[:, :, count:] for layer, keys in self.keys.items()}
            self.values = {layer: values[:, :, count:] for layer, values in self.values.items()}

    def trim(self, window: Window) -> KeyCache:
        """Return the cache of what the next sentence of each text sees. The last token of every
        text comes into the last column, from which :meth:`advance` counts on."""
        if not window.sees_earlier:
            return KeyCache()
        layout = self.layout
        following = layout.sentence.amax(1, keepdim=True) + 1
        starts, ends = window.find_columns(following, layout.sentence)
        spans = find_spans(layout.padding, starts, ends)
        index = spans.columns[:, None, :, None]

        def gather(x: Tensor) -> Tensor:
            return x.gather(2, index.expand(-1, x.size(1), -1, x.size(3)))

        keys = {layer: gather(x) for layer, x in self.keys.items()}
        values = {layer: gather(x) for layer, x in self.values.items()}
        return KeyCache(layout.gather(spans), keys, values)

    def select(self, rows: Tensor) -> KeyCache:
        """Return the cache of some rows, int64 [R]; a beam chooses a row several times."""
        layout = None if self.layout is None else self.layout.select_rows(rows)
        keys = {layer: x.index_select(0, rows) for layer, x in self.keys.items()}
        values = {layer: x.index_select(0, rows) for layer, x in self.values.items()}
        return KeyCache(layout, keys, values)
