"""SentencePiece on files, for the recipes.

``python -m cape_fairseq.data.pieces learn MODEL SIZE FILE...`` trains a joint model, and
``python -m cape_fairseq.data.pieces apply MODEL < text`` prints the pieces of each line.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece

from cape_fairseq.command_line import UserError


def learn(model: Path, size: int, files: Iterable[str]) -> None:
    """Train a model with ``size`` pieces.

    Raises:
        UserError: the text has too few characters or pieces for it.
    """
    prefix = str(model.with_suffix(""))
    try:
        sentencepiece.SentencePieceTrainer.train(
            input=list(files), model_prefix=prefix, vocab_size=size, minloglevel=2
        )
    except RuntimeError as error:
        raise UserError(f"SentencePiece cannot be trained: {error}") from None


def apply(model: Path, lines: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of each line, separated by spaces."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for line in lines:
        yield " ".join(processor.encode(line.rstrip("\n"), out_type=str))


def main(argv: list[str]) -> int:
    """Run a command; return its exit status."""
    command, model, *arguments = argv
    try:
        if command == "learn":
            learn(Path(model), int(arguments[0]), arguments[1:])
        else:
            for line in apply(Path(model), sys.stdin):
                print(line)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
