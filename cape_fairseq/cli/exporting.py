"""Tools that take a model out of training."""

from __future__ import annotations

import importlib.util
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from cape_fairseq.cli.tool import Found, Tool, positive
from cape_fairseq.errors import UsageError, UserError
from cape_fairseq.serving.results import ENGINES

if TYPE_CHECKING:
    from cape_fairseq.serving.agreement import Difference

QUANTIZATIONS = (
    *("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16"),
    *("float16", "bfloat16", "float32"),
)


def add_settings(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="where the checkpoints are, or will be")
    parser.add_argument("--data-bin", type=Path, required=True, help="has the dictionaries")
    parser.add_argument("--source-lang", required=True, metavar="LANG")
    parser.add_argument("--target-lang", required=True, metavar="LANG")
    parser.add_argument("--bpe-codes", type=Path, metavar="FILE", help="of subword-nmt (none)")
    parser.add_argument("--tokenizer", choices=("moses", "none"), default="moses", help="(moses)")
    parser.add_argument("--no-normalize", action="store_true", help="leave punctuation as it is")
    dashes = "do not split words at hyphens"
    parser.add_argument("--no-aggressive-dashes", action="store_true", help=dashes)
    books = "make accents, hyphens and marks plain first, as tokenize does"
    parser.add_argument("--books", action="store_true", help=books)
    separator = "what stands between the sentences of an example (nothing)"
    parser.add_argument("--separator", default="", metavar="TOKEN", help=separator)


def text_settings(args: Namespace) -> Found:
    from cape_fairseq.data.segmentation import read_codes
    from cape_fairseq.evaluation.rows import Rows
    from cape_fairseq.files import copy
    from cape_fairseq.serving.text import SETTINGS, TextSettings

    if args.bpe_codes:
        read_codes(args.bpe_codes)  # before anything is written
    settings = TextSettings(
        args.source_lang,
        args.target_lang,
        moses=args.tokenizer == "moses",
        normalize=not args.no_normalize,
        aggressive=not args.no_aggressive_dashes,
        separator=args.separator,
        books=args.books,
    )
    for language in {args.source_lang, args.target_lang}:
        name = f"dict.{language}.txt"
        copy(args.data_bin / name, args.folder / name)
    settings.write(args.folder, args.bpe_codes)
    return Found([Rows(["written"], [[str(args.folder / SETTINGS)]])])


def add_export(parser: ArgumentParser) -> None:
    parser.add_argument("system", choices=ENGINES)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path, metavar="FOLDER", help="it must not be there yet")
    table = (
        "tokens of the longest translation, its end mark included, and of twice the source that "
    )
    table += "is translated in one piece (2048)"
    parser.add_argument("--max-positions", type=positive, default=2048, metavar="N", help=table)
    where = "folder with the dictionaries (beside the checkpoint, or where it was trained)"
    parser.add_argument("--data-bin", type=Path, metavar="DIR", help=where)
    parser.add_argument("--half", action="store_true", help="fairseq: in half precision")
    quantization = "ctranslate2: type of the weights"
    parser.add_argument("--quantization", choices=QUANTIZATIONS, help=quantization)
    tolerance = "the most that a token's log-probability may differ (float32: 1e-4, --half: 0.1)"
    parser.add_argument("--tolerance", type=float, metavar="X", help=tolerance)


def export(args: Namespace) -> Found:
    from cape_fairseq.evaluation.rows import Rows

    if args.max_positions < 2:
        raise UsageError("--max-positions must be at least 2, a token and the end mark")
    if args.system == "fairseq":
        if args.quantization:
            raise UsageError("--quantization is for ctranslate2; fairseq has --half")
        from cape_fairseq.serving import stock

        where = (args.checkpoint, args.output, args.max_positions, args.data_bin)
        found = stock.export(*where, args.half, args.tolerance)
        kinds = {"float16" if args.half else "float32": found}
    else:
        if args.half:
            raise UsageError("--half is for fairseq; ctranslate2 has --quantization float16")
        kinds = convert(args)
    lines = [
        [kind, f"{one.tokens:,}", f"{one.largest:.1e}", f"{one.mean:.1e}"]
        for kind, one in kinds.items()
    ]
    head = ["weights", "tokens compared", "largest difference", "mean"]
    notes = [f"{args.output}: cape-fairseq translate {args.output} < TEXT"]
    return Found(
        [Rows(head, lines, notes)], {"differences": {k: vars(v) for k, v in kinds.items()}}
    )


def convert(args: Namespace) -> dict[str, Difference]:
    """
    Raises:
        UserError: CTranslate2 is not installed, or the model cannot be exported.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise UserError(
            "CTranslate2 is not installed; install it: pip install 'cape_fairseq[ctranslate2]'"
        )
    from cape_fairseq.serving import converted

    return converted.export(
        args.checkpoint,
        args.output,
        args.max_positions,
        args.quantization,
        args.data_bin,
        args.tolerance,
    )


EXPORTING = """\
fairseq: fairseq's own transformer with tables of positions, which needs no plugin.
ctranslate2: a folder for CTranslate2, which needs neither fairseq nor torch.
The folder has all that translate needs: the model, the vocabulary, the BPE codes and text.json.
Both models score random sentences up to --max-positions; one that differs is not written.
The table shows by how much the natural log-probability of a token differs."""

SETTINGS_OF = """\
translate and export find them beside the checkpoint: text.json, the codes and the dictionaries. The
recipes call this; it is for models that were trained otherwise."""

TOOLS = (
    Tool(
        "export",
        "export a checkpoint to plain fairseq or to CTranslate2",
        add_export,
        export,
        EXPORTING,
    ),
    Tool(
        "text-settings",
        "put beside checkpoints how their text was tokenized and segmented",
        add_settings,
        text_settings,
        SETTINGS_OF,
    ),
)
