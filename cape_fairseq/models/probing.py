"""Models as a probe needs them: loaded for evaluation, run with all positions shifted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from cape_fairseq.evaluation.invariance import similarity_sums
from cape_fairseq.evaluation.position_matrices import stock_encoding
from cape_fairseq.evaluation.runs import load_checkpoint
from cape_fairseq.models.checkpoints import model_options
from cape_fairseq.models.config import SINUSOIDAL
from cape_fairseq.models.positional_transformer import PositionalTransformer
from cape_fairseq.positions import SHAPE, Draw
from cape_fairseq.text.parallel import TextError

ABSOLUTE = (*SINUSOIDAL, "abspos")


class NotAbsoluteError(TextError):
    """A model has no absolute positions that could be shifted."""


def load(path: Path, data: Path) -> tuple[PositionalTransformer, Any]:
    """A checkpoint's model, ready for evaluation, and its task on the binarized data in ``data``.

    fairseq's own ``transformer`` becomes the equal model of this package.

    Raises:
        TextError: the checkpoint or the data are not there, or it is no Transformer.
        NotAbsoluteError: it has no absolute positions.
    """
    if not list(data.glob("dict.*.txt")):
        raise TextError(f"{data} has no dictionaries; give the folder that fairseq-preprocess wrote")
    state = load_checkpoint(path)
    options = Namespace(**vars(model_options(state)))
    if not hasattr(options, "position_encoding"):
        sides = {side: stock_encoding(options, side) for side in ("encoder", "decoder")}
        if len(set(sides.values())) > 1:
            raise NotAbsoluteError(
                f"{path} has {sides['encoder']} in the encoder and {sides['decoder']} in the decoder"
            )
        options.position_encoding = sides["encoder"]
        options.encoder_learned_pos = options.decoder_learned_pos = options.no_token_positional_embeddings = False
    if options.position_encoding not in ABSOLUTE:
        raise NotAbsoluteError(f"{path}: {options.position_encoding} has no absolute positions to shift")
    task = plain_task(state, data)
    try:
        model = PositionalTransformer.build_model(options, task)
        model.load_state_dict(state["model"], strict=True, model_cfg=options)
    except (AttributeError, RuntimeError) as error:
        raise TextError(f"{path} is no Transformer that fits {data}: {str(error).splitlines()[0]}") from None
    if not model.encoder.positions.augmentation.is_random:  # which would ignore a draw
        for side in (model.encoder, model.decoder):
            side.positions.augmentation = SHAPE(0)
    return model.eval(), task


def plain_task(state: dict[str, Any], data: Path) -> TranslationTask:
    """The task ``translation`` on the data, whatever the model was trained as: all models see the same sentences."""
    saved = state["cfg"]["task"] if state.get("cfg") else vars(state["args"])
    languages = {name: saved[name] for name in ("source_lang", "target_lang")}
    config = TranslationConfig(data=str(data), **languages)
    config.train_subset, config.dataset_impl, config.required_seq_len_multiple = "train", None, 1
    return TranslationTask.setup_task(config)


def check_reach(model: PositionalTransformer, lengths: tuple[int, int], offsets: Sequence[int], path: Path) -> None:
    """Check that the longest source and target can be shifted.

    Raises:
        TextError: an offset goes past the end of a learned table.
    """
    for side, length in zip((model.encoder, model.decoder), lengths, strict=True):
        if length + max(offsets) > side.max_positions():
            raise TextError(
                f"{path}: learned positions end at {side.max_positions()}, but the longest sentence has {length} "
                f"tokens and is shifted by {max(offsets)}; give smaller --offsets or fewer --sentences"
            )


@torch.no_grad()
def states(model: PositionalTransformer, net_input: dict[str, Tensor], offset: int) -> tuple[Tensor, Tensor, Tensor]:
    """Run a batch with all positions of both sides ``offset`` higher.

    Returns:
        states of the encoder [L + 1, B, S, C] and of the decoder [L + 1, B, T, C], the inputs of the first
        layer first, and bool [B, S], True at real source tokens.
    """
    shift = torch.full((len(net_input["src_tokens"]), 1), float(offset))
    encoded = model.encoder(net_input["src_tokens"], return_all_hiddens=True, draw=Draw(shift))
    _, extra = model.decoder(net_input["prev_output_tokens"], encoder_out=encoded, draw=Draw(shift))
    sides = (torch.stack(layers).transpose(1, 2) for layers in (encoded["encoder_states"], extra["inner_states"]))
    return (*sides, ~encoded["encoder_padding_mask"][0])


def batches(task: Any, subset: str, sentences: int, size: int = 16) -> Iterator[dict[str, Tensor]]:
    """The first ``sentences`` pairs of a split, in batches.

    Raises:
        TextError: there is no such split, or it is empty.
    """
    try:
        task.load_dataset(subset)
    except FileNotFoundError:
        raise TextError(f"{task.cfg.data} has no split {subset}; choose another with --subset") from None
    dataset = task.dataset(subset)
    count = min(sentences, len(dataset))
    if not count:
        raise TextError(f"the split {subset} in {task.cfg.data} is empty")
    for start in range(0, count, size):
        yield dataset.collater([dataset[i] for i in range(start, min(start + size, count))])["net_input"]


def similarities(
    model: PositionalTransformer, samples: Iterator[dict[str, Tensor]], offsets: Sequence[int], path: Path
) -> dict[str, Tensor]:
    """Mean cosine similarity of states between offsets, for each layer: side -> float64 [L + 1, N, N]."""
    sums: dict[str, Tensor | float] = {"encoder": 0.0, "decoder": 0.0}
    tokens = {"encoder": 0, "decoder": 0}
    for net_input in samples:
        lengths = tuple(net_input[name].size(1) for name in ("src_tokens", "prev_output_tokens"))
        check_reach(model, lengths, offsets, path)
        runs = [states(model, net_input, offset) for offset in offsets]
        real = {"encoder": runs[0][2], "decoder": net_input["prev_output_tokens"].ne(model.decoder.padding_idx)}
        for number, side in enumerate(sums):
            sums[side] = sums[side] + similarity_sums([run[number] for run in runs], real[side])
            tokens[side] += int(real[side].sum())
    return {side: total / tokens[side] for side, total in sums.items()}
