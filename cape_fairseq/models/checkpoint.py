"""The identity of a checkpoint, and the check that a model can load it."""

from __future__ import annotations

import hashlib
import json
import re
from argparse import Namespace
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf
from torch import Tensor, nn

from cape_fairseq.models.config import PLUGIN_CONFIGS, ModelOptions, find_encoding, list_options
from cape_fairseq.models.training_lengths import compute_training_length
from cape_fairseq.options import format_flag, list_fields
from cape_fairseq.positions import ENCODINGS

State = dict[str, Tensor]

FORMAT = 1  # of the identity
IDENTITY = "identity"
SCALE = "encoder.source_scale"
LENGTH_COUNTS = "encoder.training_lengths.counts"
LONGEST = "encoder.training_lengths.longest"
FORMER_LONGEST = "encoder.training_length"  # the name of before version 1.2.0
# What checkpoints had before the format had a number: position options, and a hash for each word.
FORMER_OPTIONS = "encoder.position_options"
FORMER_WORDS = {"source": "encoder.words", "target": "decoder.words"}
IDENTITIES = (IDENTITY, FORMER_OPTIONS, *FORMER_WORDS.values())  # what Identity reads
# The learned positions of stock fairseq.
LEARNED_POSITIONS = re.compile(r"(encoder|decoder)\.embed_positions\.weight")

SIDES = ("encoder", "decoder")
SIDE_DIMENSIONS = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before")
DIMENSIONS = (  # heads, activation and the scale of embeddings are in the shape of no parameter
    *(f"{side}_{part}" for part in SIDE_DIMENSIONS for side in SIDES),
    "layernorm_embedding",
    "activation_fn",
    "no_scale_embedding",
    "output_bias",
    "residual_init",
)
# Defaults of this package's options, which stock checkpoints lack.
DEFAULTS = {item.name: item.default for item in list_fields(ModelOptions)}


class Words(NamedTuple):
    """The words of a dictionary."""

    count: int
    digest: str  # of the words in their order


class Identity(NamedTuple):
    """The meaning of a checkpoint's parameters.

    Args:
        encoding: ``--position-encoding``.
        base: the encoding that computes positions: its own, or that which FLOATER stands on.
        options: all position options that apply, by name.
        dimensions: those of the network, by option; none if they are not known.
        words: those of the ``source`` and of the ``target``; none if they are not known.
        is_stock: whether the model is fairseq's own.
    """

    encoding: str
    base: str
    options: dict[str, Any]
    dimensions: dict[str, Any]
    words: dict[str, Words]
    is_stock: bool = False

    @classmethod
    def of(cls, model: nn.Module) -> Identity:
        """Return the identity of a model."""
        cfg = model.cfg
        options = {item.name: getattr(cfg, item.name) for item in list_options(cfg)}
        base = find_encoding(cfg).find_base(cfg).name
        words = {
            "source": digest(hash_words(model.encoder.dictionary)),
            "target": digest(hash_words(model.decoder.dictionary)),
        }
        return cls(cfg.position_encoding, base, options, read_dimensions(cfg), words)

    @classmethod
    def read(cls, state: State, options: Any = None) -> Identity:
        """Return the identity of a checkpoint.

        Args:
            state: its parameters and buffers.
            options: those of its model, where the dimensions of a checkpoint without an identity
                are: fairseq's own, and those of before version 1.2.0.

        Raises:
            ValueError: the checkpoint is older than version 1.2, or of a later version.
        """
        if IDENTITY in state:
            return cls.decode(state[IDENTITY])
        dimensions = read_dimensions(options)
        if FORMER_OPTIONS not in state:
            name = "abspos" if any(map(LEARNED_POSITIONS.fullmatch, state)) else "sinpos"
            stock = {"position_encoding": name, "source_bos": "off"}
            return cls(name, name, stock, dimensions, {}, is_stock=True)
        if not all(key in state for key in FORMER_WORDS.values()):
            raise ValueError("the checkpoint is older than version 1.2 of this package; retrain it")
        former = json.loads(bytes(state[FORMER_OPTIONS].tolist()))
        base = former.pop("base")
        words = {side: digest(state[key]) for side, key in FORMER_WORDS.items()}
        return cls(former["position_encoding"], base, former, dimensions, words)

    @classmethod
    def decode(cls, buffer: Tensor) -> Identity:
        """Undo :meth:`encode`.

        Raises:
            ValueError: a later version of this package wrote it.
        """
        fields = json.loads(bytes(buffer.tolist()))
        if fields.pop("format") > FORMAT:
            raise ValueError("the checkpoint is of a later version of cape_fairseq; update it")
        fields["words"] = {side: Words(*words) for side, words in fields["words"].items()}
        return cls(**fields)

    def encode(self) -> Tensor:
        """Return the identity as a buffer, int64 [bytes]. fairseq hands a model the tensors of a
        checkpoint only; integers change neither in half precision nor in an average."""
        text = json.dumps({"format": FORMAT, **self._asdict()})
        return torch.tensor(list(text.encode()), dtype=torch.long)

    @property
    def noiseless_encoding(self) -> str:
        """Return the encoding that this one is without noise. FLOATER begins as its base."""
        return getattr(ENCODINGS.get(self.base), "noiseless_encoding", None) or self.base

    def list_changes(self, other: Identity) -> dict[str, tuple[Any, Any]]:
        """Return own and other value of each position option that differs."""
        names = {**self.options, **other.options}
        pairs = {name: (self.options.get(name), other.options.get(name)) for name in names}
        return {name: (own, its) for name, (own, its) in pairs.items() if own != its}


