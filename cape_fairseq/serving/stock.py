"""Export a trained model as fairseq's own ``transformer``, with tables of positions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from cape_fairseq.checkpoints.folding import enters_blocks
from cape_fairseq.checkpoints.reading import read, write
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UserError
from cape_fairseq.files import copy, new_folder
from cape_fairseq.models.loading import load
from cape_fairseq.positions.attention import AttentionPositions
from cape_fairseq.serving.agreement import Difference, compare
from cape_fairseq.serving.fairseq_engine import FairseqEngine
from cape_fairseq.serving.loading import (
    EXPORTED,
    check_dictionary,
    find_dictionaries,
    stored_settings,
)
from cape_fairseq.serving.tables import position_table
from cape_fairseq.serving.text import TextSettings

# What our stacks have beside fairseq's parameters; the table takes its place.
OWN = ("embed_positions.", "flow.", "source_scale")
TOLERANCE = 1e-4  # of a log-probability, float32
HALF_TOLERANCE = 0.1


class Trained:
    """A checkpoint to export, with what belongs to it.

    Args:
        path: the checkpoint.
        data: folder with the dictionaries (default: beside it, or where it was trained).

    Raises:
        UserError: it cannot be loaded, or something is missing.
    """

    def __init__(self, path: Path, data: Path | None) -> None:
        self.path = path
        self.state = read(path)
        self.settings = stored_settings(path, self.state, None)
        if self.settings.source_bos:
            raise UserError(
                f"{path} was exported, and its input has a begin of sentence that its settings put "
                "there; export the checkpoint that it was made of"
            )
        self.data = find_dictionaries(path, self.state, self.settings, data)
        check_dictionary(self.settings, self.data)
        pair = self.settings.source, self.settings.target
        self.model, self.task = load(path, self.data, pair)
        self.options: Namespace = self.model.args

    @property
    def codes(self) -> Path | None:
        return self.path.parent / self.settings.codes if self.settings.codes else None

    @property
    def words(self) -> list[list[str]]:
        """What sentences are made of, in both languages."""
        sides = (self.task.source_dictionary, self.task.target_dictionary)
        return [side.symbols[side.nspecial :] for side in sides]

    def exported_settings(self, positions: int) -> TextSettings:
        """Settings of the exported model, whose input has the begin of sentence in it."""
        bos = self.options.source_bos == "on"
        return replace(self.settings, source_bos=bos, max_positions=positions)

    def difference(self, other: Any, positions: int) -> Difference:
        """From an exported model, up to the end of its table."""
        pair = self.settings.source, self.settings.target
        own = FairseqEngine([self.state], self.data, pair, longest=positions, cpu=True)
        return compare(own, other, self.words, positions - 1)

    @property
    def acts_in_attention(self) -> bool:
        """Whether positions give anything to the self-attention."""
        stack = self.model.encoder
        scores = type(stack.positions.attention) is not AttentionPositions
        return scores or any(layer.self_attn.relative_keys is not None for layer in stack.layers)

    def check(self, stock: bool = True) -> None:
        """
        Raises:
            UserError: the model has parts that other systems do not have; ``stock``: positions
                that do not enter at the input alone.
        """
        options, row = self.options, ENCODINGS[self.options.position_encoding]
        biases = row.flow is not None and options.floater_form != "additive"
        if biases or (stock and self.acts_in_attention):
            raise UserError(
                f"{self.path} has {row.name}, which acts in the attention; a table of positions "
                "acts at the input, so that only sinpos, abspos, nopos, cape, shape and additive "
                "floater at the input can be exported so"
            )
        if enters_blocks(options):
            raise UserError(
                f"{self.path} adds positions to the input of every block, and other systems only "
                "to that of the first; train with positions at the input to export"
            )
        if options.residual_init != "default":
            raise UserError(
                f"{self.path} has ADMIN's residual weights, which other systems do not have; fold "
                "them first: cape-fairseq fold-admin"
            )
        if getattr(options, "no_cross_attention", False):
            raise UserError(f"{self.path} has no cross-attention, which other systems need")


def stock_options(options: Namespace, settings: TextSettings) -> Namespace:
    """Of the same model as fairseq's ``transformer`` with learned positions."""
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, TransformerConfig(), delete_default=True, with_prefix="")
    known = {action.dest for action in parser._actions}
    kept = {name: value for name, value in vars(options).items() if name in known}
    kept |= {"encoder_learned_pos": True, "decoder_learned_pos": True}
    kept |= {"no_token_positional_embeddings": False}
    extra = 1 if settings.source_bos else 0
    kept |= {"max_source_positions": settings.max_positions + extra}
    kept |= {"max_target_positions": settings.max_positions}
    task = {"task": "translation", "source_lang": settings.source, "target_lang": settings.target}
    rest = {"criterion": "cross_entropy", "data": ""}
    return Namespace(arch="transformer", left_pad_source=True, **task, **rest, **kept)


