"""Codes of languages that begin every source or target of a model of many languages."""

import json

import torch
from fairseq.data import Dictionary
from torch import Tensor

from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.errors import UserError

PREFIXES = "prefixes.json"  # of a model of many languages, imported for two of them


def read_prefixes(folder: ModelFolder) -> tuple[list[str], list[str]]:
    """Return the words that begin every source and every target, codes of languages."""
    files = folder.find([PREFIXES])
    if not files:
        return [], []
    path = files[0]
    try:
        prefixes = json.loads(path.read_text(encoding="utf-8-sig"))
        sides = prefixes["source"], prefixes["target"]
    except (ValueError, TypeError, KeyError):
        sides = None, None
    for side in sides:
        if not isinstance(side, list) or not all(isinstance(word, str) for word in side):
            raise UserError(f"{path} must have lists of words, source and target; import it again")
    return sides


def index_prefix(dictionary: Dictionary, words: list[str]) -> Tensor:
    """Return the indices of the words that begin a text, int64 [P], or raise UserError."""
    missing = [word for word in words if word not in dictionary]
    if missing:
        raise UserError(f"{PREFIXES} has {missing[0]}, which is not in the dictionary")
    return torch.tensor([dictionary.index(word) for word in words], dtype=torch.long)


def drop_prefix(tokens: Tensor, prefix: Tensor) -> Tensor:
    """Return the tokens of a text without the prefix, if it begins with it: int64 [T]."""
    count = len(prefix)
    return tokens[count:] if torch.equal(tokens[:count], prefix.to(tokens)) else tokens