def read_longest(state: State) -> int:
    """Return the length of the longest training text that a checkpoint's state stores, or 0."""
    return int(state.get(LONGEST, state.get(FORMER_LONGEST, 0)))


def read_training_length(state: State) -> int:
    """Return the training length that a checkpoint's state stores, or 0."""
    counts = state.get(LENGTH_COUNTS, torch.zeros(1))
    return int(compute_training_length(counts, torch.tensor(read_longest(state))))


def read_dimensions(options: Any) -> dict[str, Any]:
    """Return the dimensions that the options of a model give; an option of this package has its
    default without a value. fairseq-hydra-train may store the options of a side under its name."""
    if options is None:
        return {}
    values = OmegaConf.to_container(options) if OmegaConf.is_config(options) else options
    values = vars(values) if isinstance(values, Namespace) else values
    if isinstance(values, dict):
        sides = [(side, values[side]) for side in SIDES if isinstance(values.get(side), dict)]
        parts = {f"{side}_{part}": value for side, own in sides for part, value in own.items()}
        values = Namespace(**{**parts, **values})
    found = {name: getattr(values, name, None) for name in DIMENSIONS}
    return {n: DEFAULTS.get(n) if value is None else value for n, value in found.items()}


def hash_words(dictionary: Dictionary) -> Tensor:
    """Return a hash of each word in the dictionary's order, int64 [V]. Frequencies do not count."""
    digests = [hashlib.blake2b(word.encode(), digest_size=8) for word in dictionary.symbols]
    return torch.tensor([int.from_bytes(d.digest(), "big", signed=True) for d in digests])


def digest(hashes: Tensor) -> Words:
    """Return the words that have these hashes, int64 [V]."""
    text = ",".join(map(str, hashes.tolist()))
    return Words(len(hashes), hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def check_identity(stored: Identity, current: Identity) -> None:
    """Check that a model can load a checkpoint.

    FLOATER's base encoding, dimensions and the options with ``must_match`` have to be equal. A warm
    start warns of other options that change.

    Raises:
        ValueError: words, dimensions or such an option differ, or it is a model of documents.
    """
    if stored.options.get("sentence_context") is not None:
        raise ValueError(
            "the checkpoint is a model of documents (--sentence-context), which this version does "
            "not have; use version 1.1, or train rows (--source-context) from its sentence model"
        )
    for side, words in stored.words.items():
        check_words(side, words, current.words[side])
    conflicts = list_conflicts(stored, current)
    given = [format_flag(n) if v is True else f"{format_flag(n)} {v}" for n, v in conflicts if v]
    left_out = [format_flag(name) for name, value in conflicts if not value]
    advice = [f"give {' '.join(given)}"] if given else []
    advice += [f"leave out {' '.join(left_out)}"] if left_out else []
    if advice:
        raise ValueError(
            f"the checkpoint's model has other dimensions or options; {', '.join(advice)}"
        )


def check_words(side: str, stored: Words, current: Words) -> None:
    """Raise ValueError if the dictionary of a side is not the checkpoint's."""
    if stored == current:
        return
    differs = ", other words or another order" if stored.count == current.count else ""
    raise ValueError(
        f"the {side} dictionary is not the checkpoint's: it has {current.count} words, the "
        f"checkpoint's {stored.count}{differs}; binarize with the checkpoint's dict.*.txt "
        "(fairseq-preprocess --srcdict, --tgtdict)"
    )


def list_conflicts(stored: Identity, current: Identity) -> list[tuple[str, Any]]:
    """Return the options that must match and do not, with the checkpoint's value."""
    conflicts = []
    if current.base not in (current.encoding, "nopos", stored.base):  # FLOATER keeps positions
        conflicts.append(("floater_base_encoding", stored.base))
    for name, old in stored.dimensions.items():
        new = current.dimensions.get(name)
        is_filled = name == "residual_init" and new == "admin"  # a warm start adds its weights
        # fairseq keeps some numbers of the command line as text.
        is_same = str(old) == str(new) or (not old and not new)
        if old is not None and name in current.dimensions and not is_same and not is_filled:
            conflicts.append((name, old))
    for item in list_fields(*PLUGIN_CONFIGS):
        old, new = stored.options.get(item.name), current.options.get(item.name)
        must_match = item.metadata.get("must_match", False)
        if must_match and None not in (old, new) and old != new:
            conflicts.append((item.name, old))
    return conflicts
