"""What a row of the table of encodings says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from cape_fairseq.positions.attention import AttentionPositions
from cape_fairseq.positions.floater.stack import StackFlow


@dataclass(frozen=True)
class Stack:
    """What an encoding is told of the encoder or decoder that it is built for.

    ``max_positions`` is the length of a learned table.
    """

    side: str
    layers: int
    dim: int
    heads: int
    max_positions: int
    padding_idx: int


@dataclass(frozen=True)
class Encoding:
    """A row of the table: all that the project knows about an encoding.

    Attributes:
        name: as in ``--position-encoding`` and ``NAME_transformer``.
        summary: what it is, in a line, with its source.
        options: a dataclass of the options that belong to it.
        augmentations: those of ``--position-augmentation`` that mean something to it.
        augmentation: the one that it has where nothing is said; without one it need not have any.
        why_not: why other augmentations mean nothing to it.
        scalable: whether positions between whole ones mean something (``--source-scale``).
        no_shift: why a shift of a whole sentence means nothing to it; empty where it does.
        absolute: whether a shift of all positions can be probed.
        learned_table: whether it learns a vector for each position up to the longest.
        every_block: why ``--position-layers all`` means nothing; empty where it does.
        enters_blocks: args -> whether something is added to the input of blocks after the first,
            beside ``--position-layers all``.
        defaults: values that other options have with it where nothing is said.
        encode: (args, stack, block) -> what is added to the input of a block.
        attention: (args, stack) -> what attention gets in every block.
        flow: (args, stack) -> FLOATER's trajectories.
        self_attention: (args, block) -> options of a block's own self-attention.
        parameters: regular expression of the names, in a stack, of what it alone learns.
        keeps: the option that names another encoding whose positions it keeps beside its own.
        alone: (args) -> whether it is of a form that keeps no other encoding.
        idle: (args) -> options of its own that mean nothing with those that were given.
        meaning: options of its own without which its parameters mean something else; it keeps
            those of the model that is fine-tuned.
        counts: the one of these that decides whether its source scale is counted where nothing is
            said; where it changes, scale and augmentation of that model are left out.
        resolve: fills in its options that depend on others and were left open.
        check: refuses options that make no sense with it.
        check_kept: (args, side, kept) -> refuses to keep these layers only, a set of numbers.
        keep: (args, state, side, numbers) -> gives a state dict, in place, what belongs to the
            layers of these numbers (fairseq finds what is in a layer).
        vectors: (args, state, side, positions) -> position vectors [positions, d] to draw.

    Raises:
        TypeError: nothing implements it, and it is not ``without_positions``.
    """

    name: str
    summary: str
    options: type | None = None
    augmentations: tuple[str, ...] = ()
    augmentation: str = "none"
    why_not: str = ""
    scalable: bool = False
    no_shift: str = ""
    absolute: bool = False
    learned_table: bool = False
    every_block: str = "it adds nothing to the input of a block"
    enters_blocks: Callable[[Any], bool] = lambda args: False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    encode: Callable[[Any, Stack, int], nn.Module | None] | None = None
    attention: Callable[[Any, Stack], AttentionPositions] | None = None
    flow: Callable[[Any, Stack], StackFlow] | None = None
    self_attention: Callable[[Any, int], dict[str, Any]] | None = None
    parameters: str = ""
    keeps: str = ""
    alone: Callable[[Any], bool] = lambda args: False
    idle: Callable[[Any], tuple[str, ...]] = lambda args: ()
    meaning: tuple[str, ...] = ()
    counts: str = ""
    resolve: Callable[[Any], None] | None = None
    check: Callable[[Any], None] | None = None
    check_kept: Callable[[Any, str, set[int]], None] | None = None
    keep: Callable[[Any, dict[str, Tensor], str, list[int]], None] | None = None
    vectors: Callable[[Any, Mapping[str, Tensor], str, int], Tensor] | None = None
    without_positions: bool = False

    def __post_init__(self) -> None:
        parts = (self.encode, self.attention, self.flow, self.self_attention)
        if not self.without_positions and not any(parts):
            raise TypeError(
                f"the encoding {self.name} has no implementation; give its row encode, attention, "
                "flow or self_attention"
            )
