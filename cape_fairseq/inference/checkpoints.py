"""Reading and building checkpoints."""

from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.data import data_utils
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    FairseqEncoderDecoderModel,
    build_model,
)
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

import cape_fairseq.models
import cape_fairseq.tasks  # noqa: F401  (checkpoints name its task)
from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.errors import UserError
from cape_fairseq.models.checkpoint import IDENTITIES, read_longest, read_training_length

LONGEST_STACK = 400  # tokens, by default


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of fairseq on the CPU, tensors and plain values without code, or raise
    UserError."""
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} cannot be loaded: {reason}") from None
    if not isinstance(state, dict) or not (state.get("cfg") or state.get("args")):
        raise UserError(f"{path} is not a checkpoint of fairseq")
    return state


def get_options(state: dict[str, Any]) -> tuple[Namespace, Namespace]:
    """Return the options of the model and of the task of a checkpoint."""
    if state.get("cfg"):
        parts = (state["cfg"]["model"], state["cfg"]["task"])
    else:
        parts = (state["args"], state["args"])
    model, task = (Namespace(**p) if isinstance(p, dict) else p for p in parts)
    return Namespace(**vars(model)), task


def check_architecture(path: Path, options: Namespace) -> None:
    """Raise UserError if the model of a checkpoint is not registered; fairseq's message fails."""
    name = getattr(options, "_name", None) or getattr(options, "arch", None)
    if name not in ARCH_MODEL_REGISTRY and name not in MODEL_DATACLASS_REGISTRY:
        raise UserError(
            f"{path}: there is no architecture {name}; give the folder that registers it, for "
            "instance with an encoding of your own, as --user-dir"
        )


def check_version(path: Path, options: Namespace, parameters: dict[str, Tensor]) -> None:
    """Raise UserError if a model of this package has no identity, as before version 1.2: its
    options have other meanings, so that messages about them would be wrong."""
    name = getattr(options, "_name", None) or getattr(options, "arch", None)
    is_own = ARCH_MODEL_NAME_REGISTRY.get(name, name) == "positional_transformer"
    if is_own and parameters.keys().isdisjoint(IDENTITIES):
        raise UserError(f"{path} is older than version 1.2 of this package; retrain it")


def build_checkpoint(arguments: Namespace, parameters: dict[str, Tensor]) -> dict[str, Any]:
    """Return a checkpoint that fairseq reads, without the state of a training."""
    history = {"num_updates": 0, "criterion_name": "", "lr_scheduler_state": {}}
    return {
        "args": arguments,
        "cfg": None,
        "model": parameters,
        "optimizer_history": [history],
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": {"epoch": 1}},
    }


def find_data(path: Path, data: Path | None, task: Namespace) -> tuple[Path, str, str]:
    """Return the folder with the dictionaries of a checkpoint, and its languages.

    The default of ``data`` is the checkpoint's folder, or the data of the training.
    """
    if not hasattr(task, "source_lang"):
        raise UserError(f"{path} is not a translation model")
    trained = Path(str(task.data).split(":")[0])
    candidates = [Path(data)] if data else [path.parent, trained]
    source, target = task.source_lang, task.target_lang
    for folder in (*candidates, trained):
        if not (source and target) and folder.is_dir():
            source, target = data_utils.infer_language_pair(str(folder))
    if not (source and target):
        raise UserError(
            f"{path} does not name its languages; give its binarized data as --data, or train with "
            "--source-lang and --target-lang"
        )
    names = [f"dict.{language}.txt" for language in (source, target)]
    files = ModelFolder(tuple(candidates)).find(names)
    if files:
        return files[0].parent, source, target
    folders = " or ".join(map(str, dict.fromkeys(candidates)))
    raise UserError(f"{' and '.join(names)} are not in {folders}; give their folder as --data")


def read_train_length(path: Path) -> int:
    """Return the training length of a checkpoint, with EOS.

    Raises:
        UserError: the checkpoint does not store it; those of stock fairseq do not.
    """
    stored = read_training_length(read_checkpoint(path)["model"])
    if not stored:
        raise UserError(f"{path} does not store the length of its training texts; give a number")
    return stored


def choose_longest(path: str) -> int:
    """Return the tokens of the longest stack to fine-tune a model on: those of its training, or
    those that it can have, at most 400."""
    state = read_checkpoint(Path(path))
    stored = read_longest(state["model"])
    limit = stored or int(getattr(get_options(state)[0], "max_source_positions", None) or 1024)
    return min(limit - 1, LONGEST_STACK)  # without EOS


class LoadedModel(NamedTuple):
    """A model with what its checkpoint says of its task."""

    model: FairseqEncoderDecoderModel  # in evaluation mode
    task: TranslationTask  # plain translation, on the data of the model
    source_context: int  # earlier sentences in training
    folder: ModelFolder


def load_model(path: Path, data: Path | None = None) -> LoadedModel:
    """Load the model of a checkpoint."""
    state = read_checkpoint(path)
    options, task_options = get_options(state)
    check_architecture(path, options)
    check_version(path, options, state["model"])
    folder, source, target = find_data(path, data, task_options)
    config = TranslationConfig(data=str(folder), source_lang=source, target_lang=target)
    config.train_subset, config.dataset_impl, config.required_seq_len_multiple = "train", None, 1
    task = TranslationTask.setup_task(config)
    try:
        model = build_model(options, task)
        model.load_state_dict(state["model"], strict=True, model_cfg=options)
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} and the dictionaries in {folder}: {reason}") from None
    context = getattr(task_options, "source_context", None) or 0
    return LoadedModel(model.eval(), task, context, ModelFolder((path.parent, folder)))
