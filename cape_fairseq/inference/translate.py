"""``cape-fairseq translate``: raw text in, raw text out."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencex
import torch
from fairseq import hub_utils
from tqdm import tqdm

from cape_fairseq.inference.checkpoints import find_data, get_options, read_checkpoint
from cape_fairseq.tools import UserError, build_parser

logger = logging.getLogger(__name__)

EXAMPLES = """
  cape-fairseq translate runs/mine/cape_transformer_tiny/checkpoint_best.pt < text.en > text.de
  cape-fairseq translate checkpoint_best.pt --data data-bin --bpe-codes bpe.codes < text.en
"""
DESCRIPTION = (
    "Translate raw text: a paragraph per line. Paragraphs are split into sentences, translated "
    "sentence by sentence and joined again. Dictionaries and BPE codes are found beside the "
    "checkpoint (dict.*.txt, bpecodes)."
)
ENDS = (".", "!", "?", "。", "！", "？")


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
        self.model = hub_utils.GeneratorHubInterface(
            loaded["args"], loaded["task"], loaded["models"]
        )
        if not segmentation and any("@@" in w for w in self.model.task.source_dictionary.symbols):
            raise UserError(f"{path} was trained on subwords; give --bpe-codes or make {codes}")
        if torch.cuda.is_available():
            self.model.cuda()
        self.model.eval()

    def translate_sentences(
        self, sentences: Sequence[str], beam: int = 5, **options: Any
    ) -> list[str]:
        """Translate sentences, in batches of similar length."""
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        translations = [""] * len(sentences)
        chunks = [order[start : start + 64] for start in range(0, len(order), 64)]
        for chunk in tqdm(chunks, desc="translating", unit=" batches", delay=5):
            found = self.model.translate([sentences[i] for i in chunk], beam=beam, **options)
            for i, translation in zip(chunk, found, strict=True):
                translations[i] = translation
        return translations

    def translate(self, paragraphs: Sequence[str], beam: int = 5, **options: Any) -> list[str]:
        """Translate paragraphs sentence by sentence; empty ones stay empty."""
        split = [split_sentences(paragraph, self.source_lang) for paragraph in paragraphs]
        flat = [sentence for sentences in split for sentence in sentences]
        done = iter(self.translate_sentences(flat, beam, **options))
        translations = [" ".join(next(done) for _ in sentences) for sentences in split]
        for number, pair in enumerate(zip(paragraphs, translations, strict=True), 1):
            source, target = map(count_ends, pair)
            if target < source:
                logger.warning(
                    "line %d: %d sentences in the translation, %d in the source",
                    number, target, source,
                )  # fmt: skip
        return translations


def split_sentences(paragraph: str, language: str) -> list[str]:
    """Split a paragraph into its sentences."""
    sentences = sentencex.segment(language, paragraph)
    return [sentence.strip() for sentence in sentences if sentence.strip()]


def count_ends(text: str) -> int:
    """Count words that end a sentence."""
    return sum(word.rstrip("\"'”“’»)").endswith(ENDS) for word in text.split())


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
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    translator = Translator(args.checkpoint, args.data, args.bpe_codes, args.tokenizer)
    paragraphs = [line.rstrip("\r\n") for line in sys.stdin]
    for line in translator.translate(paragraphs, args.beam, lenpen=args.lenpen):
        print(line)
