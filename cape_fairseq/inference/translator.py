"""Translation of raw text by fairseq's hub interface."""

import itertools
import logging
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from cape_fairseq.command_line import UserError
from cape_fairseq.data.languages import find_joiner
from cape_fairseq.data.prefixes import index_prefix, read_prefixes
from cape_fairseq.data.separator import Separator
from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.inference.hub import MAX_TOKENS, SEARCH_TOKENS, build_hub
from cape_fairseq.inference.long_text import LongText, LongTextOptions
from cape_fairseq.inference.segmentation import (
    SentencePiece,
    build_tokenizer,
    check_unsegmented,
    choose_cleaning,
    find_segmentation,
    index_words,
)
from cape_fairseq.inference.sentences import choose_rules, halve, split_sentences
from cape_fairseq.models.positional_side import UNLIMITED
from cape_fairseq.tasks.stacked_translation import is_document_model

logger = logging.getLogger(__name__)

MAX_SUBWORDS = 400  # longer sentences are cut, and those beyond the model's limit
LANGUAGE_CODE = re.compile(r"\s*(>>\S+<<)\s*")  # as users of OPUS-MT type it
CHECKED_TOKENS = 20  # from here on most tokens must be known


class Translator:
    """Translate raw text with a checkpoint, by fairseq's hub interface.

    Dictionaries are found in ``data``, beside the checkpoint or in the data of the training, codes
    of subword-nmt in ``bpe_codes`` or in ``bpecodes`` beside one of these, one or two models of
    SentencePiece in ``sentencepiece`` or in ``source.spm`` and ``target.spm`` or
    ``sentencepiece.model`` there. ``tokenizer`` is moses_quotes by default, and none with
    SentencePiece.
    ``language`` has the rules by which paragraphs are split (default: the source language).
    Sentences of more than ``max_subwords`` are cut (default: 400; not those that a model translates
    in one pass). The other options are those of ``LongTextOptions``.
    """

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
        path, long_text = Path(checkpoint), LongTextOptions(**long_text)
        model, task = load_model(path, data)
        source_lang, target_lang = task.cfg.source_lang, task.cfg.target_lang
        self.language = choose_rules(language or source_lang)
        self.joiner = find_joiner(target_lang)
        self.clean = choose_cleaning(tokenizer)
        folders = (path.parent, Path(task.cfg.data))
        bpe, self.target_bpe = find_segmentation(folders, bpe_codes, sentencepiece)
        self.uses_sentencepiece = isinstance(bpe, SentencePiece)
        if tokenizer is None and not self.uses_sentencepiece:
            tokenizer = "moses_quotes"
        self.target_tokenizer = build_tokenizer(tokenizer, target_lang, target_lang)
        self.model = build_hub(
            model, task, build_tokenizer(tokenizer, source_lang, target_lang), bpe
        )
        self.set_prefixes(*read_prefixes(folders))
        self.has_context = is_document_model(model)
        self.long_text = LongText.of(model, long_text)
        is_in_one_pass = self.long_text is not None and self.long_text.training_length > 0
        limit = max_subwords or (UNLIMITED if is_in_one_pass else MAX_SUBWORDS)
        self.max_subwords = min(limit, model.encoder.max_positions())
        if bpe is None:
            check_unsegmented(path, self.model.src_dict)
        self.model.eval()
        if torch.cuda.is_available() and not cpu:
            self.model.cuda()

    def set_prefixes(self, source: list[str], target: list[str]) -> None:
        """Let words begin every source and, forced in the search, every target."""
        self.source_prefix = index_prefix(self.model.src_dict, source)
        self.target_prefix = index_prefix(self.model.tgt_dict, target)
        self.model.task.target_prefix = self.target_prefix

    def translate_sentences(self, sentences: Sequence[str], **options: Any) -> list[str]:
        """Translate sentences without context; empty ones stay empty."""
        documents = self.translate_documents([[sentence] for sentence in sentences], **options)
        return [translation for document in documents for translation in document]

    def translate_documents(
        self, documents: Sequence[Sequence[str]], beam: int = 5, **options: Any
    ) -> list[list[str]]:
        """Translate documents, lists of sentences, in batches of similar length; each gets as many
        translations. A model without context translates the sentences alone. Options are those of
        fairseq-generate, for instance ``lenpen``."""
        if not self.has_context and any(len(document) > 1 for document in documents):
            sentences = [sentence for document in documents for sentence in document]
            found = iter(self.translate_sentences(sentences, beam=beam, **options))
            return [[next(found) for _ in document] for document in documents]
        translations = [[""] * len(document) for document in documents]
        texts = [self.encode(document) for document in documents]
        unknown, unknown_source = 0, self.count_unknown([text[1] for text in texts if text])
        count = sum(len(text[0]) for text in texts if text)
        with tqdm(total=count, desc="translating", unit=" sentences", delay=5) as progress:
            self.model.task.report = progress.update
            for chunk in self.group_texts(texts):
                found = self.generate([texts[i][1] for i in chunk], beam=beam, **options)
                for i, hypotheses in zip(chunk, found, strict=True):
                    unknown += int((hypotheses[0]["tokens"] == self.model.tgt_dict.unk()).sum())
                    parts = self.decode(hypotheses[0])
                    for number, part in zip(texts[i][0], parts, strict=True):
                        translations[i][number] = part
                if not self.has_context:
                    progress.update(len(chunk))
        if unknown or unknown_source:
            logger.warning(
                "words not in the dictionary: %d subwords of the source and %d of the translation "
                "are <unk>",
                unknown_source,
                unknown,
            )
        return translations

    def group_texts(
        self, texts: Sequence[tuple[list[int], torch.Tensor] | None]
    ) -> list[list[int]]:
        """Group the numbers of texts of similar length; those that are long for the model are apart
        from the others."""
        numbers = [i for i, text in enumerate(texts) if text]
        numbers.sort(key=lambda i: len(texts[i][1]))
        short = [i for i in numbers if not self.is_long(texts[i][1])]
        long = numbers[len(short) :]
        return [part[i : i + 64] for part in (short, long) for i in range(0, len(part), 64)]

    def is_long(self, tokens: torch.Tensor) -> bool:
        """Return whether a text is translated with windows of tokens, int64 [T]."""
        return self.long_text is not None and self.long_text.has(len(tokens))

    def generate(self, texts: Sequence[torch.Tensor], **options: Any) -> list[list[dict[str, Any]]]:
        """Return the hypotheses of texts of similar length, int64 [T] each, the longest last."""
        longest = len(texts[-1])
        self.model.cfg.dataset.max_tokens = max(MAX_TOKENS, longest)
        if not self.is_long(texts[0]):
            if not self.has_context:
                self.model.task.report = None
            return self.model.generate(texts, **options)
        model = self.model.models[0]
        own = model.decoder.token_windows
        self.model.cfg.dataset.max_tokens = max(SEARCH_TOKENS, longest)
        model.set_token_windows(self.long_text.windows)
        try:
            with tqdm(
                desc="longer than in training", unit=" tokens", delay=5, leave=False
            ) as steps:
                self.model.task.report = steps.update
                return self.model.generate(texts, **options)
        finally:
            model.set_token_windows(own)

    def encode(self, sentences: Sequence[str]) -> tuple[list[int], torch.Tensor] | None:
        """Return the numbers of the sentences that are not empty, and their tokens, joined by the
        separator."""
        numbers = [i for i, sentence in enumerate(sentences) if sentence.strip()]
        parts = [self.encode_source(sentences[i]) for i in numbers]
        return (numbers, Separator(self.model.src_dict).join(parts)) if parts else None

    def encode_source(self, sentence: str) -> torch.Tensor:
        """Segment a source sentence: int64 [T], with EOS. A word <s> in it is unknown. A code such
        as ``>>fra<<`` replaces the model's."""
        code, sentence = self.split_code(sentence)
        prefix = index_prefix(self.model.src_dict, [code]) if code else self.source_prefix
        tokens = Separator(self.model.src_dict).hide(self.segment_source(sentence))
        return torch.cat([prefix, tokens])

    def split_code(self, text: str) -> tuple[str, str]:
        """Return the code of a language that begins a text and is a word of the model, or nothing,
        and the rest of the text."""
        match = LANGUAGE_CODE.match(text)
        if match is None or self.model.src_dict.index(match[1]) == self.model.src_dict.unk():
            return "", text
        return match[1], text[match.end() :]

    def segment_source(self, sentence: str) -> torch.Tensor:
        """Return the subwords of a source sentence, int64 [T], with EOS."""
        words = self.model.apply_bpe(self.model.tokenize(sentence))
        return index_words(words, self.model.src_dict, self.uses_sentencepiece)

    def encode_target(self, sentence: str) -> torch.Tensor:
        """Segment a target sentence: int64 [T], with EOS."""
        if self.target_tokenizer is not None:
            sentence = self.target_tokenizer.encode(sentence)
        words = sentence if self.target_bpe is None else self.target_bpe.encode(sentence)
        tokens = index_words(words, self.model.tgt_dict, self.uses_sentencepiece)
        return torch.cat([self.target_prefix, Separator(self.model.tgt_dict).hide(tokens)])

    def count_unknown(self, texts: Sequence[torch.Tensor]) -> int:
        """Return the number of unknown source tokens.

        Raises:
            UserError: they are most tokens of most texts, so that the segmentation is not the
                model's.
        """
        total = sum(len(text) for text in texts)
        unknown = [int((text == self.model.src_dict.unk()).sum()) for text in texts]
        odd = [i for i, text in enumerate(texts) if unknown[i] > len(text) / 2]
        if total >= CHECKED_TOKENS and len(odd) > len(texts) / 2:
            raise UserError(
                f"{sum(unknown)} of {total} source tokens are not in the dictionary; check "
                "the segmentation (--bpe-codes, --sentencepiece, --tokenizer) and the language"
            )
        for i in odd:
            if unknown[i] >= CHECKED_TOKENS:
                logger.warning(
                    "%s ...: %d of %d subwords are not in the dictionary",
                    self.model.src_dict.string(texts[i][:8]),
                    unknown[i],
                    len(texts[i]),
                )
        return sum(unknown)

    def decode(self, hypothesis: dict[str, Any]) -> list[str]:
        """Return the sentences of a hypothesis."""
        tokens = hypothesis["tokens"]
        if not self.has_context:
            return [self.decode_sentence(tokens)]
        return [self.decode_sentence(part) for part in Separator(self.model.tgt_dict).split(tokens)]

    def decode_sentence(self, tokens: torch.Tensor) -> str:
        """Return the text of int64 [T], without the code of a language."""
        prefix = self.target_prefix.to(tokens.device)
        if torch.equal(tokens[: len(prefix)], prefix):
            tokens = tokens[len(prefix) :]
        words = self.model.string(tokens)
        text = words if self.target_bpe is None else self.target_bpe.decode(words)
        return self.model.detokenize(text)

    def translate(
        self, lines: Sequence[str], context: bool = True, split: bool = True, **options: Any
    ) -> list[str]:
        """Translate paragraphs; empty ones stay empty and separate documents.

        Args:
            context: use the sentences before, if the model has ``--sentence-context``.
            split: split paragraphs into sentences; each line is a sentence otherwise.
            options: of :meth:`translate_documents`.
        """
        paragraphs = [self.split_paragraph(line, split) for line in lines]
        documents: list[list[str]] = [[]]
        for sentences in paragraphs:
            if not (context and self.has_context):
                documents += [[sentence] for sentence in sentences]
            elif sentences:
                documents[-1] += sentences
            else:
                documents.append([])
        translated = self.translate_documents(documents, **options)
        done = itertools.chain.from_iterable(translated)
        return [self.joiner.join(next(done) for _ in sentences) for sentences in paragraphs]

    def split_paragraph(self, line: str, split: bool) -> list[str]:
        """Return the sentences of a paragraph, cut where they are too long for the model."""
        text = "".join(c for c in self.clean(line) if unicodedata.category(c) != "Cc" or c == "\t")
        code, text = self.split_code(text)
        sentences = split_sentences(text, self.language) if split else [text.strip()]
        parts = [part for sentence in sentences if sentence for part in self.cut(sentence)]
        if len(parts) > len(sentences):
            is_known = self.long_text is None or self.long_text.training_length > 0
            advice = "" if is_known else "; --training-length L translates it in one pass"
            logger.warning(
                "a sentence of more than %d subwords was cut%s: %.40s...",
                self.max_subwords,
                advice,
                text,
            )
        return [f"{code} {part}" for part in parts] if code else parts

    def cut(self, sentence: str) -> list[str]:
        """Cut a sentence into parts of at most ``max_subwords`` subwords."""
        if len(sentence) < 2 or len(self.segment_source(sentence)) <= self.max_subwords:
            return [sentence]
        left, right = halve(sentence)
        return [*self.cut(left), *self.cut(right)]
