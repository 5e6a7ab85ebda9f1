"""Translation of raw text by fairseq's hub interface."""

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.command_line import show_progress
from cape_fairseq.data.languages import find_joiner
from cape_fairseq.data.prefixes import read_prefixes
from cape_fairseq.data.rows import build_row, count_fitting
from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.inference.hub import MAX_TOKENS, SEARCH_TOKENS, build_hub
from cape_fairseq.inference.long_text import LongTextOptions, LongTextPolicy
from cape_fairseq.inference.segmentation import (
    SentencePiece,
    build_segmentation,
    build_tokenizer,
    check_unsegmented,
    choose_cleaning,
)
from cape_fairseq.inference.sentences import choose_rules
from cape_fairseq.inference.text_processor import TextProcessor
from cape_fairseq.positions.base import UNLIMITED

logger = logging.getLogger(__name__)

MAX_SUBWORDS = 400  # longer sentences are cut, and those beyond the model's limit
BLOCK = 2000  # lines that are translated before the first of them is returned
BATCH = 64  # texts


class Row(NamedTuple):
    """A text with the sentences before it."""

    text: Tensor  # int64 [T], with EOS
    context: Sequence[Tensor] = ()  # without EOS, int64 [T] each


class Translator:
    """A model that translates raw text, by fairseq's hub interface.

    Dictionaries are found in ``data``, beside the checkpoint or in the data of the training, codes
    of subword-nmt in ``bpe_codes`` or in ``bpecodes`` beside one of these, one or two models of
    SentencePiece in ``sentencepiece`` or in ``source.spm`` and ``target.spm`` or
    ``sentencepiece.model`` there. ``tokenizer`` is moses_quotes by default, and none with
    SentencePiece. ``language`` has the rules by which paragraphs are split (default: the source
    language). Sentences of more than ``max_subwords`` are cut (default: 400; not those that a model
    translates in one pass). The other options are those of ``LongTextOptions``.

    Attributes:
        context: earlier sentences that the model was trained with (``--source-context``).
        long_texts: the number of texts that were translated in one pass, with windows of tokens.
    """

    long_texts = 0
    has_warned = False  # of long sentences

    def __init__(
        self,
        checkpoint: str | Path,
        data: str | Path | None = None,
        bpe_codes: str | Path | None = None,
        tokenizer: str | None = None,
        language: str | None = None,
        cpu: bool = False,
        sentencepiece: Sequence[str | Path] = (),
        max_subwords: int | None = None,
        **long_text: Any,
    ) -> None:
        path = Path(checkpoint)
        model, task, self.context, folder = load_model(path, data)
        given = LongTextOptions(**long_text)
        self.long_text_policy = LongTextPolicy.of(model, given, has_context=self.context > 0)
        most = model.encoder.max_positions()
        self.row_limit = min(self.long_text_policy.longest or UNLIMITED, most)
        source_lang, target_lang = task.cfg.source_lang, task.cfg.target_lang
        self.joiner = find_joiner(target_lang)
        bpe, target_bpe = build_segmentation(folder, bpe_codes, sentencepiece)
        if bpe is None:
            check_unsegmented(path, task.source_dictionary)
        clean = choose_cleaning(tokenizer)
        if tokenizer is None and not isinstance(bpe, SentencePiece):
            tokenizer = "moses_quotes"
        self.hub = build_hub(model, task, build_tokenizer(tokenizer, source_lang, target_lang), bpe)
        self.text = TextProcessor(
            self.hub,
            build_tokenizer(tokenizer, target_lang, target_lang),
            target_bpe,
            choose_rules(language or source_lang),
            clean,
            read_prefixes(folder),
            min(self.choose_limit(max_subwords), most),
            self.long_text_policy.advice,
        )
        self.hub.task.target_prefix = self.text.target_prefix
        if torch.cuda.is_available() and not cpu:
            self.hub.cuda()

    def choose_limit(self, max_subwords: int | None) -> int:
        """Return the subwords of the longest sentence that is not cut: what is given, or the
        default, which is none where long texts are translated in one pass."""
        has_one_pass = self.long_text_policy.options is not None
        return max_subwords or (UNLIMITED if has_one_pass else MAX_SUBWORDS)

    def translate(
        self, lines: Sequence[str], context: int | None = None, split: bool = True, **options: Any
    ) -> list[str]:
        """Translate paragraphs; see :meth:`stream`."""
        return list(self.stream(lines, context, split, **options))

    def stream(
        self, lines: Iterable[str], context: int | None = None, split: bool = True, **options: Any
    ) -> Iterator[str]:
        """Yield the translations of paragraphs, in blocks; empty ones stay empty and separate
        documents.

        Args:
            context: earlier sentences of the document that each sentence sees (default: as many as
                in training).
            split: split paragraphs into sentences; each line is a sentence otherwise.
            options: of :meth:`translate_documents`.
        """
        context = self.choose_context(context)
        is_first = True
        for block in divide_lines(lines, ends_at_empty=context > 0):
            paragraphs = [self.text.split_paragraph(line, split) for line in block]
            documents: list[list[str]] = [[]]
            for sentences in paragraphs:
                if sentences:
                    documents[-1] += sentences
                else:
                    documents.append([])
            found = self.translate_documents(documents, context, is_checked=is_first, **options)
            done = itertools.chain.from_iterable(found)
            for sentences in paragraphs:
                yield self.joiner.join(next(done) for _ in sentences)
            is_first = False

    def choose_context(self, context: int | None) -> int:
        """Return the number of earlier sentences, and warn if it is larger than in training."""
        if context is None:
            return self.context
        if context > self.context:
            logger.warning(
                "--context is %d, but the model was trained with %d earlier sentences",
                context,
                self.context,
            )
        return context

    def translate_sentences(self, sentences: Sequence[str], **options: Any) -> list[str]:
        """Translate sentences without context; empty ones stay empty."""
        (translations,) = self.translate_documents([sentences], context=0, **options)
        return translations

    def translate_documents(
        self,
        documents: Sequence[Sequence[str]],
        context: int | None = None,
        is_checked: bool = True,
        **options: Any,
    ) -> list[list[str]]:
        """Translate documents, lists of sentences; each gets as many translations.

        Args:
            context: earlier sentences that each sentence sees (default: as many as in training).
            is_checked: text whose words are mostly unknown is an error.
            options: of :meth:`translate_rows`.
        """
        context = self.context if context is None else context
        rows = [row for document in documents for row in self.build_rows(document, context)]
        texts = [row.text for row in rows if row is not None]
        unknown_source = self.text.count_unknown(texts, is_checked)
        self.warn_of_long(texts)
        translated = iter(self.translate_rows([row for row in rows if row is not None], **options))
        tokens = [None if row is None else next(translated) for row in rows]
        unk = self.text.target_dictionary.unk()
        unknown = sum(int((x == unk).sum()) for x in tokens if x is not None)
        if unknown or unknown_source:
            logger.warning(
                "words not in the dictionary: %d subwords of the source and %d of the translation "
                "are <unk>",
                unknown_source,
                unknown,
            )
        lines = iter("" if x is None else self.text.decode(x) for x in tokens)
        return [[next(lines) for _ in document] for document in documents]

    def warn_of_long(self, texts: Sequence[Tensor]) -> None:
        """Warn once of sentences beyond the longest text of training, which the model cannot
        translate in one pass."""
        longest = self.long_text_policy.longest
        count = sum(len(text) > longest for text in texts)
        if count and longest and self.long_text_policy.options is None and not self.has_warned:
            self.has_warned = True
            logger.warning(
                "%d sentences have more subwords than any text of training (%d), and this model "
                "translates such texts badly; --max-subwords %d cuts them",
                count,
                longest,
                longest,
            )

    def build_rows(self, sentences: Sequence[str], context: int) -> list[Row | None]:
        """Build the rows of the sentences of a document; an empty one has none, and is no
        context."""
        rows: list[Row | None] = []
        earlier: list[Tensor] = []
        for sentence in sentences:
            if not sentence.strip():
                rows.append(None)
                continue
            source = self.text.encode_source(sentence)
            near = earlier[len(earlier) - min(context, len(earlier)) :]
            fitting = count_fitting([len(x) for x in near], len(source.tokens), self.row_limit)
            rows.append(Row(source.tokens, near[len(near) - fitting :]))
            earlier.append(source.words[:-1])
        return rows

    def translate_rows(self, rows: Sequence[Row], beam: int = 5, **options: Any) -> list[Tensor]:
        """Translate rows side by side, in batches of similar length: the best hypothesis of each,
        int64 [T]. Options are those of fairseq-generate, for instance ``lenpen``."""
        sources = [build_row(row.context, row.text, self.text.source_dictionary) for row in rows]
        is_long = [self.long_text_policy.has(len(row.text)) for row in rows]
        self.long_texts += sum(is_long)
        order = sorted(range(len(rows)), key=lambda i: (is_long[i], len(sources[i])))
        groups = [list(group) for _, group in itertools.groupby(order, lambda i: is_long[i])]
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        with show_progress(len(rows), "translating", " sentences") as progress:
            for group in groups:
                for start in range(0, len(group), BATCH):
                    numbers = group[start : start + BATCH]
                    batch = [sources[i] for i in numbers]
                    results = self.generate(batch, is_long[numbers[0]], beam=beam, **options)
                    for i, hypotheses in zip(numbers, results, strict=True):
                        found[i] = hypotheses[0]["tokens"]
                    progress.update(len(numbers))
        return found

    def generate(
        self, sources: Sequence[Tensor], is_long: bool, **options: Any
    ) -> list[list[dict[str, Any]]]:
        """Return the hypotheses of sources of similar length, int64 [T] each, the longest last;
        long texts have windows of tokens."""
        longest = len(sources[-1])
        self.hub.cfg.dataset.max_tokens = max(SEARCH_TOKENS if is_long else MAX_TOKENS, longest)
        if not is_long:
            self.hub.task.report = None
            return self.hub.generate(sources, **options)
        model = self.hub.models[0]
        own = model.decoder.token_windows
        model.set_token_windows(self.long_text_policy.windows)
        try:
            with show_progress(None, "longer than in training", " tokens", leave=False) as steps:
                self.hub.task.report = steps.update
                return self.hub.generate(sources, **options)
        finally:
            model.set_token_windows(own)


def divide_lines(lines: Iterable[str], ends_at_empty: bool) -> Iterator[list[str]]:
    """Yield blocks of lines; with ``ends_at_empty`` a block ends at an empty line, so that the
    sentences of a document stay together."""
    block: list[str] = []
    for line in lines:
        block.append(line)
        if len(block) >= BLOCK and not (ends_at_empty and line.strip()):
            yield block
            block = []
    if block:
        yield block
