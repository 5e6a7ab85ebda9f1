"""FLOATER: positions that follow a learned dynamical system (Liu et al. 2020)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cape_fairseq.modules.plan import AttentionBiases
from cape_fairseq.options import require, require_value, select_options
from cape_fairseq.positions.base import (
    ENCODINGS,
    LayerBiases,
    PositionEncoding,
    Side,
    register_encoding,
)
from cape_fairseq.positions.floater_dynamics import build_dynamics, solve_rk4
from cape_fairseq.positions.floater_options import FloaterConfig, validate_solver
from cape_fairseq.positions.layout import Layout

SELF_ATTENTION = ("query", "key", "value")
CROSS_ATTENTION = ("cross_query", "cross_key", "cross_value")
ALONG_SOURCE = ("cross_key", "cross_value")  # of a decoder; the others run along its own tokens
OWN_TOKENS, SOURCE_TOKENS = 0, 1  # rows of length_counts
MAX_COUNTED = 4096  # the last count is that of all longer texts
QUANTILE = 0.999
MIN_SOLVED = 128


class VectorCache:
    """The vectors of a solution, [L, count, C], until the parameters are others or a text is
    longer."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the vectors. fairseq's optimizers change parameters without a new version."""
        self.versions, self.vectors = None, None

    @torch.no_grad()
    def get(self, module: nn.Module, length: int, solve: Callable[[], Tensor]) -> Tensor:
        """Return the vectors of the parameters of a module, solved again if need be."""
        versions = list_versions(module)
        if self.versions != versions or len(self.vectors) < length:
            self.versions, self.vectors = versions, solve()
        return self.vectors


def list_versions(module: nn.Module) -> list[Any]:
    """Return what changes when the parameters of a module are loaded, converted or moved."""
    parameters = list(module.parameters())
    versions = [0 if p.is_inference() else p._version for p in parameters]
    return [*versions, *((id(p), p.dtype, p.device) for p in parameters)]


