"""Raw text to the tokens of a model, and back."""

import logging
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.hub_utils import GeneratorHubInterface
from torch import Tensor

from cape_fairseq.data.prefixes import index_prefix
from cape_fairseq.data.rows import hide_marks
from cape_fairseq.errors import UserError
from cape_fairseq.inference.segmentation import SentencePiece, index_words
from cape_fairseq.inference.sentences import halve, split_sentences

logger = logging.getLogger(__name__)

LANGUAGE_CODE = re.compile(r"\s*(>>\S+<<)\s*")  # as users of OPUS-MT type it
CHECKED_TOKENS = 20  # from here on most tokens must be known


class Source(NamedTuple):
    """The tokens of a source sentence."""

    prefix: Tensor  # code of a language, int64 [P]
    words: Tensor  # int64 [T], with EOS

    @property
    def tokens(self) -> Tensor:
        """Return all tokens."""
        return torch.cat([self.prefix, self.words])


class TextProcessor:
    """Clean, split and segment raw text, and join the words of translations.

    Args:
        hub: fairseq's interface of the model, with tokenizer and segmentation of the source.
        target_tokenizer, target_bpe: those of the target, or None.
        language: has the rules by which paragraphs are split.
        clean: cleans a line.
        prefixes: words that begin every source and every target, such as codes of languages.
        max_subwords: longer sentences are cut.
        advice: ends the warning that a sentence was cut.
    """

    def __init__(
        self,
        hub: GeneratorHubInterface,
        target_tokenizer: Any,
        target_bpe: Any,
        language: str,
        clean: Callable[[str], str],
        prefixes: tuple[list[str], list[str]],
        max_subwords: int,
        advice: str = "",
    ) -> None:
        self.hub, self.target_tokenizer, self.target_bpe = hub, target_tokenizer, target_bpe
        self.language, self.clean = language, clean
        self.max_subwords, self.advice = max_subwords, advice
        self.uses_sentencepiece = isinstance(hub.bpe, SentencePiece)
        self.source_prefix = index_prefix(self.source_dictionary, prefixes[0])
        self.target_prefix = index_prefix(self.target_dictionary, prefixes[1])

    @property
    def source_dictionary(self) -> Dictionary:
        """Return the dictionary of the source."""
        return self.hub.src_dict

    @property
    def target_dictionary(self) -> Dictionary:
        """Return the dictionary of the target."""
        return self.hub.tgt_dict

    def encode_source(self, sentence: str) -> Source:
        """Segment a source sentence. The words <s> and </s> are unknown. A code such as ``>>fra<<``
        replaces the model's."""
        code, sentence = self.split_code(sentence)
        prefix = index_prefix(self.source_dictionary, [code]) if code else self.source_prefix
        return Source(
            prefix, self.hide_words(self.segment_source(sentence), self.source_dictionary)
        )

    def encode_target(self, sentence: str) -> Tensor:
        """Segment a target sentence: int64 [T], with EOS."""
        if self.target_tokenizer is not None:
            sentence = self.target_tokenizer.encode(sentence)
        words = sentence if self.target_bpe is None else self.target_bpe.encode(sentence)
        tokens = index_words(words, self.target_dictionary, self.uses_sentencepiece)
        return torch.cat([self.target_prefix, self.hide_words(tokens, self.target_dictionary)])

    def hide_words(self, tokens: Tensor, dictionary: Dictionary) -> Tensor:
        """Make the words <s> and </s> of a sentence with EOS unknown."""
        return torch.cat([hide_marks(tokens[:-1], dictionary), tokens[-1:]])

    def split_code(self, text: str) -> tuple[str, str]:
        """Return the code of a language that begins a text and is a word of the model, or nothing,
        and the rest of the text."""
        match = LANGUAGE_CODE.match(text)
        dictionary = self.source_dictionary
        if match is None or dictionary.index(match[1]) == dictionary.unk():
            return "", text
        return match[1], text[match.end() :]

    def segment_source(self, sentence: str) -> Tensor:
        """Return the subwords of a source sentence, int64 [T], with EOS."""
        words = self.hub.apply_bpe(self.hub.tokenize(sentence))
        return index_words(words, self.source_dictionary, self.uses_sentencepiece)

    def decode(self, tokens: Tensor) -> str:
        """Return the text of int64 [T], without the code of a language."""
        prefix = self.target_prefix.to(tokens.device)
        if torch.equal(tokens[: len(prefix)], prefix):
            tokens = tokens[len(prefix) :]
        words = self.hub.string(tokens)
        text = words if self.target_bpe is None else self.target_bpe.decode(words)
        return self.hub.detokenize(text)

    def count_unknown(self, texts: Sequence[Tensor], is_checked: bool = True) -> int:
        """Return the number of unknown source tokens, int64 [T] each.

        Raises:
            UserError: they are ``is_checked`` and most tokens of most texts, so that the
                segmentation is not the model's.
        """
        total = sum(len(text) for text in texts)
        unknown = [int((text == self.source_dictionary.unk()).sum()) for text in texts]
        odd = [i for i, text in enumerate(texts) if unknown[i] > len(text) / 2]
        if is_checked and total >= CHECKED_TOKENS and len(odd) > len(texts) / 2:
            raise UserError(
                f"{sum(unknown)} of {total} source tokens are not in the dictionary; check "
                "the segmentation (--bpe-codes, --sentencepiece, --tokenizer) and the language"
            )
        for i in odd:
            if unknown[i] >= CHECKED_TOKENS:
                logger.warning(
                    "%s ...: %d of %d subwords are not in the dictionary",
                    self.source_dictionary.string(texts[i][:8]),
                    unknown[i],
                    len(texts[i]),
                )
        return sum(unknown)

    def split_paragraph(self, line: str, split: bool = True) -> list[str]:
        """Return the sentences of a paragraph, cut where they are too long for the model."""
        text = "".join(c for c in self.clean(line) if unicodedata.category(c) != "Cc" or c == "\t")
        code, text = self.split_code(text)
        sentences = split_sentences(text, self.language) if split else [text.strip()]
        parts = [part for sentence in sentences if sentence for part in self.cut(sentence)]
        if len(parts) > len(sentences):
            logger.warning(
                "a sentence of more than %d subwords was cut%s: %.40s...",
                self.max_subwords,
                self.advice,
                text,
            )
        return [f"{code} {part}" for part in parts] if code else parts

    def cut(self, sentence: str) -> list[str]:
        """Cut a sentence into parts of at most ``max_subwords`` subwords."""
        if len(sentence) < 2 or len(self.segment_source(sentence)) <= self.max_subwords:
            return [sentence]
        left, right = halve(sentence)
        return [*self.cut(left), *self.cut(right)]