def stock_state(model: nn.Module, settings: TextSettings) -> dict[str, Tensor]:
    """Parameters by fairseq's names."""
    state = dict(model.state_dict())
    for side in ("encoder", "decoder"):
        stack = getattr(model, side)
        extra = 1 if side == "encoder" and settings.source_bos else 0
        table = position_table(stack, settings.max_positions + extra)
        begins = tuple(f"{side}.{name}" for name in OWN)
        state = {name: value for name, value in state.items() if not name.startswith(begins)}
        # fairseq counts positions from the index after that of padding.
        unused = table.new_zeros(stack.padding_idx + 1, table.size(1))
        state[f"{side}.embed_positions.weight"] = nn.functional.pad(table, (0, 0, len(unused), 0))
    return state


def export(
    path: Path,
    output: Path,
    positions: int,
    data: Path | None = None,
    half: bool = False,
    tolerance: float | None = None,
) -> Difference:
    """Write a folder with the model, its dictionaries, codes and settings.

    Args:
        path: a checkpoint.
        output: a folder that is not there yet.
        positions: tokens of the longest text, its end mark included.
        data: folder with the dictionaries.
        half: whether parameters are stored in half precision.
        tolerance: the most that a log-probability may differ.

    Raises:
        UserError: the model cannot be exported, differs from it, or the folder is there already.
    """
    with new_folder(output) as temporary:
        trained = Trained(path, data)
        trained.check()
        settings = trained.exported_settings(positions)
        checkpoint = stock_checkpoint(trained, settings, half)
        pair = settings.source, settings.target
        engine = FairseqEngine([checkpoint], trained.data, pair, settings.source_bos, cpu=True)
        found = trained.difference(engine, positions)
        usual = HALF_TOLERANCE if half else TOLERANCE
        refuse_different(path, found, usual if tolerance is None else tolerance)
        for name in {f"dict.{language}.txt" for language in pair}:
            copy(trained.data / name, temporary / name)
        settings.write(temporary, trained.codes)
        write(checkpoint, temporary / EXPORTED)
    return found


def stock_checkpoint(trained: Trained, settings: TextSettings, half: bool) -> dict[str, Any]:
    """As fairseq stores one after training, without the optimizer."""
    state = stock_state(trained.model, settings)
    if half:
        state = {n: x.half() if x.is_floating_point() else x for n, x in state.items()}
    return {
        "args": stock_options(trained.options, settings),
        "cfg": None,
        "model": state,
        "optimizer_history": [{"num_updates": 0, "criterion_name": "", "lr_scheduler_state": {}}],
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": {"epoch": 1}},
    }


def refuse_different(path: Path, found: Difference, tolerance: float) -> None:
    """
    Raises:
        UserError: the exported model is not the model.
    """
    if not found.largest <= tolerance:
        raise UserError(
            f"{path} and its export differ by {found.largest:.2g} in the log-probability of a "
            f"token, more than {tolerance:.2g}; nothing was written. Export it in another form, or "
            "allow more with --tolerance"
        )
