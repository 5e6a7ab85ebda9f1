"""``cape-fairseq TOOL ...``: the only argument parsing, and the only place that catches errors.

Nothing here imports torch or fairseq before a tool runs, so that help comes at once.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from cape_fairseq import __version__
from cape_fairseq.cli import (
    checkpoints,
    encodings,
    evaluation,
    experiments,
    exporting,
    recipes,
    runs,
    speed,
    text,
    translating,
)
from cape_fairseq.cli.tool import Tool, show
from cape_fairseq.errors import UsageError, UserError

GROUPS: dict[str, Sequence[Tool]] = {
    "encodings and paths": encodings.TOOLS,
    "text and corpora": text.TOOLS,
    "checkpoints": checkpoints.TOOLS,
    "how models behave on text longer than they were trained on": evaluation.TOOLS,
    "models in use": (*translating.TOOLS, *exporting.TOOLS),
    "trainings and their scores": runs.TOOLS,
    "experiments, from text to tables": (*recipes.TOOLS, *experiments.TOOLS),
    "speed": speed.TOOLS,
}
PASS_ON = {tool.name for tools in GROUPS.values() for tool in tools if tool.passes_on}


MORE = "cape-fairseq TOOL --help tells more; parentheses at an option's end hold its default."


def build_parser() -> argparse.ArgumentParser:
    width = max(len(tool.name) for tools in GROUPS.values() for tool in tools)
    listing = [
        "\n".join([f"{title}:", *(f"  {tool.name:{width}}  {tool.help}" for tool in tools)])
        for title, tools in GROUPS.items()
    ]
    parser = argparse.ArgumentParser(
        prog="cape-fairseq",
        usage="cape-fairseq [-h] [--version] TOOL ...",
        description="Tools around position encodings for machine translation with fairseq.",
        epilog="\n\n".join([*listing, MORE]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cape_fairseq {__version__}")
    tools = parser.add_subparsers(
        metavar="TOOL", dest="tool", required=True, help="see below", prog="cape-fairseq"
    )
    for tool in (tool for group in GROUPS.values() for tool in group):
        own = tools.add_parser(
            tool.name,
            description=tool.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        tool.add(own)
        if tool.passes_on:
            own.usage = f"{own.format_usage().removeprefix('usage: ').rstrip()} [-- OPTIONS]"
        if tool.tables:
            own.add_argument(
                "--json", type=Path, metavar="FILE", help="write what is found as JSON"
            )
        own.set_defaults(run=tool.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a tool -> exit status: 0, 1 for wrong data, 2 for wrong use.

    Raises:
        SystemExit: by argparse, with status 2 for wrong use and 0 after help.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    passed_on: list[str] = []
    if words and words[0] in PASS_ON and "--" in words:
        passed_on = words[words.index("--") + 1 :]
        words = words[: words.index("--")]
    args = build_parser().parse_args(words)
    args.passed_on = passed_on
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # fairseq logs at every import, and makes others do so
    try:
        show(args, args.run(args))
    except UserError as error:
        print(f"cape-fairseq {args.tool}: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except OSError as error:
        print(f"cape-fairseq {args.tool}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        logging.disable(before)
    return 0
