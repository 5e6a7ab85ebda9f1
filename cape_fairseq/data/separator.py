"""The separator between the sentences of a document.

In the data it is the token ``<s>``, as the mark from which sentences are counted; to the network it
is an end of sentence.
"""

from collections.abc import Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor


class Separator:
    """The separator by the indices of a dictionary.

    Attributes:
        index: of the separator, the dictionary's BOS.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.index, self.eos, self.unk = dictionary.bos(), dictionary.eos(), dictionary.unk()

    def find(self, tokens: Tensor) -> Tensor:
        """Return a bool tensor, True at separators."""
        return tokens == self.index

    def replace_by_eos(self, tokens: Tensor) -> Tensor:
        """Return what the network sees: separators become EOS."""
        return tokens.masked_fill(self.find(tokens), self.eos)

    def hide(self, tokens: Tensor) -> Tensor:
        """Make a word <s> in the text of a sentence unknown."""
        return tokens.masked_fill(self.find(tokens), self.unk)

    def join(self, sentences: Sequence[Tensor]) -> Tensor:
        """Join sentences, int64 [T] each with EOS. The last one keeps its EOS."""
        last = sentences[-1]
        separator = last.new_tensor([self.index])
        return torch.cat([*(x for s in sentences[:-1] for x in (s[:-1], separator)), last])

    def split(self, tokens: Tensor) -> list[Tensor]:
        """Split int64 [T] after separators."""
        ends = self.find(tokens).nonzero().flatten() + 1
        return list(tokens.tensor_split(ends.cpu()))
