"""FLOATER in a stack of blocks: which trajectory goes where (Liu et al. 2020, sections 3.1-3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.models.config import PositionalTransformerConfig
from cape_fairseq.positions.flow import Solver
from cape_fairseq.positions.trajectories import Trajectories

ENCODER_BIASES = ("query_bias", "key_bias", "value_bias")
# Along target positions, and along source positions.
DECODER_BIASES = (*ENCODER_BIASES, "cross_query_bias")
SOURCE_BIASES = ("cross_key_bias", "cross_value_bias")
INPUT = ("input",)


def trajectory_options(cfg: Any) -> dict[str, Any]:
    """Arguments of :class:`Trajectories` from a model's options."""
    return {
        "kind": cfg.floater_dynamics,
        "init_scale": cfg.floater_init_scale,
        "initial_scale": 0.0 if cfg.floater_form == "bias" else 1.0,
        "solver": Solver(cfg.floater_solver, cfg.floater_step, cfg.floater_solver_steps, cfg.floater_gradient),
        "refresh": cfg.floater_refresh,
        "update_interval": cfg.floater_update_interval,
        "lr_scale": cfg.floater_lr_scale,
    }


class StackFlow(Trajectories):
    """The trajectories of an encoder or a decoder: one for each name in each block that has positions."""

    def __init__(self, cfg: PositionalTransformerConfig, dim: int, blocks: int, names: Sequence[str]) -> None:
        self.names = tuple(names) if cfg.floater_form == "bias" else INPUT
        self.blocks = blocks if cfg.floater_layers == "all" else 1
        super().__init__(dim, self.blocks * len(self.names), **trajectory_options(cfg))

    def for_blocks(self, places: dict[str, Places]) -> list[dict[str, Tensor]]:
        """Solve for a batch: what each block gets by name, [T or S, B or 1, d]; names without places are left out."""
        # One view of each; slices would each make a gradient of the size of them all.
        trajectories = self(max(place.length for place in places.values())).unbind(1)
        named = [(i, name) for i, name in enumerate(self.names) if name in places]
        return [
            {name: places[name].take(trajectories[block * len(self.names) + i]) for i, name in named}
            for block in range(self.blocks)
        ]


class Places:
    """Which positions the tokens of a padded batch have, counted from 0."""

    def __init__(self, padding_mask: Tensor, last_only: bool = False) -> None:
        """padding_mask: bool [B, T], True at padding; ``last_only``: for the last token of each row alone."""
        self.length = padding_mask.size(1)
        self.new = slice(self.length - 1 if last_only else 0, self.length)
        # On the right, padding comes after all that counts; on the left it moves each row's tokens.
        left = bool(padding_mask[:, 0].any())
        self.index = ((~padding_mask).cumsum(1) - 1).clamp(min=0).t()[self.new] if left else None

    def take(self, trajectory: Tensor) -> Tensor:
        """[L, d] -> [T, B or 1, d]."""
        if self.index is None:
            return trajectory[self.new].unsqueeze(1)
        return F.embedding(self.index, trajectory)  # several times as fast as indexing


class BlockPositions:
    """What the blocks of a stack get from positions, for one batch."""

    def __init__(
        self, encodings: nn.ModuleList | None, positions: Tensor, flow: list[dict[str, Tensor]] | None = None
    ) -> None:
        """encodings: of the blocks after the first; positions: [B, T]; flow: of :meth:`StackFlow.for_blocks`."""
        self.encodings = encodings
        self.positions = positions
        self.flow = flow or []

    def enter(self, x: Tensor, block: int) -> Tensor:
        """Add positions to the input [T, B, C] of a block, counted from 1, where it has any."""
        if self.encodings is not None and block > 1:
            return x + self.encodings[block - 2](self.positions).transpose(0, 1).type_as(x)
        added = self.flow[block - 1].get("input") if block <= len(self.flow) else None
        return x if added is None else x + added.type_as(x)

    def biases(self, block: int) -> dict[str, Tensor]:
        """Biases of the attentions of a block."""
        found = self.flow[block - 1] if block <= len(self.flow) else {}
        return {name: value for name, value in found.items() if name != "input"}


def build_flow(cfg: PositionalTransformerConfig, dim: int, blocks: int, names: Sequence[str]) -> StackFlow | None:
    """The trajectories of a stack, for ``--position-encoding floater``."""
    return StackFlow(cfg, dim, blocks, names) if cfg.position_encoding == "floater" else None


def freeze(model: nn.Module, what: str) -> None:
    """``--floater-freeze``: keep the ``dynamics``, or all but FLOATER's own parameters, as they are."""
    for name, parameter in model.named_parameters():
        if what == "dynamics":
            parameter.requires_grad_(".flow.dynamics." not in f".{name}")
        elif what == "transformer":
            parameter.requires_grad_(".flow." in f".{name}")
