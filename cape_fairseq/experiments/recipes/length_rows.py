"""The rows of the table of lengths: encodings, what may help them, and where they start from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UserError
from cape_fairseq.experiments.recipes.settings import NOT_RUNS, PLAIN_SOURCE, mixed

# Encodings that can go on from sinpos, which they equal or resemble at the beginning.
FROM_SINPOS = ("cape", "shape", "floater")
NEAR_SHIFT = "10"
STRETCHED = (
    *("--position-augmentation", "cape", "--cape-global-scale", "1.2"),
    *("--cape-local-shift", "0"),
)


@dataclass(frozen=True)
class Row:
    """What one row is trained with.

    Args:
        model: the architecture is ``{model}_transformer`` and the size.
        options: of fairseq-train, beside what all rows have.
        parent: the row of the same seed that it goes on from; empty where it starts anew.
    """

    model: str
    options: tuple[str, ...] = ()
    parent: str = ""


def rows(tokens: int, updates: int, mix_from: int, longest: int = 0) -> dict[str, Row]:
    """All rows by name.

    Args:
        tokens: of a stack that is tested on.
        updates: of a row that starts anew.
        mix_from: the epoch from which rows with stacks in their only training see them.
        longest: tokens of the longest text that may be in training.
    """
    return {
        **{name: Row(name) for name in ENCODINGS},
        "rope-cross": Row("rope_cross"),
        **shifted(tokens, updates, longest),
        **mixed_from_the_start(mix(tokens, mix_from)),
        **going_on(mix(tokens)),
    }


def mix(tokens: int, from_epoch: int = 1) -> tuple[str, ...]:
    """Stacks in training where stacks of so many tokens are tested: up to a third longer, since a
    stack ends with a sentence."""
    return mixed(tokens * 4 // 3, from_epoch)


def shifted(tokens: int, updates: int, longest: int) -> dict[str, Row]:
    """Positions that training changes, in ways that may be learned as fast as plain ones."""
    far = str(tokens)
    cape, shape = ("--cape-global-shift", far), ("--shape-max-shift", far)
    random_range = ("--randpos-range", str(max(4 * tokens, longest)))
    return {
        "randpos": Row("sinpos", ("--position-augmentation", "randpos", *random_range)),
        "cape-unscaled": Row("cape", PLAIN_SOURCE),
        "cape-far": Row("cape", cape),
        "cape-grown": Row("cape", (*cape, "--shift-warmup", str(updates))),
        "cape-share": Row("cape", (*cape, "--shift-probability", "0.5")),
        "shape-far": Row("shape", shape),
        "shape-shared": Row("shape", (*shape, "--shape-shared-shift")),
        "shape-grown": Row("shape", (*shape, "--shift-warmup", str(updates))),
    }


def mixed_from_the_start(mix: tuple[str, ...]) -> dict[str, Row]:
    """Stacks as soon as short text has been learned, within the budget of the other rows."""
    return {
        "sinpos-mixed": Row("sinpos", mix),
        "cape-mixed": Row("cape", (*PLAIN_SOURCE, *mix)),
        "cape-scaled-mixed": Row("cape", mix),
        "rope-cross-mixed": Row("rope_cross", mix),
        "shape-mixed": Row("shape", ("--shape-max-shift", "50", *mix)),
    }


def going_on(mix: tuple[str, ...]) -> dict[str, Row]:
    """Rows that start from a finished one, with stacks or, to compare with, without."""
    near = {
        "cape": (*PLAIN_SOURCE, "--cape-global-shift", NEAR_SHIFT),
        "shape": ("--shape-max-shift", NEAR_SHIFT),
    }
    own = [name for name in ENCODINGS if name not in near]
    return {
        "sinpos-tuned": Row("sinpos", (), "sinpos"),
        "rope-cross-tuned": Row("rope_cross", (), "rope-cross"),
        "floater-tuned": Row("floater", (), "sinpos"),
        **{f"{name}-tuned-mixed": Row(name, mix, parent_of(name)) for name in own},
        "rope-cross-tuned-mixed": Row("rope_cross", mix, "rope-cross"),
        "rope-cross-stretched-mixed": Row("rope_cross", (*STRETCHED, *mix), "rope-cross"),
        **{
            f"{name}-near-mixed": Row(name, (*shift, *mix), parent_of(name))
            for name, shift in near.items()
        },
    }


def parent_of(encoding: str) -> str:
    return "sinpos" if encoding in FROM_SINPOS else encoding


def described(known: Mapping[str, Row], given: Iterable[str]) -> dict[str, Row]:
    """The rows that a user describes as ``NAME=MODEL [--from ROW] [OPTIONS]``.

    Raises:
        UserError: a description is none, its name is taken, or it names no model or row.
    """
    found: dict[str, Row] = {}
    for text in given:
        name, model, parent, options = parts(text)
        if name in known or name in found or name in NOT_RUNS:
            raise UserError(f"--own {text}: the name {name} is taken; choose another one")
        models = dict.fromkeys(row.model for row in known.values())
        if model not in models:
            raise UserError(f"--own {text}: there is no {model}; choose from {' '.join(models)}")
        if parent and parent not in known and parent not in found:
            raise UserError(f"--own {text}: there is no row {parent}; --from takes another row")
        found[name] = Row(model, options, parent)
    return found


def parts(text: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Name, model, parent and options of a row that a user describes."""
    name, _, rest = text.partition("=")
    model = parent = ""
    options: list[str] = []
    with suppress(ValueError):  # an open quote, or nothing there
        model, *options = shlex.split(rest)
        if options[:1] == ["--from"]:
            _, parent, *options = options
    if not model or "--from" in options or not re.fullmatch(r"[\w-]+", name):
        example = "cape-100=cape --from sinpos --cape-global-shift 100"
        raise UserError(f"--own {text}: write NAME=MODEL [--from ROW] [OPTIONS], such as {example}")
    return name, model, parent, tuple(options)


def chosen(known: Mapping[str, Row], names: tuple[str, ...]) -> Mapping[str, Row]:
    """The rows of these names, or all.

    Raises:
        UserError: there is no such row.
    """
    for name in names:
        if name not in known:
            raise UserError(f"there is no row {name}; choose from {' '.join(known)}")
    return {name: known[name] for name in names or known}
