"""``cape-fairseq translate``: raw text in, raw text out."""

import argparse
import itertools
import logging
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from cape_fairseq.command_line import UserError, build_parser, decode_lines, parse_count
from cape_fairseq.data.languages import find_joiner
from cape_fairseq.data.separator import Separator
from cape_fairseq.inference.checkpoints import (
    check_architecture,
    find_data,
    get_options,
    read_checkpoint,
)
from cape_fairseq.inference.hub import MAX_TOKENS, load_hub
from cape_fairseq.inference.segmentation import (
    SentencePiece,
    add_segmentation_options,
    build_target_tokenizer,
    check_unsegmented,
    choose_cleaning,
    find_segmentation,
    index_prefix,
    index_words,
    read_prefixes,
)
from cape_fairseq.inference.sentences import choose_rules, halve, split_sentences
from cape_fairseq.tasks.stacked_translation import is_document_model

logger = logging.getLogger(__name__)

EXAMPLES = """
  cape-fairseq translate runs/mine/cape_transformer_tiny/checkpoint_best.pt < text.en > text.de
  cape-fairseq translate checkpoint_best.pt --data data-bin --bpe-codes bpe.codes < text.en
"""
DESCRIPTION = (
    "Translate raw text: a paragraph per line; empty lines separate documents. Paragraphs are split"
    " into sentences, translated and joined again. A model with --sentence-context sees the"
    " sentences before; others translate sentence by sentence. Dictionaries (dict.*.txt) and BPE"
    " codes (bpecodes) or models of SentencePiece (source.spm and target.spm, or"
    " sentencepiece.model) are found beside the checkpoint or the dictionaries. Unknown words"
    " become <unk>, with a warning."
)
MAX_SUBWORDS = 400  # longer sentences are cut, and those beyond the model's limit
CHECKED_TOKENS = 20  # from here on most tokens must be known


