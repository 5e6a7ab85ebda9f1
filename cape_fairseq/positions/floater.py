"""FLOATER: positions that follow a learned dynamical system (Liu et al. 2020)."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.options import require
from cape_fairseq.positions.base import ENCODINGS, PositionEncoding, Side, register_encoding
from cape_fairseq.positions.floater_dynamics import FloaterConfig, build_dynamics

SELF = ("query_bias", "key_bias", "value_bias")
CROSS_QUERY = ("cross_query_bias",)  # runs along the target
CROSS_KEYS = ("cross_key_bias", "cross_value_bias")  # run along the source
BASE_HOOKS = ("sample", "summarize", "augment", "rotation", "score_bias", "build_attention")
BASE_PROPERTIES = ("samples_noise", "relative", "rotates_cross_attention", "max_length")
MAX_COUNTED = 4096  # the last count is that of all longer sentences
QUANTILE = 0.999
MIN_SOLVED = 128


@register_encoding("floater", FloaterConfig)
class FLOATER(PositionEncoding):
    """Vectors p(t) with dp/dt = h(t, p), read at t = 0, Delta, 2 Delta, ... (Eq. 8).

    In the bias form (Eqs. 12-13) p(t) - p(0) is a bias of queries, keys and values in every
    attention, beside the positions of ``base``, whose hooks are called unchanged. In the additive
    form p(t) is added to the input of layers. Vectors run along the token index. In the bias form h
    starts with a zero output, so that a new model equals its base at any length.
    """

    description = "vectors of a learned dynamical system, as biases of attention or added to layers"
    paper = "https://arxiv.org/abs/2003.09229"
    base_option = "floater_base_encoding"

    def __init__(self, cfg: Any, side: Side) -> None:
        super().__init__(cfg, side)
        self.is_bias = cfg.floater_form == "bias"
        self.base = self.find_base(cfg)(cfg, side)
        for name in (*BASE_HOOKS, *BASE_PROPERTIES):
            setattr(self, name, getattr(self.base, name))
        cross = (*CROSS_QUERY, *CROSS_KEYS) if side.name == "decoder" else ()
        self.names = (*SELF, *cross) if self.is_bias else ("input",)
        self.layers = side.layers if cfg.floater_layers == "all" else 1
        # A recurrence leaves its initial vector at once, so that biases must begin at zero.
        from_zero = self.is_bias and cfg.floater_dynamics != "ode"
        initial = torch.zeros if from_zero else torch.randn
        shape = self.layers * len(self.names), side.dim
        self.initial = nn.Parameter(initial(shape) * side.dim**-0.5)
        self.dynamics = build_dynamics(cfg, side.dim, zero_output=self.is_bias)
        # Lengths of training: those of the side and, in a decoder, those of the source.
        counts = torch.zeros(1 + bool(cross), MAX_COUNTED, dtype=torch.long)
        self.register_buffer("length_counts", counts)
        self.cache: tuple[Any, Tensor] | None = None
        self.num_updates = 0

    @classmethod
    def find_base(cls, cfg: Any) -> type[PositionEncoding]:
        is_bias = getattr(cfg, "floater_form", None) != "additive"
        base = getattr(cfg, "floater_base_encoding", None) or "sinpos"
        return ENCODINGS.get(base if is_bias else "nopos", cls)

    @classmethod
    def validate(cls, cfg: Any) -> None:
        base = cfg.floater_base_encoding
        names = [name for name in ENCODINGS if name != "floater"]
        require(base in names, "floater_base_encoding", base, " or ".join(names))
        steps = max(cfg.floater_solver_steps, 1 / cfg.floater_solver_steps)
        expected = "a whole number, or 1 / a whole number"
        given = cfg.floater_solver_steps
        require(abs(steps - round(steps)) < 1e-6, "floater_solver_steps", given, expected)

    def embed(self, positions: Tensor) -> list[Tensor]:
        if self.is_bias:
            return self.base.embed(positions)
        vectors = self.solve(positions)
        return [
            gather(vectors[:, layer], positions).transpose(0, 1) for layer in range(self.layers)
        ]

    def attention_biases(
        self, numbers: Tensor, source_numbers: Tensor | None = None
    ) -> list[dict[str, Tensor]]:
        if not self.is_bias:
            return []
        sequences = dict.fromkeys((*SELF, *CROSS_QUERY), numbers)
        if source_numbers is not None:
            sequences |= dict.fromkeys(CROSS_KEYS, source_numbers)
        vectors = iter(self.solve(*sequences.values()).unbind(1))
        biases = []
        for _ in range(self.layers):
            layer = dict(zip(self.names, vectors, strict=False))
            biases.append({n: gather(layer[n], sequences[n]) for n in self.names if n in sequences})
        return biases

    def count_lengths(self, *padding_masks: Tensor) -> None:
        for counts, mask in zip(self.length_counts, padding_masks, strict=False):
            lengths = (~mask).sum(1).clamp(max=MAX_COUNTED - 1)
            counts.scatter_add_(0, lengths, torch.ones_like(lengths))

    def solve(self, *numbers: Tensor) -> Tensor:
        """Return the vectors of positions 0, 1, ..., float32 [L, count, C], for token numbers.

        In training they are solved every ``--floater-refresh`` updates. In evaluation they are
        cached until a parameter changes; positions beyond the lengths of training reuse the last
        vector of training by default.
        """
        if self.training:
            return self.solve_in_training(max(n.size(1) for n in numbers))
        length = max(int(n.max()) for n in numbers) + 1
        key = [(p.data_ptr(), p._version, p.dtype) for p in self.parameters()]
        if self.cache is None or self.cache[0] != key or len(self.cache[1]) < length:
            size = max(MIN_SOLVED, 2 ** math.ceil(math.log2(length)))
            ends = self.compute_ends(size)
            with torch.no_grad():
                vectors = self.integrate(int(ends.max()))
            index = torch.minimum(torch.arange(size, device=vectors.device)[:, None], ends - 1)
            index = index[:, :, None].expand(-1, -1, vectors.size(2))
            self.cache = key, vectors.gather(0, index)
        return self.cache[1]

    def solve_in_training(self, length: int) -> Tensor:
        """Solve for a batch, or reuse the vectors of the last refresh without a gradient."""
        refresh = self.cfg.floater_refresh
        if self.num_updates % refresh == 0:
            vectors = self.integrate(length)
            self.cache = ("refresh", vectors.detach()) if refresh > 1 else None
            return vectors
        if self.cache is None or self.cache[0] != "refresh" or len(self.cache[1]) < length:
            with torch.no_grad():
                self.cache = "refresh", self.integrate(length)
        # Parameters without a gradient would stop PyTorch's DDP.
        unused = [self.initial, *self.dynamics.parameters()]
        return self.cache[1] + sum(parameter.sum() * 0.0 for parameter in unused)

    def integrate(self, length: int) -> Tensor:
        """Solve for positions 0, 1, ..., in float32: [length, count, C]."""
        initial = self.initial.to(torch.promote_types(self.initial.dtype, torch.float32))
        with torch.autocast(initial.device.type, enabled=False):
            vectors = self.dynamics(initial, length)
        return vectors - initial if self.is_bias else vectors

    def compute_ends(self, length: int) -> Tensor:
        """Return the number of positions with a vector of their own, for each vector: [count].

        By default it is the 99.9th percentile of the lengths of training.
        """
        counts = self.length_counts
        total = counts.sum(1)
        reached = (counts.cumsum(1) >= QUANTILE * total[:, None]).int().argmax(1)
        is_known = (total > 0) & (reached < MAX_COUNTED - 1)
        if self.cfg.floater_beyond == "continue":
            is_known[:] = False
        ends = torch.where(is_known, reached, length).clamp(1, length)
        return ends[[int(name in CROSS_KEYS) for name in self.names * self.layers]]

    def share_parameters(self, encoder: PositionEncoding) -> None:
        if self.cfg.floater_share == "both":
            self.dynamics = encoder.dynamics

    def set_num_updates(self, num_updates: int) -> None:
        """fairseq calls this after every update."""
        self.num_updates = num_updates


def gather(vectors: Tensor, numbers: Tensor) -> Tensor:
    """Return the vectors [L, C] of token numbers [B or 1, T]: [T, B or 1, C]."""
    return F.embedding(numbers.clamp(min=0).long().t(), vectors)
