"""Folders of Hugging Face's translation models: configuration, parameters and vocabulary."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.command_line import UserError

SUPPORTED = ("marian", "m2m_100")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # a dictionary of fairseq begins with these


class Vocabulary(NamedTuple):
    """The words of one side in fairseq's order, and the rows that their vectors have."""

    words: list[str]
    rows: list[int]

    def find_code(self, *candidates: str) -> str:
        """Return the first candidate that is a word, the code of a language.

        Raises:
            UserError: there is none.
        """
        for code in candidates:
            if code in self.words:
                return code
        raise UserError(f"the vocabulary has no language {candidates[0]}")


def read_json(path: Path) -> Any:
    """Read a JSON file, or raise UserError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no {path}") from None
    except ValueError as error:
        raise UserError(f"{path} is not a JSON file: {error}") from None


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration of a model, or raise UserError."""
    config = read_json(folder / "config.json")
    kind = config.get("model_type")
    if kind not in SUPPORTED:
        raise UserError(
            f"{folder} has a model of type {kind}; supported are marian (OPUS-MT) and m2m_100 "
            "(M2M-100, NLLB)"
        )
    return config


def read_parameters(folder: Path) -> dict[str, Tensor]:
    """Read the parameters, from one file or several; pickles may hold tensors only.

    Raises:
        UserError: there are none, or they cannot be read.
    """
    paths = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not paths:
        raise UserError(f"{folder} has neither model.safetensors nor pytorch_model.bin")
    state: dict[str, Tensor] = {}
    for path in paths:
        try:
            state |= read_tensors(path)
        except Exception as error:  # torch and safetensors raise many kinds
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{path} cannot be read: {reason}") from None
    return {name: value.float() for name, value in state.items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file."""
    if path.suffix == ".bin":
        return torch.load(path, map_location="cpu", weights_only=True)
    from safetensors.torch import load_file

    return load_file(path)


def read_vocabulary(folder: Path, name: str, rows: int) -> Vocabulary:
    """Read ``vocab.json`` or another file of pieces and indices. Without one, as in NLLB, the
    indices are those of the SentencePiece model + 1. Codes of languages follow.

    Raises:
        UserError: the vocabulary does not fit the number of ``rows``.
    """
    path = folder / name
    if path.is_file() or not (folder / "sentencepiece.bpe.model").is_file():
        indices = read_json(path)
    else:
        path = folder / "sentencepiece.bpe.model"
        indices = read_pieces(path)
    indices |= read_codes(folder, max(indices.values()) + 1)
    if max(indices.values()) >= rows or len(set(indices.values())) < len(indices):
        raise UserError(
            f"{path} does not fit the model: it has indices up to {max(indices.values())}, and the "
            f"model {rows} words"
        )
    missing = [word for word in SPECIAL[1:] if word not in indices]
    if missing:
        raise UserError(f"{path} has no {missing[0]}")
    indices.setdefault("<s>", indices["</s>"])
    used = set(indices.values())
    indices |= {f"madeupword{i:04}": i for i in range(rows) if i not in used}
    others = sorted(indices.keys() - set(SPECIAL), key=lambda word: indices[word])
    words = [*SPECIAL, *others]
    return Vocabulary(words, [indices[word] for word in words])


def read_pieces(path: Path) -> dict[str, int]:
    """Read the pieces of a SentencePiece model, whose first three are <unk>, <s> and </s>."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [model.id_to_piece(i) for i in range(3, len(model))]
    return {word: index for index, word in enumerate((*SPECIAL, *pieces))}


def read_codes(folder: Path, first: int) -> dict[str, int]:
    """Read the tokens that the tokenizer adds to its pieces: with indices, or in their order."""
    path = folder / "tokenizer.json"
    if path.is_file():
        return {token["content"]: token["id"] for token in read_json(path)["added_tokens"]}
    path = folder / "tokenizer_config.json"
    config = read_json(path) if path.is_file() else {}
    if "added_tokens_decoder" in config:
        added = config["added_tokens_decoder"]
        return {token["content"]: int(index) for index, token in added.items()}
    path = folder / "special_tokens_map.json"
    config |= read_json(path) if path.is_file() else {}
    codes = config.get("additional_special_tokens") or []
    return {code: index for index, code in enumerate(codes, first)}