class Translator:
    """Translate raw text with a checkpoint, by fairseq's hub interface.

    Dictionaries are found in ``data``, beside the checkpoint or in the data of the training, codes
    of subword-nmt in ``bpe_codes`` or in ``bpecodes`` beside one of these, one or two models of
    SentencePiece in ``sentencepiece`` or in ``source.spm`` and ``target.spm`` or
    ``sentencepiece.model`` there. ``tokenizer`` is moses by default, and none with SentencePiece.
    ``language`` has the rules by which paragraphs are split (default: the source language).
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
    ) -> None:
        path = Path(checkpoint)
        options, task = get_options(read_checkpoint(path))
        check_architecture(path, options)
        folder, source_lang, target_lang = find_data(path, data, task)
        self.language = choose_rules(language or source_lang)
        self.joiner = find_joiner(target_lang)
        self.clean = choose_cleaning(tokenizer)
        folders = (path.parent, folder)
        segmentation = find_segmentation(folders, bpe_codes, sentencepiece)
        if tokenizer is None and not segmentation.uses_sentencepiece:
            tokenizer = "moses"
        languages = {"source_lang": source_lang, "target_lang": target_lang}
        try:
            self.model = load_hub(path, folder, languages, tokenizer, segmentation)
        except ImportError as error:
            raise UserError(f"--tokenizer {tokenizer}: {error}") from None
        except (ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{path} and the dictionaries in {folder}: {reason}") from None
        self.uses_sentencepiece, self.target_bpe = segmentation.uses_sentencepiece, self.model.bpe
        if self.uses_sentencepiece:
            self.target_bpe = SentencePiece(segmentation.target_model)
        self.set_prefixes(*read_prefixes(folders))
        self.target_tokenizer = build_target_tokenizer(self.model.cfg.tokenizer, target_lang)
        self.max_subwords = min(MAX_SUBWORDS, self.model.models[0].encoder.max_positions())
        self.has_context = is_document_model(self.model.models[0])
        if not segmentation.options:
            check_unsegmented(path, self.model.src_dict)
        if torch.cuda.is_available() and not cpu:
            self.model.cuda()
        self.model.eval()

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
        unknown_source = self.count_unknown([text[1] for text in texts if text])
        order = sorted((i for i, text in enumerate(texts) if text), key=lambda i: len(texts[i][1]))
        chunks = [order[start : start + 64] for start in range(0, len(order), 64)]
        unknown = 0
        count = sum(len(text[0]) for text in texts if text)
        with tqdm(total=count, desc="translating", unit=" sentences", delay=5) as progress:
            self.model.task.report = progress.update
            for chunk in chunks:
                tokens = [texts[i][1] for i in chunk]
                self.model.cfg.dataset.max_tokens = max(MAX_TOKENS, len(tokens[-1]))
                found = self.model.generate(tokens, beam=beam, **options)
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

    def encode(self, sentences: Sequence[str]) -> tuple[list[int], torch.Tensor] | None:
        """Return the numbers of the sentences that are not empty, and their tokens, joined by the
        separator."""
        numbers = [i for i, sentence in enumerate(sentences) if sentence.strip()]
        parts = [self.encode_source(sentences[i]) for i in numbers]
        return (numbers, Separator(self.model.src_dict).join(parts)) if parts else None

    def encode_source(self, sentence: str) -> torch.Tensor:
        """Segment a source sentence: int64 [T], with EOS. A word <s> in it is unknown."""
        tokens = Separator(self.model.src_dict).hide(self.segment_source(sentence))
        return torch.cat([self.source_prefix, tokens])

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
            UserError: most tokens are unknown, so that the segmentation is not the model's.
        """
        total = sum(len(text) for text in texts)
        unknown = sum(int((text == self.model.src_dict.unk()).sum()) for text in texts)
        if total >= CHECKED_TOKENS and unknown > total / 2:
            raise UserError(
                f"{unknown} of {total} source tokens are not in the dictionary; check --bpe-codes "
                "or --sentencepiece, and --tokenizer, and that the input is in the source language"
            )
        return unknown

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
        sentences = split_sentences(text, self.language) if split else [text.strip()]
        parts = [part for sentence in sentences if sentence for part in self.cut(sentence)]
        if len(parts) > len(sentences):
            logger.warning(
                "a sentence of more than %d subwords was cut: %.40s...", self.max_subwords, text
            )
        return parts

    def cut(self, sentence: str) -> list[str]:
        """Cut a sentence into parts of at most ``max_subwords`` subwords."""
        if len(self.segment_source(sentence)) <= self.max_subwords:
            return [sentence]
        left, right = halve(sentence)
        return [*self.cut(left), *self.cut(right)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the tool."""
    add = parser.add_argument
    add("checkpoint", type=Path, help="checkpoint of a translation model")
    add_segmentation_options(parser)
    add(
        "--language",
        help="language whose rules split paragraphs into sentences, such as de (default: the "
        "source language)",
    )
    add("--beam", type=parse_count, default=5, help="beam size (default: 5)")
    add("--lenpen", type=float, default=1.0, help="length penalty (default: 1)")
    add("--no-split", action="store_true", help="each line is a sentence, and stays one")
    add("--no-context", action="store_true", help="translate sentence by sentence")
    add("--cpu", action="store_true", help="use the CPU where there is a GPU")


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("translate", DESCRIPTION, EXAMPLES)
    add_options(parser)
    args = parser.parse_args(argv)
    lines = list(decode_lines(sys.stdin.buffer, "the input"))
    translator = Translator(
        args.checkpoint,
        data=args.data,
        bpe_codes=args.bpe_codes,
        tokenizer=args.tokenizer,
        language=args.language,
        cpu=args.cpu,
        sentencepiece=args.sentencepiece,
    )
    translations = translator.translate(
        lines,
        context=not args.no_context,
        split=not args.no_split,
        beam=args.beam,
        lenpen=args.lenpen,
    )
    for translation in translations:
        print(translation)
