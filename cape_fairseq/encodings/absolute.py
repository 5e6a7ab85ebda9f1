"""Rows of the encodings that add vectors to the input, and of a model without positions."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cape_fairseq.encodings.options import require
from cape_fairseq.encodings.row import Encoding, Stack
from cape_fairseq.errors import UserError
from cape_fairseq.positions.learned import LearnedEncoding
from cape_fairseq.positions.sinusoid import SinusoidalEncoding

FIRST = 2  # fairseq's index of the first token


def sinusoids(args: Any, stack: Stack, block: int) -> SinusoidalEncoding | None:
    if args.position_layers == "all":
        return SinusoidalEncoding(stack.dim, block)
    return SinusoidalEncoding(stack.dim) if block == 1 else None


def tables(args: Any, stack: Stack, block: int) -> LearnedEncoding | None:
    if block > 1 and args.position_layers == "input":
        return None
    return LearnedEncoding(stack.max_positions, stack.dim, stack.padding_idx)


def check_width(args: Any) -> None:
    """
    Raises:
        ValueError: a width is too small for sinusoids.
    """
    for side in ("encoder", "decoder"):
        width = getattr(args, f"{side}_embed_dim")
        expected = "at least 4: sinusoids need two frequencies"
        require(width >= 4, f"{side}_embed_dim", width, expected)


def check_kept(args: Any, side: str, kept: set[int]) -> None:
    """
    Raises:
        ValueError: sinusoids of blocks, which have the block's number, would change.
    """
    expected = "left out: sinusoids of every block have its number, which would change"
    given = ",".join(map(str, sorted(kept)))
    require(args.position_layers == "input", f"{side}_layers_to_keep", given, expected)


def keep_tables(args: Any, state: dict[str, Tensor], side: str, numbers: list[int]) -> None:
    """The first block's table is ``embed_positions``, the others are ``block_positions``."""
    names = [f"{side}.embed_positions.weight"]
    while (name := f"{side}.block_positions.{len(names) - 1}.weight") in state:
        names.append(name)
    if len(names) == 1:
        return
    tables = [state.pop(name) for name in names]
    for name, number in zip(names, numbers, strict=False):
        state[name] = tables[number]


def check_table(args: Any) -> None:
    """
    Raises:
        ValueError: shifts leave no room for a sentence in a table.
    """
    if args.position_augmentation != "shape":
        return
    for side in ("source", "target"):
        name = f"max_{side}_positions"
        size, shift = getattr(args, name), args.shape_max_shift
        expected = f"above --shape-max-shift ({shift}): a table of length + K positions is needed"
        require(size > shift, name, size, expected)


def sinusoid_vectors(args: Any, state: Mapping[str, Tensor], side: str, positions: int) -> Tensor:
    """What is added to the input (before CAPE's mean-normalization, if any)."""
    scale = float(getattr(args, "source_scale", 1.0)) if side == "encoder" else 1.0
    block = 1 if getattr(args, "position_layers", "input") == "all" else None
    encode = SinusoidalEncoding(getattr(args, f"{side}_embed_dim"), block)
    return encode(FIRST + torch.arange(float(positions)) * scale)


def table_vectors(args: Any, state: Mapping[str, Tensor], side: str, positions: int) -> Tensor:
    """
    Raises:
        UserError: the table is shorter.
    """
    table = state[f"{side}.embed_positions.weight"][FIRST:]
    if len(table) < positions:
        raise UserError(
            f"the learned table has {len(table)} positions; ask for no more with --positions"
        )
    return table[:positions].float()


SINUSOIDAL = {
    "scalable": True,
    "absolute": True,
    "every_block": "",
    "encode": sinusoids,
    "check": check_width,
    "check_kept": check_kept,
    "vectors": sinusoid_vectors,
}

SINPOS = Encoding(
    "sinpos",
    "sinusoids, equal to fairseq's",
    augmentations=("randpos",),
    why_not="sinusoids at positions of CAPE or SHAPE are --position-encoding cape or shape",
    **SINUSOIDAL,
)
CAPE = Encoding(
    "cape",
    "sinusoids at positions that training shifts, jitters and stretches (Likhomanenko et al. 2021, "
    "Eqs. 5-7)",
    augmentations=("cape",),
    augmentation="cape",
    why_not="others have encodings of their own",
    defaults={"source_scale": "auto", "source_bos": "on"},
    **SINUSOIDAL,
)
SHAPE = Encoding(
    "shape",
    "sinusoids at positions that training shifts by an integer from 0 to K (Kiyono et al. 2021, "
    "Eq. 2)",
    augmentations=("shape",),
    augmentation="shape",
    why_not="others have encodings of their own",
    **SINUSOIDAL,
)
ABSPOS = Encoding(
    "abspos",
    "a learned table",
    augmentations=("shape",),
    why_not="a learned table has whole positions only",
    absolute=True,
    learned_table=True,
    every_block="",
    encode=tables,
    parameters=r"embed_positions\.weight|block_positions\.\d+\.weight",
    check=check_table,
    keep=keep_tables,
    vectors=table_vectors,
)
NOPOS = Encoding("nopos", "none", why_not="there are no positions to move", without_positions=True)
