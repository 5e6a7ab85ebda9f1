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
TOOLS = {tool.name: tool for tools in GROUPS.values() for tool in tools}


MORE = "cape-fairseq TOOL --help tells more; parentheses at an option's end hold its default."


def build_parser() -> argparse.ArgumentParser:
    """Of the words before a tool's own."""
    width = max(map(len, TOOLS))
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
    parser.add_argument("tool", metavar="TOOL", choices=tuple(TOOLS), help="see below")
    return parser


def tool_parser(tool: Tool) -> argparse.ArgumentParser:
    own = argparse.ArgumentParser(
        prog=f"cape-fairseq {tool.name}",
        description=tool.description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tool.add(own)
    if tool.passes_on:
        own.usage = f"{own.format_usage().removeprefix('usage: ').rstrip()} [-- OPTIONS]"
    if tool.tables:
        own.add_argument("--json", type=Path, metavar="FILE", help="write what is found as JSON")
    own.set_defaults(run=tool.run, tool=tool.name)
    return own


def parse(words: list[str]) -> argparse.Namespace:
    """A tool's options; files may stand before, between and behind them.

    Raises:
        SystemExit: by argparse, with status 2 for wrong use and 0 after help.
    """
    if not words or words[0] not in TOOLS:
        return build_parser().parse_args(words)
    tool, own = TOOLS[words[0]], words[1:]
    passed_on: list[str] = []
    if tool.passes_on and "--" in own:
        passed_on = own[own.index("--") + 1 :]
        own = own[: own.index("--")]
    parser = tool_parser(tool)
    args = parser.parse_args(own) if tool.ways else parser.parse_intermixed_args(own)
    args.passed_on = passed_on
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run a tool -> exit status: 0, 1 for wrong data, 2 for wrong use.

    Raises:
        SystemExit: by argparse, with status 2 for wrong use and 0 after help.
    """
    args = parse(list(sys.argv[1:] if argv is None else argv))
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
