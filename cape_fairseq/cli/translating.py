"""The tool that translates raw text."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cape_fairseq.cli.tool import Found, Tool, not_negative, positive
from cape_fairseq.cli.troubles import Troubles
from cape_fairseq.errors import UsageError
from cape_fairseq.serving.results import ENGINES, WAYS

if TYPE_CHECKING:
    from cape_fairseq.serving.lines import Line
    from cape_fairseq.serving.results import Search, Translation
    from cape_fairseq.serving.translator import Translator


SPLIT = WAYS[1:]  # ways that translate sentences, and join them


def add_model(parser: ArgumentParser) -> None:
    """What finds a model and its text's preparation."""
    where = "folder with the dictionaries (beside the model, or where it was trained)"
    parser.add_argument("--data-bin", type=Path, metavar="DIR", help=where)
    parser.add_argument("--source-lang", metavar="LANG", help="(the model's)")
    parser.add_argument("--target-lang", metavar="LANG", help="(the model's)")
    codes = "subword-nmt codes (as text.json beside the model says)"
    parser.add_argument("--bpe-codes", type=Path, metavar="FILE", help=codes)
    tokenizer = "of the raw text (as text.json beside the model says, else moses)"
    parser.add_argument("--tokenizer", choices=("moses", "none"), help=tokenizer)


