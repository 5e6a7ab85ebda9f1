"""Options of ``positional_transformer`` beyond those of fairseq's ``transformer``, and their checks."""

# No "from __future__ import annotations": fairseq reads the types of the fields, not their names.
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.models.transformer import TransformerConfig, transformer_legacy

from cape_fairseq.positions.flow import SOLVERS

ENCODINGS = ("sinpos", "abspos", "nopos", "cape", "shape", "relpos", "rope", "alibi", "floater")
# admin-profiled: omegas come from the checkpoint; admin-first: only the first of each stack is left after folding.
RESIDUALS = ("default", "admin", "admin-profiled", "admin-first")
SINUSOIDAL = ("sinpos", "cape", "shape")


@dataclass
class PositionalTransformerConfig(TransformerConfig):
    """fairseq's Transformer options and those of the position encodings."""

    position_encoding: ChoiceEnum(list(ENCODINGS)) = field(
        default="sinpos",
        metadata={
            "help": "how tokens learn their position: sinpos (fixed sinusoids), abspos (a learned table of "
            "--max-source-positions and --max-target-positions), nopos (not at all), cape (sinusoids at "
            "continuously augmented positions), shape (sinusoids at shifted positions), relpos (learned "
            "vectors for clipped distances), rope (rotary), alibi (linear biases) or floater (learned dynamics)"
        },
    )
    position_augmentation: Optional[ChoiceEnum(["none", "cape", "shape"])] = field(
        default=None,
        metadata={
            "help": "how training moves positions (default: as the encoding is called for cape and shape, else "
            "none); rope and alibi take cape, whose local shifts and global scale mean something to them"
        },
    )
    position_layers: ChoiceEnum(["input", "all"]) = field(
        default="input",
        metadata={
            "help": "where positions are added: to the input only, or to the input of every block (sinpos, cape, "
            "shape: FLOATER, Eq. 7; abspos: a table for each block)"
        },
    )
    cape_global_shift: Optional[float] = field(
        default=None,
        metadata={"help": "CAPE: Delta_max, largest shift of a whole sentence pair (default: 5; 0 for rope and alibi)"},
    )
    cape_local_shift: float = field(
        default=0.5,
        metadata={
            "help": "CAPE: epsilon_max, largest shift of a single token; 0.5 keeps the order of tokens "
            "(of source tokens if --source-scale is at least 1)"
        },
    )
    cape_global_scale: float = field(
        default=1.0, metadata={"help": "CAPE: lambda_max >= 1, largest stretch of a whole sentence pair"}
    )
    cape_mean_normalize: bool = field(
        default=False,
        metadata={"help": "CAPE: take the mean source position off both sides (the papers' MT runs do not)"},
    )
    cape_allow_reordering: bool = field(
        default=False, metadata={"help": "CAPE: accept a --cape-local-shift above 0.5, which can swap tokens"}
    )
    source_scale: Optional[str] = field(
        default=None,
        metadata={
            "help": "factor on the distance of a source token from the first one: a number, or auto for target "
            "tokens / source tokens of the training data (default: auto for cape, 1 elsewhere)"
        },
    )
    source_bos: Optional[ChoiceEnum(["on", "off"])] = field(
        default=None,
        metadata={"help": "put a begin-of-sentence token before the source (default: on for cape, off elsewhere)"},
    )
    residual_init: ChoiceEnum(list(RESIDUALS)) = field(
        default="default",
        metadata={
            "help": "admin: weight the residuals of a post-norm model, from a profile of its first sentences, so that "
            "very deep ones train (the other values are written to checkpoints)"
        },
    )
    shape_max_shift: int = field(
        default=500, metadata={"help": "SHAPE: K, largest shift; shifts are integers from 0 to K"}
    )
    relpos_max_distance: int = field(
        default=150, metadata={"help": "relpos: distances beyond this many tokens share one vector"}
    )
    relpos_layers: ChoiceEnum(["all", "first"]) = field(
        default="all", metadata={"help": "relpos: in every self-attention, or in the first of each stack only"}
    )
    relpos_terms: ChoiceEnum(["keys", "keys+values"]) = field(
        default="keys+values", metadata={"help": "relpos: what the vectors are added to"}
    )
    floater_form: ChoiceEnum(["bias", "additive"]) = field(
        default="bias",
        metadata={
            "help": "FLOATER: sinusoids at the input and position-dependent biases of queries, keys and values, which "
            "can start from a plain Transformer (Eqs. 12-13), or vectors added to the input of blocks (Eq. 8)"
        },
    )
    floater_layers: ChoiceEnum(["all", "input"]) = field(
        default="all", metadata={"help": "FLOATER: at every block, or at the first of each stack only"}
    )
    floater_dynamics: ChoiceEnum(["ode", "rnn-scalar", "rnn2-scalar", "rnn-vector"]) = field(
        default="ode", metadata={"help": "FLOATER: what moves positions on, the paper's h or an RNN of its Table 6"}
    )
    floater_init_scale: Optional[float] = field(
        default=None,
        metadata={"help": "FLOATER: size of the initial dynamics (default: 0.03 for bias, 1 for additive)"},
    )
    floater_step: float = field(default=0.1, metadata={"help": "FLOATER: Delta, time from one token to the next"})
    floater_solver: ChoiceEnum(list(SOLVERS)) = field(
        default="rk4", metadata={"help": "FLOATER: a method of torchdiffeq"}
    )
    floater_solver_steps: float = field(
        default=0.5,
        metadata={
            "help": "FLOATER: steps of a fixed-step solver from one token to the next, a whole number, or 1 / n for "
            "one step over n tokens with cubic interpolation between"
        },
    )
    floater_gradient: ChoiceEnum(["backprop", "adjoint"]) = field(
        default="backprop", metadata={"help": "FLOATER: gradients through the solver, or by the adjoint equation"}
    )
    floater_refresh: int = field(
        default=1, metadata={"help": "FLOATER: solve every N updates of training and keep the vectors in between"}
    )
    floater_update_interval: int = field(
        default=1, metadata={"help": "FLOATER: update the dynamics every N updates only"}
    )
    floater_lr_scale: float = field(
        default=1.0, metadata={"help": "FLOATER: learning rate of the dynamics / that of the rest (with Adam)"}
    )
    floater_freeze: ChoiceEnum(["none", "dynamics", "transformer"]) = field(
        default="none", metadata={"help": "FLOATER: what is not trained"}
    )


