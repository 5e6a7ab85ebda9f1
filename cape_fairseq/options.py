"""Options as fields of dataclasses: default, help, choices and bounds in one place.

fairseq turns the fields into command-line options. It reads their types at run time, so files with
options do not import annotations from the future, and spell ``Optional``.
"""

import math
from collections.abc import Iterable
from dataclasses import Field, field, fields
from enum import Enum
from typing import Any


def option(default: Any, help: str, **metadata: Any) -> Any:
    """Create a field of a dataclass of options.

    Args:
        default: the default value; None if it depends on other options.
        help: the text of ``--help``.
        metadata: ``minimum`` or ``above`` bound the value; ``must_match=True`` marks an option that
            gives trained parameters their meaning, so that it must equal the checkpoint's.
    """
    return field(default=default, metadata={"help": help, **metadata})


def choice(*values: str) -> type[Enum]:
    """Create the type of an option with these values."""
    return Enum("Choice", {value: value for value in values}, type=str)


def list_choices(item: Field) -> list[str] | None:
    """Return the values of an option of :func:`choice`, or None for other options."""
    for kind in getattr(item.type, "__args__", (item.type,)):  # Optional[...] or the type itself
        if isinstance(kind, type) and issubclass(kind, Enum):
            return [member.value for member in kind]
    return None


def format_flag(name: str) -> str:
    """Return the name of an option on the command line."""
    return "--" + name.replace("_", "-")


def require(condition: bool, name: str, value: Any, expected: str) -> None:
    """Raise ValueError with the option, its value and what is expected, unless it holds."""
    if not condition:
        raise ValueError(f"{format_flag(name)} is {value}, but it must be {expected}")


def require_value(options: Any, name: str, wanted: Any, reason: str) -> None:
    """Raise ValueError with a reason unless an option has the value that is wanted."""
    value = getattr(options, name)
    require(value == wanted, name, value, f"{wanted}: {reason}")


def list_number_types(item: Field) -> set[type]:
    """Return the types of number that the value of an option can have."""
    return {int, float} & set(getattr(item.type, "__args__", (item.type,)))


def validate(options: Any, items: Iterable[Field]) -> None:
    """Raise ValueError if an option is not one of its choices, no number, or outside its bounds."""
    for item in items:
        value, values = getattr(options, item.name), list_choices(item)
        if value is None:
            continue
        if values is not None:
            require(value in values, item.name, value, " or ".join(values))
        types = list_number_types(item)
        if types:
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            is_finite = is_number and math.isfinite(value)
            require(is_finite, item.name, repr(value), "a number")
            is_allowed = isinstance(value, int) or float in types
            require(is_allowed, item.name, value, "a whole number")
        minimum, above = item.metadata.get("minimum"), item.metadata.get("above")
        if minimum is not None:
            require(value >= minimum, item.name, value, f"at least {minimum}")
        if above is not None:
            require(value > above, item.name, value, f"greater than {above}")


def select_options(config: type | None, options: Any) -> Any:
    """Return the options of one dataclass among those of a model, or None without a dataclass."""
    if config is None:
        return None
    return config(**{item.name: getattr(options, item.name) for item in fields(config)})


def list_fields(*configs: type | None) -> list[Field]:
    """Return the fields of dataclasses of options, in order."""
    return [item for config in configs if config is not None for item in fields(config)]
