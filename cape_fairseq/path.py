"""``cape-fairseq path``: the folder for ``--user-dir``."""

from pathlib import Path

from cape_fairseq.tools import build_parser

EXAMPLES = """
  fairseq-train data-bin --user-dir $(cape-fairseq path) --arch cape_transformer_tiny
  ls $(cape-fairseq path)
"""


def main(argv: list[str]) -> None:
    """Print the folder of the package."""
    build_parser("path", "Print the folder for --user-dir.", EXAMPLES).parse_args(argv)
    print(Path(__file__).resolve().parent)
