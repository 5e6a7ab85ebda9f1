"""Options as fields of dataclasses: default, help, choices and bounds in one place.

fairseq makes command-line options of these fields. It reads their types at run time, so files with
options do not import annotations from the future, and spell ``Optional``.
"""

import math
from collections.abc import Iterable
from dataclasses import Field, field, fields
from enum import Enum
from typing import Any


def option(default: Any, help: str, **bounds: Any) -> Any:
    """A field of a dataclass of options.

    Args:
        default: its value where nothing is said; None where it depends on other options.
        help: for ``--help``.
        bounds: ``least`` (a number of at least this), ``above`` (a number above this), ``whole``
            (an integer of at least this).
    """
    return field(default=default, metadata={"help": help, **bounds})


def choice(*values: str) -> type[Enum]:
    """The type of an option with these values."""
    return Enum("Choice", {value: value for value in values}, type=str)


def choices(option: Field) -> list[str] | None:
    """The values of an option of :func:`choice`; None for other options."""
    kinds = getattr(option.type, "__args__", (option.type,))  # Optional[...] or the type itself
    found = next(
        (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)), None
    )
    return None if found is None else [member.value for member in found]


def names(*groups: type | None) -> list[str]:
    """The options of dataclasses, in order."""
    return [option.name for group in groups if group is not None for option in fields(group)]


def flag(name: str) -> str:
    """The option's name on the command line."""
    return "--" + name.replace("_", "-")


def require(condition: bool, name: str, value: Any, expected: str) -> None:
    """
    Raises:
        ValueError: naming the option, its value and what it must be.
    """
    if not condition:
        raise ValueError(f"{flag(name)} is {value}, but it must be {expected}")


def check_values(args: Any, groups: Iterable[type]) -> None:
    """Check every option of these groups by its choices and bounds; whole numbers become integers.

    Raises:
        ValueError: naming the first option whose value makes no sense.
    """
    for group in groups:
        for option in fields(group):
            value, bounds = getattr(args, option.name), option.metadata
            if values := choices(option):
                require(value in values, option.name, value, " or ".join(values))
            if "least" in bounds:
                least = bounds["least"]
                fits = least <= value < math.inf
                require(fits, option.name, value, f"a finite number of at least {least}")
            if "above" in bounds:
                least = bounds["above"]
                require(least < value < math.inf, option.name, value, f"a number above {least}")
            if "whole" in bounds:
                least = bounds["whole"]
                fits = least <= value < math.inf and value == int(value)
                require(fits, option.name, value, f"an integer of at least {least}")
                setattr(args, option.name, int(value))  # YAML may have said 150.0
