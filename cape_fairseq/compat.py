"""Repairs of fairseq, each with what fairseq does and what goes wrong."""

import argparse
import copy
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models.ema.ema import EMA
from fairseq.trainer import Trainer
from numpy._core.multiarray import _reconstruct

from cape_fairseq.patches import Patch, list_scripts

logger = logging.getLogger(__name__)


def allow_fairseq_checkpoints() -> None:
    """Let ``torch.load`` read fairseq's checkpoints.

    They hold the options as an ``argparse.Namespace`` and, after validation with BLEU, NumPy
    integers. PyTorch >= 2.6 rejects both; exactly these are allowed here, and nothing else.
    """
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            (_reconstruct, "numpy.core.multiarray._reconstruct"),  # its name in NumPy 1
            (_reconstruct, "numpy._core.multiarray._reconstruct"),
            np.ndarray,
            np.dtype,
            np.dtypes.Int64DType,
            distributed_utils._TensorPlaceholder,  # of several processes
        ]
    )


def broadcast_without_options(broadcast: Callable) -> Callable:
    """Let several processes resume.

    fairseq's first process sends the checkpoint to the others as a pickle with the options in it
    and a placeholder for each tensor. PyTorch >= 2.6 rejects both, so the options, which nobody
    reads there, are left out, and the placeholder is allowed.
    """

    @functools.wraps(broadcast)
    def wrapped(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, dict) and "optimizer_history" in obj:
            obj = {name: value for name, value in obj.items() if name not in ("cfg", "args")}
        return broadcast(obj, *args, **kwargs)

    return wrapped


def keep_last_batch(batch_by_size: Callable) -> Callable:
    """Keep the last batch of a data set.

    fairseq-fixed 0.12.3.1 drops it if its number of sentences is not a multiple of
    ``--required-batch-size-multiple``. The longest sentences would never be trained on, and some
    never be translated.
    """

    @functools.wraps(batch_by_size)
    def wrapped(indices: Any, *args: Any, **kwargs: Any) -> list[Sequence[int]]:
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        batches = list(batch_by_size(indices, *args, **kwargs))
        rest = indices[sum(map(len, batches)) :]
        return [*batches, rest] if len(rest) else batches

    return wrapped


