"""Tools that tell what there is."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.cli.tool import Found, Tool


def no_arguments(parser: ArgumentParser) -> None:
    pass


def list_encodings(args: Namespace) -> Found:
    from dataclasses import fields

    from cape_fairseq.encodings import AUGMENTATIONS, ENCODINGS
    from cape_fairseq.encodings.options import flag
    from cape_fairseq.evaluation.rows import Rows
    from cape_fairseq.models.config import OWN_GROUPS

    encodings = [[row.name, row.summary] for row in ENCODINGS.values()]
    moves = [
        [name, row.summary, " ".join(e.name for e in ENCODINGS.values() if name in e.augmentations)]
        for name, row in AUGMENTATIONS.items()
    ]
    options = [
        [
            flag(option.name),
            "-" if option.default is None else str(option.default),
            owner(option.name),
            option.metadata["help"],
        ]
        for group in OWN_GROUPS
        for option in fields(group)
    ]
    return Found(
        [
            Rows(["encoding", "positions"], encodings),
            Rows(["augmentation", "positions", "means something to"], moves),
            Rows(["option", "default", "of", "what it does"], options),
        ]
    )


def owner(name: str) -> str:
    """What an option belongs to: encodings, augmentations, or all models of this plugin."""
    from cape_fairseq.encodings.common import holders

    encodings, moves = holders(name)
    return ", ".join(encodings or [f"augmentation {key}" for key in moves] or ["all"])


def print_path(args: Namespace) -> Found:
    from cape_fairseq.evaluation.rows import Rows

    return Found([Rows([str(Path(__file__).resolve().parent.parent)], [])])


TOOLS = (
    Tool(
        "encodings",
        "list the encodings and augmentations with their options",
        no_arguments,
        list_encodings,
    ),
    Tool("path", "print the folder to give to fairseq's --user-dir", no_arguments, print_path),
)
