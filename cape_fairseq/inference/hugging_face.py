"""Folders of Hugging Face's translation models: configuration, parameters and vocabulary."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from cape_fairseq.command_line import UserError
from cape_fairseq.inference.checkpoints import load_tensors

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
        code = re.compile(r"__(\w+)__|>>(.+)<<|(\w+_[A-Z]\w+)")
        found = [match for match in map(code.fullmatch, self.words) if match]
        names = ", ".join(match[match.lastindex] for match in found[:5])
        raise UserError(
            f"the vocabulary has no language {candidates[-1].strip('<>')}; give --source-lang and "
            f"--target-lang as the model names them, such as {names or 'its documentation says'}"
        )


def read_json(path: Path, missing: Any = None) -> Any:
    """Read a JSON file; return ``missing`` if it is given and there is no file.

    Raises:
        UserError: there is no file, or it is not JSON.
    """
    if missing is not None and not path.is_file():
        return missing
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no {path}") from None
    except ValueError as error:
        raise UserError(f"{path} is not a JSON file: {error}") from None


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration of a model, or raise UserError."""
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise UserError(f"{folder / 'config.json'} is not the configuration of a model")
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
        state |= load_tensors(path)
    return {name: value.float() for name, value in state.items()}


def read_vocabulary(folder: Path, name: str, size: int) -> Vocabulary:
    """Read ``vocab.json`` or another file of pieces and indices. Without one, as in NLLB, the
    indices are those of the SentencePiece model + 1. Codes of languages follow.

    Raises:
        UserError: the vocabulary does not fit a model of ``size`` words.
    """
    path = folder / name
    if path.is_file() or not (folder / "sentencepiece.bpe.model").is_file():
        indices = read_json(path)
    else:
        path = folder / "sentencepiece.bpe.model"
        indices = read_pieces(path)
    has_indices = isinstance(indices, dict) and all(type(i) is int for i in indices.values())
    if not indices or not has_indices:
        raise UserError(f"{path} is no vocabulary: words and their indices")
    indices = add_codes(indices, folder)
    if max(indices.values()) >= size or len(set(indices.values())) < len(indices):
        raise UserError(
            f"{path} does not fit the model: it has indices up to {max(indices.values())}, and the "
            f"model {size} words"
        )
    missing = [word for word in SPECIAL[1:] if word not in indices]
    if missing:
        raise UserError(f"{path} has no {missing[0]}")
    indices.setdefault("<s>", indices["</s>"])
    used = set(indices.values())
    indices |= {f"madeupword{i:04}": i for i in range(size) if i not in used}
    others = sorted(indices.keys() - set(SPECIAL), key=lambda word: indices[word])
    words = [*SPECIAL, *others]
    return Vocabulary(words, [indices[word] for word in words])


def read_pieces(path: Path) -> dict[str, int]:
    """Read the pieces of a SentencePiece model, whose first three are <unk>, <s> and </s>."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [model.id_to_piece(i) for i in range(3, len(model))]
    return {word: index for index, word in enumerate((*SPECIAL, *pieces))}


def add_codes(indices: dict[str, int], folder: Path) -> dict[str, int]:
    """Add the words that only the tokenizer's files have, codes of languages: with their indices,
    or in their order behind the others."""
    config = read_json(folder / "tokenizer_config.json", {})
    tokens = read_json(folder / "tokenizer.json", {}).get("added_tokens")
    added = config.get("added_tokens_decoder")
    if tokens is not None:
        codes = {token["content"]: token["id"] for token in tokens}
    elif added is not None:
        codes = {token["content"]: int(index) for index, token in added.items()}
    else:
        config |= read_json(folder / "special_tokens_map.json", {})
        listed = config.get("additional_special_tokens") or []
        new = [code for code in listed if isinstance(code, str) and code not in indices]
        codes = {code: index for index, code in enumerate(new, max(indices.values()) + 1)}
    return {**codes, **indices}
