"""Models for evaluation, and their data, from a checkpoint and a folder of binarized text."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from cape_fairseq.checkpoints.reading import options_of, read, task_of
from cape_fairseq.errors import UserError, first_line
from cape_fairseq.models.adoption import STARTS
from cape_fairseq.models.positional_transformer import PositionalTransformer


def load(
    path: Path, data: Path, languages: tuple[str, str] | None = None
) -> tuple[PositionalTransformer, TranslationTask]:
    """A checkpoint's model, ready for evaluation, and its task on the binarized data in ``data``.

    fairseq's own ``transformer`` becomes the equal model of this project.

    Raises:
        UserError: the checkpoint or the data are not there, or it is no Transformer.
    """
    if not list(data.glob("dict.*.txt")):
        raise UserError(
            f"{data} has no dictionaries; give the folder that fairseq-preprocess wrote"
        )
    state = read(path)
    options = Namespace(**vars(options_of(state)))
    for name in STARTS:  # of its training; fairseq's own models would be taken for one that goes on
        vars(options).pop(name, None)
    with fitting(f"{path} is no Transformer that fits {data}"):
        task = plain_task(state, data, languages)
        model = PositionalTransformer.build_model(options, task)
        model.load_state_dict(state["model"], strict=True, model_cfg=options)
    return model.eval(), task


@contextmanager
def fitting(failure: str) -> Iterator[None]:
    """While a stored model is built for some data.

    Raises:
        UserError: with ``failure`` and its reason, whichever of its many kinds of errors fairseq
            raised.
    """
    try:
        yield
    except Exception as error:
        raise UserError(f"{failure}: {first_line(error)}") from None


def plain_task(
    state: dict[str, Any], data: Path, languages: tuple[str, str] | None = None
) -> TranslationTask:
    """The task ``translation`` on the data, whatever the model was trained as: all models see the
    same sentences. Languages are the checkpoint's unless they are given."""
    stored = task_of(state)
    source, target = languages or (stored["source_lang"], stored["target_lang"])
    config = TranslationConfig(data=str(data), source_lang=source, target_lang=target)
    config.train_subset, config.dataset_impl, config.required_seq_len_multiple = "train", None, 1
    return TranslationTask.setup_task(config)


def batches(task: Any, subset: str, sentences: int, size: int = 16) -> Iterator[dict[str, Tensor]]:
    """The first ``sentences`` pairs of a split, in batches.

    Raises:
        UserError: there is no such split, or it is empty.
    """
    try:
        task.load_dataset(subset)
    except FileNotFoundError:
        raise UserError(
            f"{task.cfg.data} has no split {subset}; choose another with --subset"
        ) from None
    dataset = task.dataset(subset)
    count = min(sentences, len(dataset))
    if not count:
        raise UserError(f"the split {subset} in {task.cfg.data} is empty")
    for start in range(0, count, size):
        yield dataset.collater([dataset[i] for i in range(start, min(start + size, count))])[
            "net_input"
        ]
