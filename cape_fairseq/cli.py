"""``cape-fairseq TOOL``: a table of the tools, and two that tell about the package."""

import argparse
import difflib
import logging
import signal
import sys
import warnings
from dataclasses import Field
from importlib import import_module
from pathlib import Path

from cape_fairseq import __version__
from cape_fairseq.command_line import add_user_dir, build_parser
from cape_fairseq.errors import UserError

GROUPS = {
    "encodings": {
        "encodings": ("", "list the position encodings with their options and papers"),
        "path": ("", "print the folder for --user-dir"),
    },
    "data": {
        "synthetic-corpus": ("data.synthetic", "write a small English-German corpus"),
        "derive": ("data.derive", "filter, concatenate, swap or divide parallel text"),
    },
    "evaluation": {
        "position-loss": ("evaluation.position_loss", "loss by target position"),
        "bleu-by-length": ("evaluation.bleu_by_length", "BLEU by source length, with intervals"),
        "shift-invariance": ("evaluation.shift_invariance", "hidden states under shifts"),
        "token-wins": ("evaluation.token_wins", "tokens that one model predicts better"),
        "plot-positions": ("evaluation.plot_positions", "plots of position vectors"),
        "contrastive": ("evaluation.contrastive", "right translations against wrong ones"),
        "context-gain": ("evaluation.context_gain", "what earlier sentences are worth"),
        "compare": ("evaluation.compare", "one table of several systems' scores"),
    },
    "models": {
        "average": ("inference.average", "average checkpoints"),
        "translate": ("inference.translate", "translate raw text"),
        "import": ("importing.import_model", "import OPUS-MT, M2M-100 or NLLB from Hugging Face"),
        "export": ("exporting.export", "export to CTranslate2"),
    },
}
ENCODINGS_EXAMPLES = """
  cape-fairseq encodings
  cape-fairseq encodings cape floater
"""
PATH_EXAMPLES = """
  fairseq-train data-bin --user-dir $(cape-fairseq path) --arch cape_transformer_tiny
  ls $(cape-fairseq path)
"""
TOOLS = {name: tool for group in GROUPS.values() for name, tool in group.items()}


def format_help() -> str:
    """Return the list of tools."""
    lines = ["usage: cape-fairseq TOOL [OPTIONS]", "", f"cape_fairseq {__version__}"]
    for group, tools in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:18}{summary}" for name, (_, summary) in tools.items()]
    return "\n".join([*lines, "", "cape-fairseq TOOL --help shows options and examples."])


def describe_encoding(name: str) -> str:
    """Describe an encoding with its options."""
    from cape_fairseq.models.architectures import SIZES
    from cape_fairseq.options import list_fields
    from cape_fairseq.positions import ENCODINGS

    if name not in ENCODINGS:
        raise UserError(f"there is no encoding {name}; there are {', '.join(ENCODINGS)}")
    cls = ENCODINGS[name]
    lines = [
        f"{name}: {cls.description}",
        f"  paper: {cls.paper or '-'}",
        f"  architecture: {name}_transformer{{{','.join(SIZES)}}}",
        f"  --source-scale {cls.default_source_scale} --source-bos {cls.default_source_bos}",
    ]
    return "\n".join([*lines, *map(describe_option, list_fields(cls.config_class))])


def describe_option(item: Field) -> str:
    """Describe an option: flag, values, default and help."""
    from cape_fairseq.options import format_flag, list_choices

    choices, text = list_choices(item), item.metadata["help"]
    values = f" {{{','.join(choices)}}}" if choices else ""
    default = "" if item.default is None else f" (default: {item.default})"
    return f"  {format_flag(item.name)}{values}{default}\n      {text}"


def describe_shared_options() -> str:
    """Describe the options of all encodings and of stacks, which fairseq's --help leaves out."""
    from cape_fairseq.models.config import ModelOptions, PositionOptions, WindowOptions
    from cape_fairseq.options import list_fields
    from cape_fairseq.positions.randpos import RandposConfig
    from cape_fairseq.tasks.stacked_translation import StackedTranslationConfig

    shared = list_fields(PositionOptions, RandposConfig, WindowOptions, ModelOptions)
    task = list_fields(StackedTranslationConfig)
    own = [i for i in task if i.name.startswith(("stack_", "source_context"))]
    rows = [item for item in own if item.name != "stack_bpe"]
    lines = ["options of all encodings:", *map(describe_option, shared)]
    return "\n".join([*lines, "", "--task stacked_translation:", *map(describe_option, rows)])


def list_encodings(argv: list[str]) -> None:
    """Run ``cape-fairseq encodings``."""
    description = (
        "List position encodings, options and papers. Without a NAME also the options of all"
        " encodings and of stacks, which fairseq-train --help does not show."
    )
    parser = build_parser("encodings", description, ENCODINGS_EXAMPLES)
    parser.add_argument("names", nargs="*", metavar="NAME", help="encodings (default: all)")
    add_user_dir(parser)
    names = parser.parse_args(argv).names
    if names:
        parts = [describe_encoding(name) for name in names]
    else:
        from cape_fairseq.positions import ENCODINGS

        parts = [*map(describe_encoding, sorted(ENCODINGS)), describe_shared_options()]
    print("\n\n".join(parts))


def print_path(argv: list[str]) -> None:
    """Run ``cape-fairseq path``."""
    build_parser("path", "Print the folder for --user-dir.", PATH_EXAMPLES).parse_args(argv)
    print(Path(__file__).resolve().parent)


def register_user_dir(argv: list[str]) -> None:
    """Import the folder of ``--user-dir``, whose encodings come before this package's models."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--user-dir")
    args, _ = parser.parse_known_args(argv)
    if args.user_dir is not None:
        from fairseq.utils import import_user_module

        import_user_module(args)


def run_tool(name: str, argv: list[str]) -> None:
    """Run a tool of the table."""
    # Libraries warn of what they will change; a user of a tool can do nothing about it.
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # before fairseq sets INFO
    register_user_dir(argv)
    if name == "encodings":
        list_encodings(argv)
    elif name == "path":
        print_path(argv)
    else:
        import_module(f"cape_fairseq.{TOOLS[name][0]}").main(argv)


def main(argv: list[str] | None = None) -> int:
    """Run a tool; return its exit status."""
    sys.stdout.reconfigure(encoding="utf-8")  # text is UTF-8 whatever the locale
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help", "--version"):
        print(__version__ if name == "--version" else format_help())
        return 0
    if name not in TOOLS:
        similar = difflib.get_close_matches(name, TOOLS, 1)
        hint = f"did you mean {similar[0]}?" if similar else "see cape-fairseq --help"
        print(f"cape-fairseq: there is no tool {name}; {hint}", file=sys.stderr)
        return 2
    try:
        run_tool(name, arguments)
    except UserError as error:
        print(f"cape-fairseq {name}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # | head
        sys.stderr.close()
    except KeyboardInterrupt:
        print(f"cape-fairseq {name}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except OSError as error:  # files and folders
        print(f"cape-fairseq {name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
