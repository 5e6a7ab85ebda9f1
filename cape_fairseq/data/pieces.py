"""SentencePiece on files, for the recipes.

``python -m cape_fairseq.data.pieces learn MODEL SIZE FILE...`` trains a joint model, and
``python -m cape_fairseq.data.pieces apply MODEL < text`` prints the pieces of each line.
"""

import sys

import sentencepiece

from cape_fairseq.files import decode_lines


def main(argv: list[str]) -> None:
    """Run a command."""
    sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale
    command, model, *arguments = argv
    if command == "learn":
        size, *files = arguments
        options = {"vocab_size": int(size), "minloglevel": 2}
        with open(model, "wb") as stream:
            sentencepiece.SentencePieceTrainer.train(input=files, model_writer=stream, **options)
    else:
        processor = sentencepiece.SentencePieceProcessor(model_file=model)
        for line in decode_lines(sys.stdin.buffer, "the input"):
            print(" ".join(processor.encode(line, out_type=str)))


if __name__ == "__main__":
    main(sys.argv[1:])
