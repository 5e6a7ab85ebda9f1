"""``cape-fairseq translate``: raw text in, raw text out."""

import argparse
import sys

from cape_fairseq.command_line import build_parser, parse_count, parse_number
from cape_fairseq.files import decode_lines
from cape_fairseq.inference.long_text import LongTextOptions, add_long_text_options
from cape_fairseq.inference.segmentation import LOADING, add_segmentation_options
from cape_fairseq.inference.translator import Translator

EXAMPLES = """
  cape-fairseq translate runs/mine/cape_transformer_tiny/checkpoint_best.pt < text.en > text.de
  cape-fairseq translate checkpoint_best.pt --data data-bin --bpe-codes bpe.codes < text.en
"""
DESCRIPTION = (
    "Translate raw text: a paragraph per line; empty lines separate documents. Paragraphs are split"
    " into sentences, translated and joined again. A model that was trained with --source-context"
    " sees as many earlier sentences of the document. Dictionaries (dict.*.txt) and BPE"
    " codes (bpecodes) or models of SentencePiece (source.spm and target.spm, or"
    " sentencepiece.model) are found beside the checkpoint or the dictionaries. Unknown words"
    " become <unk>, with a warning."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the tool."""
    add = parser.add_argument
    add_segmentation_options(parser)
    add(
        "--language",
        help="language whose rules split paragraphs into sentences, such as de (default: the "
        "source language)",
    )
    add("--beam", type=parse_count, default=5, help="beam size (default: 5)")
    add("--lenpen", type=float, default=1.0, help="length penalty (default: 1)")
    add("--no-split", action="store_true", help="each line is a sentence, and stays one")
    add(
        "--max-subwords",
        type=parse_count,
        metavar="N",
        help="cut sentences of more subwords (default: 400; not in one pass)",
    )
    add(
        "--context",
        type=parse_number,
        metavar="N",
        help="earlier source sentences that the model sees (default: as in training)",
    )
    add("--no-context", dest="context", action="store_const", const=0, help="--context 0")
    add("--cpu", action="store_true", help="use the CPU where there is a GPU")
    add_long_text_options(parser)


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("translate", DESCRIPTION, EXAMPLES)
    add_options(parser)
    args = parser.parse_args(argv)
    names = (*LOADING, "language", "cpu", "max_subwords", *vars(LongTextOptions()))
    translator = Translator(**{name: getattr(args, name) for name in names})
    lines = decode_lines(sys.stdin.buffer, "the input")
    options = {"beam": args.beam, "lenpen": args.lenpen}
    for translation in translator.stream(lines, args.context, not args.no_split, **options):
        print(translation, flush=True)
    if translator.long_texts:
        given = translator.long_text_policy.describe()
        print(f"{translator.long_texts} texts in one pass: {given}", file=sys.stderr)
