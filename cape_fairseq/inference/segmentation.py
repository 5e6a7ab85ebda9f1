"""Tokens and subwords of raw text, by fairseq's encoders."""

import argparse
import shutil
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, encoders
from fairseq.tokenizer import tokenize_line
from torch import Tensor

from cape_fairseq.command_line import add_user_dir
from cape_fairseq.data.cleaning import clean_line, repair_breaks
from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.data.prefixes import PREFIXES
from cape_fairseq.errors import UserError
from cape_fairseq.files import read_lines

# Beside a checkpoint or its dictionaries: codes of subword-nmt, or models of SentencePiece, of each
# side or of both.
CODES, SIDE_MODELS, JOINT_MODEL = "bpecodes", ("source.spm", "target.spm"), "sentencepiece.model"
SEGMENTATIONS = (SIDE_MODELS, (JOINT_MODEL,), (CODES,))
LOADING = ("checkpoint", "data", "bpe_codes", "sentencepiece", "tokenizer")  # options
SPACE = "▁"  # in pieces of SentencePiece


class SentencePiece:
    """SentencePiece as a segmentation of fairseq's hub, for models with byte fallback, too."""

    def __init__(self, model: str) -> None:
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor(model_file=model)
        self.unknown = self.processor.decode([self.processor.unk_id()])  # as text

    def encode(self, text: str) -> str:
        """Return the pieces of a text, separated by spaces."""
        return " ".join(self.processor.encode(text, out_type=str))

    def decode(self, line: str) -> str:
        """Return the text of pieces that are separated by spaces; unknown ones stay <unk>."""
        text = self.processor.decode_pieces(line.split(" ")).replace(SPACE, " ")
        return text.replace(self.unknown, "<unk>").strip()


def index_words(line: str, dictionary: Dictionary, uses_sentencepiece: bool) -> Tensor:
    """Return the indices of the words of a line, int64 [T] with EOS. A piece of SentencePiece may
    contain white space other than U+0020, where fairseq would cut it."""
    split = split_pieces if uses_sentencepiece else tokenize_line
    return dictionary.encode_line(line, line_tokenizer=split, add_if_not_exist=False).long()


def split_pieces(line: str) -> list[str]:
    """Split a line at U+0020 alone."""
    return [piece for piece in line.split(" ") if piece]


def add_segmentation_options(parser: argparse.ArgumentParser) -> None:
    """Add a checkpoint and :data:`LOADING`, by which a tool finds what belongs to it."""
    parser.add_argument("checkpoint", type=Path, help="checkpoint of a translation model")
    add_user_dir(parser)
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with dict.*.txt (default: beside the checkpoint, else the training's)",
    )
    parser.add_argument("--bpe-codes", type=Path, metavar="FILE", help="codes of subword-nmt")
    parser.add_argument(
        "--sentencepiece",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="model of SentencePiece, or one of the source and one of the target",
    )
    parser.add_argument(
        "--tokenizer",
        choices=("moses_quotes", "moses", "space", "nltk"),
        help="moses_quotes: Moses with typographic quotes; space: the text is tokenized (default: "
        "moses_quotes; none with SentencePiece)",
    )


def choose_cleaning(tokenizer: str | None) -> Callable[[str], str]:
    """Return how a line of text is cleaned. Text that is tokenized keeps the entities that Moses
    writes."""
    return repair_breaks if tokenizer == "space" else clean_line


def build_tokenizer(name: str | None, source_lang: str, target_lang: str) -> Any:
    """Build a tokenizer of fairseq, or None, or raise UserError if it is not installed."""
    options = Namespace(tokenizer=name, source_lang=source_lang, target_lang=target_lang)
    try:
        return encoders.build_tokenizer(options)
    except ImportError as error:
        raise UserError(f"--tokenizer {name}: {error}") from None


def build_segmentation(
    folder: ModelFolder,
    bpe_codes: str | Path | None = None,
    sentencepiece: Sequence[str | Path] = (),
) -> tuple[Any, Any]:
    """Build the segmentation of both sides, or None: of the given files, or of the model's.

    Raises:
        UserError: there is no such file, or it has no codes.
    """
    is_one = isinstance(sentencepiece, (str, Path))
    given = [Path(path) for path in ([sentencepiece] if is_one else sentencepiece)]
    if bpe_codes and given:
        raise UserError("--bpe-codes and --sentencepiece are given; choose one")
    if bpe_codes:
        return build_codes(Path(bpe_codes))
    if given:
        return build_sentencepiece(given)
    files = folder.find(*SEGMENTATIONS)
    if not files:
        return None, None
    return build_codes(files[0]) if files[0].name == CODES else build_sentencepiece(files)


def build_sentencepiece(models: list[Path]) -> tuple[SentencePiece, SentencePiece]:
    """Build the segmentation by one model of SentencePiece, or by one of each side."""
    if len(models) > 2:
        raise UserError(
            "--sentencepiece takes one model, or one of the source and one of the target"
        )
    built = []
    for path in models:
        if not path.is_file():
            raise UserError(f"there is no model of SentencePiece {path}")
        try:
            built.append(SentencePiece(str(path)))
        except (OSError, RuntimeError):
            raise UserError(f"{path} is not a model of SentencePiece") from None
    return built[0], built[-1]


def build_codes(codes: Path) -> tuple[Any, Any]:
    """Build the segmentation by codes of subword-nmt, or raise UserError."""
    if not codes.is_file():
        raise UserError(f"there are no BPE codes {codes}")
    lines = [line for line in read_lines(codes) if not line.startswith("#version")]
    pairs = [line.rstrip(" ").split(" ") for line in lines if line.strip()]
    is_vocabulary = all(pair[-1].isdigit() for pair in pairs)  # words and counts
    wrong = next((number for number, pair in enumerate(pairs, 1) if len(pair) != 2), None)
    if is_vocabulary or wrong is not None:
        raise UserError(
            f"{codes} is not a file of BPE codes, two symbols separated by a space in each line "
            f"({'a vocabulary does not work' if is_vocabulary else f'see code {wrong}'}); give the "
            "output of subword-nmt learn-bpe or learn-joint-bpe-and-vocab"
        )
    bpe = encoders.build_bpe(Namespace(bpe="subword_nmt", bpe_codes=str(codes)))
    return bpe, bpe


def copy_segmentation(folder: ModelFolder, output: Path) -> list[Path]:
    """Copy the segmentation and the prefixes of a model; return the files of the segmentation."""
    files = folder.find(*SEGMENTATIONS)
    for path in (*files, *folder.find([PREFIXES])):
        shutil.copy(path, output)
    return files


def check_unsegmented(path: Path, dictionary: Dictionary) -> None:
    """Raise UserError if the words of a dictionary are subwords."""
    if any("@@" in word for word in dictionary.symbols):
        raise UserError(
            f"{path} was trained on subwords; give --bpe-codes, or copy the subword-nmt codes "
            f"to {path.parent / CODES}"
        )
    if any(word.startswith(SPACE) for word in dictionary.symbols):
        raise UserError(
            f"{path} was trained on pieces of SentencePiece; give --sentencepiece, or copy the "
            f"model to {path.parent / JOINT_MODEL}"
        )
