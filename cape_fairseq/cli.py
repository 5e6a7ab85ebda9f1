"""``cape-fairseq TOOL``: a table of the tools."""

import difflib
import sys
from importlib import import_module

from cape_fairseq import __version__
from cape_fairseq.tools import UserError

GROUPS = {
    "encodings": {
        "encodings": ("encodings", "list the position encodings with their options and papers"),
        "path": ("path", "print the folder for --user-dir"),
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
        "compare": ("evaluation.compare", "one table of several systems' scores"),
    },
    "models": {
        "average": ("inference.average", "average checkpoints"),
        "translate": ("inference.translate", "translate raw text"),
        "export": ("inference.export", "export to plain fairseq and CTranslate2"),
    },
}
TOOLS = {name: tool for group in GROUPS.values() for name, tool in group.items()}


def format_help() -> str:
    """Return the list of tools."""
    lines = ["usage: cape-fairseq TOOL [OPTIONS]", "", f"cape_fairseq {__version__}"]
    for group, tools in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:18}{summary}" for name, (_, summary) in tools.items()]
    return "\n".join([*lines, "", "cape-fairseq TOOL --help shows options and examples."])


def main(argv: list[str] | None = None) -> int:
    """Run a tool; return its exit status."""
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
        import_module(f"cape_fairseq.{TOOLS[name][0]}").main(arguments)
    except UserError as error:
        print(f"cape-fairseq {name}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # | head
        sys.stderr.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
