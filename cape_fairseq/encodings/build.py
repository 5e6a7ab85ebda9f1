"""From a model's options to what the table's rows make of them."""

from __future__ import annotations

from typing import Any

from cape_fairseq.encodings.augmentations import AUGMENTATIONS
from cape_fairseq.encodings.row import Stack
from cape_fairseq.encodings.table import ENCODINGS
from cape_fairseq.positions.long_text import LongText
from cape_fairseq.positions.source_bos import SourceBOS
from cape_fairseq.positions.stack import StackPositions


def build_positions(args: Any, stack: Stack, bos: int | None = None) -> StackPositions:
    """The positions of an encoder or a decoder.

    Args:
        args: a model's options, resolved and checked.
        stack: what they are built for.
        bos: the token that is put before the source, or None.
    """
    row = ENCODINGS[args.position_encoding]
    encodings = []
    for block in range(1, max(stack.layers, 1) + 1):  # without layers there is an input, too
        encoding = row.encode(args, stack, block) if row.encode else None
        if encoding is None:
            break
        encodings.append(encoding)
    return StackPositions(
        stack.padding_idx,
        AUGMENTATIONS[args.position_augmentation].build(args),
        args.source_scale if stack.side == "encoder" else 1.0,
        encodings,
        row.attention(args, stack) if row.attention else None,
        row.flow(args, stack) if row.flow else None,
        SourceBOS(bos, stack.padding_idx),
        stack.side == "encoder",
        f"--max-{'source' if stack.side == 'encoder' else 'target'}-positions",
        LongText(
            getattr(args, "sharpen_attention_from", 0),
            getattr(args, "interpolate_positions_from", 0),
            getattr(args, "position_offset", 0.0),
        ),
    )


def self_attention_options(args: Any, block: int) -> dict[str, Any]:
    """Options of the self-attention of block 1, 2, ... of a model."""
    row = ENCODINGS[args.position_encoding]
    return row.self_attention(args, block) if row.self_attention else {}


def own_parameters() -> str:
    """Regular expression of all that belongs to some position encoding, by its name in a stack."""
    return "|".join(row.parameters for row in ENCODINGS.values() if row.parameters)
