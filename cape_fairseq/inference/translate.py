"""``cape-fairseq translate``: raw text in, raw text out."""

import itertools
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencex
import torch
from fairseq import hub_utils
from tqdm import tqdm

from cape_fairseq.command_line import UserError, build_parser
from cape_fairseq.inference.checkpoints import find_data, get_options, read_checkpoint
from cape_fairseq.models.positional_side import UNLIMITED
from cape_fairseq.tasks.stacked_translation import (
    StackedTranslationConfig,
    StackedTranslationTask,
    is_document_model,
)

EXAMPLES = """
  cape-fairseq translate runs/mine/cape_transformer_tiny/checkpoint_best.pt < text.en > text.de
  cape-fairseq translate checkpoint_best.pt --data data-bin --bpe-codes bpe.codes < text.en
"""
DESCRIPTION = (
    "Translate raw text: a paragraph per line; empty lines separate documents. Paragraphs are split"
    " into sentences, and their translations have as many. A model with --sentence-context sees the"
    " sentences before; others translate sentence by sentence. Dictionaries and BPE codes are found"
    " beside the checkpoint (dict.*.txt, bpecodes)."
)
MAX_WORDS = 200  # longer sentences are cut
MAX_TOKENS = 50_000  # of a batch; decoding sees a sentence of each document at a time


