"""Position options as a checkpoint carries them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.models.config import find_encoding, list_options
from cape_fairseq.positions import ENCODINGS


class Settings(NamedTuple):
    """The position options of a model or of a checkpoint.

    Args:
        encoding: ``--position-encoding``.
        base: the encoding that computes positions: its own, or that which FLOATER stands on.
        options: all position options that apply, by name.
    """

    encoding: str
    base: str
    options: dict[str, Any]

    @classmethod
    def of(cls, cfg: Any) -> Settings:
        """Return the settings of a model with these options."""
        options = {item.name: getattr(cfg, item.name) for item in list_options(cfg)}
        return cls(cfg.position_encoding, find_encoding(cfg).find_base(cfg).name, options)

    @classmethod
    def of_stock(cls, is_learned: bool) -> Settings:
        """Return the settings of fairseq's ``transformer`` with learned or sinusoidal positions."""
        name = "abspos" if is_learned else "sinpos"
        return cls(name, name, {"position_encoding": name, "source_bos": "off"})

    @classmethod
    def decode(cls, buffer: Tensor) -> Settings:
        """Undo :meth:`encode`."""
        options = json.loads(bytes(buffer.tolist()))
        base = options.pop("base")
        return cls(options["position_encoding"], base, options)

    def encode(self) -> Tensor:
        """Return the settings as a buffer, int64 [bytes]. fairseq hands a model the tensors of a
        checkpoint only; integers change neither in half precision nor in an average."""
        text = json.dumps({**self.options, "base": self.base})
        return torch.tensor(list(text.encode()), dtype=torch.long)

    def get(self, name: str) -> Any:
        """Return an option, or None."""
        return self.options.get(name)

    @property
    def evaluated_as(self) -> str:
        """Return the encoding that this one is without noise. FLOATER begins as its base."""
        return getattr(ENCODINGS.get(self.base), "evaluated_as", None) or self.base

    def list_differences(self, other: Settings) -> list[str]:
        """Return the names of the options that differ."""
        names = {**self.options, **other.options}
        return [name for name in names if self.get(name) != other.get(name)]
