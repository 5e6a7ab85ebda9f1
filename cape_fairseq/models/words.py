"""The words of a model's dictionaries, as hashes that a checkpoint carries."""

import hashlib

import torch
from fairseq.data import Dictionary
from torch import Tensor


def hash_words(dictionary: Dictionary) -> Tensor:
    """Return a hash of each word in the dictionary's order, int64 [V]. Frequencies do not count."""
    hashes = [hash_word(word) for word in dictionary.symbols]
    return torch.tensor(hashes, dtype=torch.long)


def hash_word(word: str) -> int:
    """Return 64 bits that depend on the word alone."""
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def check_words(dictionary: Dictionary, stored: Tensor, name: str) -> None:
    """Check that a checkpoint was trained with this dictionary.

    Raises:
        ValueError: a word or the number of words differs.
    """
    current = hash_words(dictionary)
    stored = stored.to(current.device)
    if torch.equal(current, stored):
        return
    shared = min(len(current), len(stored))
    differs = (current[:shared] != stored[:shared]).nonzero().flatten().tolist()
    index = differs[0] if differs else shared
    now = f"has {dictionary[index]!r} there" if index < len(current) else "ends there"
    raise ValueError(
        f"the {name} dictionary is not the checkpoint's: it has {len(current)} words, the "
        f"checkpoint's {len(stored)}; they differ first at index {index}, and this dictionary "
        f"{now}; binarize with the checkpoint's dict.*.txt (fairseq-preprocess --srcdict, "
        "--tgtdict)"
    )