class Translator:
    """Translate raw text with a checkpoint, by fairseq's hub interface.

    Dictionaries are found in ``data``, beside the checkpoint or in the data of the training, codes
    of subword-nmt in ``bpe_codes`` or in ``bpecodes`` beside the checkpoint.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        data: str | Path | None = None,
        bpe_codes: str | Path | None = None,
        tokenizer: str = "moses",
    ) -> None:
        path = Path(checkpoint)
        _, task = get_options(read_checkpoint(path))
        folder, self.source_lang, self.target_lang = find_data(path, data, task)
        codes = Path(bpe_codes) if bpe_codes else path.parent / "bpecodes"
        if bpe_codes and not codes.is_file():
            raise UserError(f"there are no BPE codes {codes}")
        segmentation = {"bpe": "subword_nmt", "bpe_codes": str(codes)} if codes.is_file() else {}
        loaded = hub_utils.from_pretrained(
            str(path.parent.resolve()),
            path.name,
            str(folder.resolve()),
            tokenizer=tokenizer,
            task="translation",
            source_lang=self.source_lang,
            target_lang=self.target_lang,
            **segmentation,
        )
        source, target = loaded["task"].source_dictionary, loaded["task"].target_dictionary
        config = StackedTranslationConfig(
            source_lang=self.source_lang,
            target_lang=self.target_lang,
            max_tokens=MAX_TOKENS,
            max_source_positions=UNLIMITED,
            max_target_positions=UNLIMITED,
        )
        task = StackedTranslationTask(config, source, target)
        self.model = hub_utils.GeneratorHubInterface(loaded["args"], task, loaded["models"])
        self.has_context = is_document_model(self.model.models[0])
        if not segmentation and any("@@" in w for w in self.model.task.source_dictionary.symbols):
            raise UserError(f"{path} was trained on subwords; give --bpe-codes or make {codes}")
        if torch.cuda.is_available():
            self.model.cuda()
        self.model.eval()

    def translate_sentences(self, sentences: Sequence[str], **options: Any) -> list[str]:
        """Translate sentences without context; empty ones stay empty."""
        documents = self.translate_documents([[sentence] for sentence in sentences], **options)
        return [translation for document in documents for translation in document]

    def translate_documents(
        self, documents: Sequence[Sequence[str]], beam: int = 5, **options: Any
    ) -> list[list[str]]:
        """Translate documents, lists of sentences, in batches of similar length; each gets as many
        translations. Options are those of fairseq-generate, for instance ``lenpen``."""
        translations = [[""] * len(document) for document in documents]
        texts = [self.encode(document) for document in documents]
        order = sorted((i for i, text in enumerate(texts) if text), key=lambda i: len(texts[i][1]))
        chunks = [order[start : start + 64] for start in range(0, len(order), 64)]
        for chunk in tqdm(chunks, desc="translating", unit=" batches", delay=5):
            tokens = [texts[i][1] for i in chunk]
            dataset = self.model.cfg.dataset
            dataset.max_tokens = max(MAX_TOKENS, len(tokens[-1]))
            found = self.model.generate(tokens, beam=beam, **options)
            for i, hypotheses in zip(chunk, found, strict=True):
                parts = self.decode(hypotheses[0])
                for number, part in zip(texts[i][0], parts, strict=True):
                    translations[i][number] = part
        return translations

    def encode(self, sentences: Sequence[str]) -> tuple[list[int], torch.Tensor] | None:
        """Return the numbers of the sentences that are not empty, and their tokens, joined by the
        separator."""
        numbers = [i for i, sentence in enumerate(sentences) if sentence.strip()]
        parts = [self.model.encode(sentences[i]) for i in numbers]
        for number, part in enumerate(parts, 1):
            part[part == self.model.src_dict.bos()] = self.model.src_dict.unk()
            part[-1] = self.model.src_dict.bos() if number < len(parts) else part[-1]
        return (numbers, torch.cat(parts)) if parts else None

    def decode(self, hypothesis: dict[str, Any]) -> list[str]:
        """Return the sentences of a hypothesis."""
        tokens = hypothesis["tokens"]
        if not self.has_context:
            return [self.model.decode(tokens)]
        ends = (tokens == self.model.tgt_dict.bos()).nonzero().flatten() + 1
        return [self.model.decode(part) for part in tokens.tensor_split(ends.cpu())]

    def translate(
        self, lines: Sequence[str], context: bool = True, split: bool = True, **options: Any
    ) -> list[str]:
        """Translate paragraphs; empty ones stay empty and separate documents.

        Args:
            context: use the sentences before, if the model has ``--sentence-context``.
            split: split paragraphs into sentences; each line is a sentence otherwise.
            options: of :meth:`translate_documents`.
        """
        documents: list[list[str]] = [[]]
        counts = []
        for line in lines:
            sentences = split_sentences(line, self.source_lang) if split else [line.strip()]
            sentences = [sentence for sentence in sentences if sentence]
            counts.append(len(sentences))
            if not (context and self.has_context):
                documents += [[sentence] for sentence in sentences]
            elif sentences:
                documents[-1] += sentences
            else:
                documents.append([])
        done = itertools.chain.from_iterable(self.translate_documents(documents, **options))
        return [" ".join(next(done) for _ in range(count)) for count in counts]


def split_sentences(paragraph: str, language: str) -> list[str]:
    """Split a paragraph into its sentences; one of more than MAX_WORDS words is cut."""
    parts = []
    for sentence in sentencex.segment(language, paragraph):
        words = sentence.split()
        parts += [words[i : i + MAX_WORDS] for i in range(0, len(words), MAX_WORDS)]
    return [" ".join(words) for words in parts]


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("translate", DESCRIPTION, EXAMPLES)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a translation model")
    parser.add_argument("--data", type=Path, help="folder with dict.*.txt")
    parser.add_argument("--bpe-codes", type=Path, metavar="FILE", help="codes of subword-nmt")
    parser.add_argument(
        "--tokenizer", default="moses", help="moses, space or nltk (default: moses)"
    )
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: 5)")
    parser.add_argument("--lenpen", type=float, default=1.0, help="length penalty (default: 1)")
    parser.add_argument(
        "--no-split", action="store_true", help="each line is a sentence, and stays one"
    )
    parser.add_argument("--no-context", action="store_true", help="translate sentence by sentence")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    translator = Translator(args.checkpoint, args.data, args.bpe_codes, args.tokenizer)
    lines = translator.translate(
        [line.rstrip("\r\n") for line in sys.stdin],
        context=not args.no_context,
        split=not args.no_split,
        beam=args.beam,
        lenpen=args.lenpen,
    )
    print("\n".join(lines))