def add_translate(parser: ArgumentParser) -> None:
    models = "a checkpoint, several with : between, or a folder that export wrote"
    parser.add_argument("model", metavar="MODEL[:MODEL...]", help=models)
    parser.add_argument(
        "files", nargs="*", type=Path, default=[], metavar="FILE", help="(standard input)"
    )
    add_model(parser)
    parser.add_argument("--engine", choices=ENGINES, help="(as the model is stored)")
    parser.add_argument("--beam", type=positive, default=4, help="width of the beam (4)")
    nbest = "print as many translations of each line, as LINE NUMBER, SCORE, TEXT with tabs (1)"
    parser.add_argument("--nbest", type=positive, default=1, metavar="N", help=nbest)
    parser.add_argument("--lenpen", type=float, default=1.0, help="exponent of the length (1)")
    longest = "a translation has at most A x source tokens + B tokens (2)"
    parser.add_argument("--max-len-a", type=not_negative, default=2.0, metavar="A", help=longest)
    parser.add_argument("--max-len-b", type=positive, default=200, metavar="B", help="(200)")
    parser.add_argument("--scores", action="store_true", help="print SCORE and a tab before each")
    lines = "print an object for each line: text, score, tokens and their log-probabilities, ..."
    parser.add_argument("--json-lines", action="store_true", help=lines)
    way = "translate documents: paragraphs whole, by sentences, or sentences in their context"
    parser.add_argument("--document", choices=WAYS, help=way)
    context = "source tokens of earlier sentences in a window (100)"
    parser.add_argument("--context", type=positive, default=100, metavar="N", help=context)
    piece = "longer lines are translated in pieces of at most so many tokens (1024)"
    parser.add_argument("--longest", type=positive, default=1024, metavar="N", help=piece)
    parser.add_argument("--max-tokens", type=positive, default=4096, help="of a batch (4096)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parser.add_argument("--no-progress-bar", action="store_true", help="show none")


def loaded(args: Namespace) -> Translator:
    """The model that the options describe.

    Raises:
        UserError: it cannot be loaded.
        UsageError: one language is given without the other.
    """
    from cape_fairseq.serving.loading import load

    pair = (args.source_lang, args.target_lang)
    if any(pair) and not all(pair):
        raise UsageError("--source-lang and --target-lang belong together; give both")
    return load(
        args.model.split(":"),
        data=args.data_bin,
        codes=args.bpe_codes,
        languages=pair if all(pair) else None,
        moses=None if args.tokenizer is None else args.tokenizer == "moses",
        engine=args.engine,
        longest=args.longest,
        batch=args.max_tokens,
        cpu=args.cpu,
        parallel=bool(args.files) or os.path.isfile(0),  # a pipe may bring a line at a time
    )


def wanted(args: Namespace) -> Search:
    """
    Raises:
        UsageError: options make no sense together.
    """
    from cape_fairseq.serving.results import Search

    if args.nbest > args.beam:
        raise UsageError(f"--nbest {args.nbest} needs a --beam of at least {args.nbest}")
    if args.nbest > 1 and args.document in SPLIT:
        raise UsageError(
            f"--document {args.document} joins the best translation of each sentence; leave out "
            "--nbest, or take --document whole"
        )
    # In a window the score of a sentence is taken from its tokens.
    details = args.json_lines or (args.scores and args.document == "windows")
    return Search(args.beam, args.nbest, args.lenpen, args.max_len_a, args.max_len_b, details)


def translate(args: Namespace) -> Found:
    search = wanted(args)
    if sys.stdout is None:
        raise UsageError("standard output is closed; translations go there")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    translator = loaded(args)
    longest = None if args.document in SPLIT else translator.longest
    troubles = Troubles(longest, translator.engine.words)
    try:
        with ExitStack() as stack:
            files = opened(args.files, stack)
            found = documents if args.document else by_lines
            for lines, translations in found(translator, files, search, args):
                troubles.add(lines, translations)
                for line, translation in zip(lines, translations, strict=True):
                    print_line(line, translation, args)
                sys.stdout.flush()
    except BrokenPipeError:  # who reads has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Found([])
    troubles.close()
    return Found([])


def opened(files: Sequence[Path], stack: ExitStack) -> list[int]:
    """Descriptors of the input files.

    Raises:
        UsageError: there are none, and standard input is closed.
    """
    if not files and sys.stdin is None:
        raise UsageError("standard input is closed; give a FILE")
    if not files:
        return [sys.stdin.fileno()]
    return [stack.enter_context(open(file, "rb")).fileno() for file in files]


def progress(args: Namespace, unit: str):
    from tqdm import tqdm

    return tqdm(
        desc="translating",
        unit=f" {unit}",
        mininterval=2,
        disable=args.no_progress_bar or None,  # None: only where there is a terminal
    )


def by_lines(
    translator: Translator, files: Sequence[int], search: Search, args: Namespace
) -> Iterator[tuple[Sequence[Line], Sequence[Translation]]]:
    """Lines as they come."""
    from cape_fairseq.serving.lines import blocks, numbered

    with progress(args, "lines") as bar:
        found = chain.from_iterable(blocks(file, more=file != files[-1]) for file in files)
        for lines in numbered(found):
            sources = [translator.text.source(line.text) for line in lines]
            yield lines, translator.search(sources, search)
            bar.update(len(lines))


def documents(
    translator: Translator, files: Sequence[int], search: Search, args: Namespace
) -> Iterator[tuple[Sequence[Line], Sequence[Translation]]]:
    """One file after another, a paragraph a line; what each may have lost goes to standard
    error."""
    from cape_fairseq.serving.documents import loss, way
    from cape_fairseq.serving.lines import blocks, numbered

    before = 0  # lines
    for number, file in enumerate(files):
        read = numbered(blocks(file, more=file != files[-1]), before)
        run = way(args.document, translator, args.context)
        texts: list[str] = []
        found: list[Translation] = []
        with progress(args, "paragraphs") as bar:
            for lines in read:
                # All that have come are one batch; windows go from sentence to sentence anyway.
                parts = [[line] for line in lines] if args.document == "windows" else [lines]
                for part in parts:
                    new = [line.text for line in part]
                    done = run(new, search)
                    texts += new
                    found += done
                    yield part, done
                    bar.update(len(part))
        name = args.files[number] if args.files else "the document"
        before += len(texts)
        lost = loss(translator, texts, found)
        print(f"{name}: {lost}", file=sys.stderr)


def print_line(line: Line, found: Translation, args: Namespace) -> None:
    """The translation of a line, with the line's own end."""
    if args.json_lines:
        print(json.dumps({"line": line.number, **asdict(found)}, ensure_ascii=False))
    elif args.nbest > 1:
        for one in (found, *found.others):
            print(f"{line.number}\t{one.score:.4f}\t{one.text}")
    else:
        score = f"{found.score:.4f}\t" if args.scores else ""
        print(f"{score}{found.text}", end=line.end)


TRANSLATING = """\
A line of input makes a line of output, in order; empty lines stay empty. Text is tokenized and
segmented as text.json beside the model says (recipes and export write it); options say it for other
models. In a pipe, each line is answered as soon as it comes."""

TOOLS = (
    Tool(
        "translate",
        "translate raw text with a checkpoint, several, or an exported model",
        add_translate,
        translate,
        TRANSLATING,
        tables=False,
    ),
)