@register_encoding("floater", FloaterConfig)
class FLOATER(PositionEncoding):
    """Vectors p(t) with dp/dt = h(t, p), read at t = 0, Delta, 2 Delta, ... (Eq. 8).

    In the bias form (Eqs. 12-13) p(t) - p(0) is a bias of queries, keys and values in every
    attention, beside ``base_encoding``, which computes all else (``PositionalSide.base_encoding``).
    In the additive form p(t) is added to the input of layers. In the bias form h starts with a zero
    output, so that a new model equals its base encoding at any length.
    """

    description = "vectors of a learned dynamical system, as biases of attention or added to layers"
    paper = "https://arxiv.org/abs/2003.09229"

    def __init__(
        self,
        side: Side,
        config: FloaterConfig | None = None,
        base_encoding: PositionEncoding | None = None,
    ) -> None:
        super().__init__(side, config)
        config = self.config
        self.is_bias = config.floater_form == "bias"
        self.base_encoding = base_encoding or self.find_base(config)(side)
        is_decoder = side.name == "decoder"
        cross = CROSS_ATTENTION if is_decoder else ()
        self.names = (*SELF_ATTENTION, *cross) if self.is_bias else ("input",)
        self.layers = side.layers if config.floater_layers == "all" else 1
        # A recurrence leaves its initial vector at once, so that biases must begin at zero.
        from_zero = self.is_bias and config.floater_dynamics != "ode"
        initial = torch.zeros if from_zero else torch.randn
        shape = self.layers * len(self.names), side.dim
        self.initial = nn.Parameter(initial(shape) * side.dim**-0.5)
        self.dynamics = build_dynamics(config, side.dim, zero_output=self.is_bias)
        # Lengths of training: those of the side and, in a decoder, those of the source.
        counts = torch.zeros(1 + is_decoder, MAX_COUNTED, dtype=torch.long)
        self.register_buffer("length_counts", counts)
        self.evaluated = VectorCache()  # with --floater-beyond
        self.refreshed = VectorCache()  # of training, from one refresh to the next
        self.prepared: Tensor | None = None  # of the batch that the model runs on
        self.num_updates = 0

    @classmethod
    def build(cls, options: Any, side: Side) -> "FLOATER":
        config = select_options(cls.config_class, options)
        return cls(side, config, cls.find_base(options).build(options, side))

    @classmethod
    def find_base(cls, options: Any) -> type[PositionEncoding]:
        is_bias = getattr(options, "floater_form", None) != "additive"
        base = getattr(options, "floater_base_encoding", None) or "sinpos"
        return ENCODINGS.get(base if is_bias else "nopos", cls)

    @classmethod
    def validate(cls, config: FloaterConfig) -> None:
        base = config.floater_base_encoding
        names = [name for name in ENCODINGS if name != "floater"]
        require(base in names, "floater_base_encoding", base, " or ".join(names))
        if config.floater_form == "additive":
            require_value(config, "floater_base_encoding", "sinpos", "the form additive has none")
        validate_solver(config)

    def embed(self, positions: Tensor, length: int | None = None) -> list[Tensor]:
        if self.is_bias:
            return self.base_encoding.embed(positions, length)
        vectors = self.solve(length or positions.size(1))
        return [read(layer, positions).transpose(0, 1) for layer in vectors.unbind(1)]

    def attention_biases(
        self, index: Tensor, source_index: Tensor | None, length: int
    ) -> list[LayerBiases]:
        if not self.is_bias:
            return []
        vectors = self.solve(length).unflatten(1, (self.layers, len(self.names)))
        return [self.read_biases(layer, index, source_index) for layer in vectors.unbind(1)]

    def read_biases(
        self, vectors: Tensor, index: Tensor, source_index: Tensor | None
    ) -> LayerBiases:
        """Read the biases of one layer from its vectors [L, names, C]."""
        biases = []
        for number, name in enumerate(self.names):
            along = source_index if name in ALONG_SOURCE else index
            biases.append(None if along is None else read(vectors[:, number], along))
        return LayerBiases(AttentionBiases(*biases[:3]), AttentionBiases(*biases[3:]))

    def count_lengths(self, *layouts: Layout) -> None:
        self.evaluated.clear()  # it depends on the lengths
        for counts, layout in zip(self.length_counts, layouts, strict=False):
            lengths = (~layout.padding).sum(1).clamp(max=MAX_COUNTED - 1)
            counts.scatter_add_(0, lengths, torch.ones_like(lengths))

    def solve(self, length: int) -> Tensor:
        """Return the vectors of tokens 0, 1, ..., ``length`` - 1 at least, float32 [L, count, C].

        In training they are solved with a gradient every ``--floater-refresh`` updates. In
        evaluation without gradients they are cached until a parameter changes; tokens beyond the
        lengths of training have the last vector of training by default.
        """
        if self.training:
            return self.solve_in_training(length)
        if torch.is_grad_enabled() and self.initial.requires_grad:
            return self.solve_in_evaluation(length)
        size = max(MIN_SOLVED, 2 ** math.ceil(math.log2(length)))
        return self.evaluated.get(self, length, lambda: self.solve_in_evaluation(size))

    def solve_in_evaluation(self, size: int) -> Tensor:
        """Solve for ``size`` tokens; those beyond the lengths of training have the last vector."""
        trained = self.count_trained_tokens(size)
        is_cpu = trained.device.type == "cpu"  # a GPU would have to wait for the answer
        vectors = self.integrate(int(trained.max()) if is_cpu else size)
        index = torch.minimum(torch.arange(size, device=vectors.device)[:, None], trained - 1)
        return vectors.gather(0, index[:, :, None].expand(-1, -1, vectors.size(2)))

    def solve_in_training(self, length: int) -> Tensor:
        """Solve for a batch. Between refreshes the dynamics stand still (section 4.4), and their
        vectors are solved once, without a gradient."""
        if self.is_refreshed:
            self.evaluated.clear()  # this update changes the parameters
            self.refreshed.clear()
            prepared, self.prepared = self.prepared, None
            return self.integrate(length) if prepared is None else prepared
        vectors = self.refreshed.get(self, length, lambda: self.integrate(length))
        # Parameters without a gradient would stop PyTorch's DDP.
        return vectors + sum(unused.sum() * 0.0 for unused in self.list_held_parameters())

    def prepare(self, decoder: "FLOATER", length: int) -> None:
        sides = self, decoder
        for side in sides:  # of a batch that failed between encoder and decoder
            side.prepared = None
        has_rk4 = self.config.floater_dynamics == "ode" and self.dynamics.is_rk4
        has_same_width = self.side.dim == decoder.side.dim
        if not (has_rk4 and has_same_width and self.is_refreshed and length > 1):
            return  # each side solves when it is asked
        initials = [side.compute_initial() for side in sides]
        with torch.autocast(self.initial.device.type, enabled=False):
            solutions = solve_rk4([side.dynamics for side in sides], initials, length)
        for side, initial, vectors in zip(sides, initials, solutions, strict=True):
            side.prepared = vectors - initial if side.is_bias else vectors

    @property
    def is_refreshed(self) -> bool:
        """Return whether this update changes the dynamics."""
        return self.num_updates % self.config.floater_refresh == 0

    def list_held_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that this update must not change."""
        return [] if self.is_refreshed else [self.initial, *self.dynamics.parameters()]

    def integrate(self, length: int) -> Tensor:
        """Solve for tokens 0, 1, ..., in float32: [length, count, C]."""
        initial = self.compute_initial()
        with torch.autocast(initial.device.type, enabled=False):
            vectors = self.dynamics(initial, length)
        return vectors - initial if self.is_bias else vectors

    def compute_initial(self) -> Tensor:
        """Return the initial vectors, in float32 at least: [count, C]."""
        return self.initial.to(torch.promote_types(self.initial.dtype, torch.float32))

    def count_trained_tokens(self, size: int) -> Tensor:
        """Return how many tokens, up to ``size``, have vectors of their own: int64 [count].

        By default it is the 99.9th percentile of the lengths of training.
        """
        counts = self.length_counts
        total = counts.sum(1)
        longest = (counts.cumsum(1) >= QUANTILE * total[:, None]).int().argmax(1)
        has_limit = (total > 0) & (longest < MAX_COUNTED - 1)
        if self.config.floater_beyond == "continue":
            has_limit = torch.zeros_like(has_limit)
        trained = torch.where(has_limit, longest, size).clamp(1, size)
        rows = [SOURCE_TOKENS if name in ALONG_SOURCE else OWN_TOKENS for name in self.names]
        return trained[rows].repeat(self.layers)

    def share_parameters(self, encoder: PositionEncoding) -> None:
        if self.config.floater_share == "both":
            has_same_width = encoder.side.dim == self.side.dim
            expected = "side: encoder and decoder have different widths"
            require(has_same_width, "floater_share", "both", expected)
            self.dynamics = encoder.dynamics

    def set_num_updates(self, num_updates: int) -> None:
        """Remember the number of updates; fairseq calls this after each."""
        self.num_updates = num_updates


def read(vectors: Tensor, index: Tensor) -> Tensor:
    """Read the vectors [L, C] of tokens [B or 1, T]: [T, B or 1, C]. Padding before a text has the
    first one."""
    return F.embedding(index.clamp(0, len(vectors) - 1).long().t(), vectors)