def base_architecture(args: Any) -> None:
    """fairseq's base Transformer, and this module's options, wherever ``args`` leaves one open.

    All of them are filled in, so that a checkpoint holds its settings whatever later defaults are.
    """
    transformer_legacy.base_architecture(args)
    for side in ("source", "target"):
        if getattr(args, f"max_{side}_positions", None) is None:
            setattr(args, f"max_{side}_positions", transformer_legacy.DEFAULT_MAX_SOURCE_POSITIONS)
    inherited = {f.name for f in fields(TransformerConfig)}
    for option in fields(PositionalTransformerConfig):
        if option.name not in inherited and getattr(args, option.name, None) is None:
            setattr(args, option.name, None if option.default is MISSING else option.default)
    encoding = args.position_encoding
    if args.position_augmentation is None:
        args.position_augmentation = encoding if encoding in ("cape", "shape") else "none"
    if args.cape_global_shift is None:
        args.cape_global_shift = 0.0 if encoding in ("rope", "alibi") else 5.0
    if args.floater_init_scale is None:
        args.floater_init_scale = 0.03 if args.floater_form == "bias" else 1.0
    if args.source_bos is None:
        args.source_bos = "on" if encoding == "cape" else "off"
    elif isinstance(args.source_bos, bool):  # on and off in YAML
        args.source_bos = "on" if args.source_bos else "off"
    if args.source_scale is None:
        args.source_scale = "auto" if encoding == "cape" else "1"