def load_with_options(load_checkpoint: Callable) -> Callable:
    """Let a model check the options of a checkpoint, and end with the reason why it does not fit.

    fairseq hands a model the parameters alone, and raises "please ensure that the architectures
    match" over every error of loading. The model may add what the options say to the parameters
    (``prepare_checkpoint``), and a ValueError of it, which says what to do, is raised instead.
    """

    @functools.wraps(load_checkpoint)
    def wrapped(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        read = checkpoint_utils.load_checkpoint_to_cpu
        prepare = getattr(self.get_model(), "prepare_checkpoint", None)

        def read_and_prepare(*args: Any, **kwargs: Any) -> dict[str, Any]:
            state = read(*args, **kwargs)
            if prepare is not None:
                prepare(state)
            return state

        checkpoint_utils.load_checkpoint_to_cpu = read_and_prepare
        try:
            return load_checkpoint(self, *args, **kwargs)
        except Exception as error:
            if isinstance(error.__context__, ValueError) and type(error) is Exception:
                raise error.__context__ from None
            raise
        finally:
            checkpoint_utils.load_checkpoint_to_cpu = read

    return wrapped


def mark_dummy_batches(prepare_sample: Callable) -> Callable:
    """Tell a model that its batch is a dummy.

    A process that has no batch left for an update runs its first batch again. fairseq multiplies
    the loss of it by 0, but a model that counts its texts would count them twice.
    """

    @functools.wraps(prepare_sample)
    def wrapped(self: Trainer, *args: Any, **kwargs: Any) -> tuple[Any, bool]:
        sample, is_dummy = prepare_sample(self, *args, **kwargs)
        if hasattr(self.get_model(), "is_dummy_batch"):
            self.get_model().is_dummy_batch = is_dummy
        return sample, is_dummy

    return wrapped


def warn_of_unknown_overrides(load: Callable) -> Callable:
    """Warn of names in ``--model-overrides`` that no option has.

    fairseq ignores them, so that a misspelt option changes nothing. Only models of this package are
    checked, whose options of inference are given so.
    """

    @functools.wraps(load)
    def wrapped(filenames: Any, arg_overrides: Any = None, *args: Any, **kwargs: Any) -> Any:
        models, cfg, task = load(filenames, arg_overrides, *args, **kwargs)
        if arg_overrides and hasattr(models[0], "is_dummy_batch"):
            known = {*(item.name for item in fields(models[0].cfg)), *list_names(cfg)}
            unknown = [name for name in arg_overrides if name not in known]
            if unknown:
                logger.warning("--model-overrides: there is no option %s", ", ".join(unknown))
        return models, cfg, task

    return wrapped


def list_names(cfg: Any) -> Iterator[str]:
    """Yield the names of all options of nested groups. A namespace has got the names that are to be
    checked, and is left out."""
    if isinstance(cfg, Mapping):
        for name, value in cfg.items():
            yield name
            yield from list_names(value)


def save_every_interval(save_checkpoint: Callable) -> Callable:
    """Save ``--save-interval-updates`` at the end of an epoch, too.

    fairseq leaves these checkpoints out, so that with two updates in an epoch only every other one
    exists, and fewer than expected are there to average.
    """

    @functools.wraps(save_checkpoint)
    def wrapped(cfg: Any, trainer: Trainer, epoch_itr: Any, val_loss: Any) -> Any:
        result = save_checkpoint(cfg, trainer, epoch_itr, val_loss)
        updates, interval = trainer.get_num_updates(), cfg.save_interval_updates
        if interval > 0 and updates > 0 and updates % interval == 0 and epoch_itr.end_of_epoch():
            inside = SimpleNamespace(
                epoch=epoch_itr.epoch,
                state_dict=epoch_itr.state_dict,
                end_of_epoch=lambda: False,  # so that fairseq names, saves and prunes it
            )
            own = copy.deepcopy(cfg)
            own.no_last_checkpoints = True
            save_checkpoint(own, trainer, inside, None)
        return result

    return wrapped


def reject_other_task(validate: Callable) -> Callable:
    """Reject ``fairseq-validate --task stacked_translation`` for a model of another task.

    fairseq takes the checkpoint's task instead, and scores sentences without a word.
    """

    @functools.wraps(validate)
    def wrapped(cfg: Any, override_args: Any = None) -> Any:
        given = getattr(override_args, "task", None)
        if given is not None:
            path = cfg.common_eval.path.split(os.pathsep)[0]
            options = checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"]["task"]
            stored = getattr(options, "_name", None)
            if given != stored:
                stacks = (
                    "; score stacks with fairseq-generate --task stacked_translation "
                    "--score-reference and cape-fairseq position-loss"
                )
                raise ValueError(
                    f"--task is {given}, but fairseq-validate takes the checkpoint's; give --task "
                    f"{stored}{stacks if given == 'stacked_translation' else ''}"
                )
        return validate(cfg, override_args=override_args)

    return wrapped


def copy_integers(init: Callable) -> Callable:
    """Let ``--store-ema`` copy integers, such as a model's identity, from the model.

    fairseq multiplies every tensor of a model by the decay, which fails for integers.
    """

    @functools.wraps(init)
    def wrapped(self: EMA, model: Any, *args: Any, **kwargs: Any) -> None:
        init(self, model, *args, **kwargs)
        state = model.state_dict()
        integers = {key for key, value in state.items() if not value.is_floating_point()}
        self.skip_keys = {*self.skip_keys, *integers}

    return wrapped


def keep_versions(restore: Callable) -> Callable:
    """Let ``--store-ema`` keep the final layer norms of ``--encoder-normalize-before``.

    fairseq averages all parameters but the versions of its formats. Without a version a model takes
    a state for one of an old format without such norms, and removes its own.
    """

    @functools.wraps(restore)
    def wrapped(self: EMA, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        versions = {k: v for k, v in self.model.state_dict().items() if k.endswith(".version")}
        restore(self, {**versions, **state_dict}, *args, **kwargs)

    return wrapped


def copy_completely(copy: Callable) -> Callable:
    """Copy a checkpoint to a file that is complete or not there.

    fairseq saves one file and copies it over ``checkpoint_last.pt`` and ``checkpoint_best.pt``. On
    a full disk half of a copy would take their place, and the training could not resume.
    """

    @functools.wraps(copy)
    def wrapped(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if PathManager.path_requires_pathmanager(dst_path):  # of a remote file system
            return copy(src_path, dst_path, overwrite)
        partial = f"{dst_path}.tmp"
        try:
            result = copy(src_path, partial, overwrite)
            PathManager.rename(partial, dst_path)
        finally:
            if PathManager.exists(partial):
                PathManager.rm(partial)
        return result

    return wrapped


PATCHES = [
    Patch(distributed_utils, "broadcast_object", broadcast_without_options),
    Patch(data_utils, "batch_by_size", keep_last_batch),
    Patch(checkpoint_utils, "save_checkpoint", save_every_interval),
    Patch(checkpoint_utils, "load_model_ensemble_and_task", warn_of_unknown_overrides),
    Patch(PathManager, "copy", copy_completely),
    Patch(Trainer, "load_checkpoint", load_with_options),
    Patch(Trainer, "_prepare_sample", mark_dummy_batches),
    Patch(EMA, "__init__", copy_integers),
    Patch(EMA, "restore", keep_versions),
    *(Patch(script, "main", reject_other_task) for script in list_scripts("validate")),
]
