"""SentencePiece on files, for the recipes.

``python -m cape_fairseq.data.pieces learn MODEL SIZE FILE...`` trains a joint model, and
``python -m cape_fairseq.data.pieces apply MODEL < text`` prints the pieces of each line.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece

from cape_fairseq.command_line import UserError, decode_lines


def learn(model: Path, size: int, files: Iterable[str]) -> None:
    """Train a model with ``size`` pieces.

    Raises:
        UserError: the text has too few characters or pieces for it.
    """
    prefix = model.with_suffix("")
    try:
        sentencepiece.SentencePieceTrainer.train(
            input=list(files), model_prefix=str(prefix), vocab_size=size, minloglevel=2
        )
    except (OSError, RuntimeError) as error:
        reason = str(error).rpartition("] ")[2]
        raise UserError(f"SentencePiece cannot learn {size} pieces (MERGES): {reason}") from None
    prefix.with_suffix(".vocab").unlink(missing_ok=True)


def apply(model: Path, lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the pieces of each line, separated by spaces.

    Raises:
        UserError: there is no such model, or a line is not UTF-8.
    """
    try:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError):
        raise UserError(f"{model} is not a model of SentencePiece") from None
    for text in decode_lines(lines, "the input"):
        yield " ".join(processor.encode(text, out_type=str))


def main(argv: list[str]) -> int:
    """Run a command; return its exit status."""
    sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale
    command, model, *arguments = argv
    try:
        if command == "learn":
            learn(Path(model), int(arguments[0]), arguments[1:])
        else:
            for line in apply(Path(model), sys.stdin.buffer):
                print(line)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
