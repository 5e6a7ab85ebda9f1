"""Import of a checkpoint of fairseq, with what fine-tuning needs beside it."""

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.errors import UserError
from cape_fairseq.inference.checkpoints import (
    check_architecture,
    find_data,
    get_options,
    read_checkpoint,
)
from cape_fairseq.inference.segmentation import copy_segmentation
from cape_fairseq.models.checkpoint import read_dimensions

OTHER_OPTIONS = (  # that no dimension is
    "no_decoder_final_norm",
    "share_all_embeddings",
    "share_decoder_input_output_embed",
    "adaptive_softmax_cutoff",
)


def choose_options(options: Namespace) -> dict[str, Any]:
    """Return the options that a model needs to have the shape of a checkpoint's."""
    found = {name: getattr(options, name, None) for name in OTHER_OPTIONS}
    cutoff = found["adaptive_softmax_cutoff"]
    if isinstance(cutoff, (list, tuple)):
        found["adaptive_softmax_cutoff"] = ",".join(map(str, cutoff))
    return {**read_dimensions(options), **found}


def convert(path: Path, output: Path, args: Namespace) -> dict[str, Any]:
    """Write a checkpoint without the state of its optimizer, its dictionaries and its segmentation
    into ``output``; return the options that a model of its shape needs.

    Raises:
        UserError: a file is missing, or the languages are others.
    """
    state = read_checkpoint(path)
    options, task = get_options(state)
    check_architecture(path, options)
    folder, source, target = find_data(path, None, task)
    if (args.source_lang or source, args.target_lang or target) != (source, target):
        raise UserError(
            f"{path} translates from {source} to {target}; leave out --source-lang, --target-lang"
        )
    for language in (source, target):
        shutil.copy(folder / f"dict.{language}.txt", output)
    if not copy_segmentation(ModelFolder((path.parent, folder)), output):
        raise UserError(
            f"{path} has no segmentation beside it or in {folder}; put bpecodes, "
            "sentencepiece.model, or source.spm and target.spm there"
        )
    torch.save({**state, "last_optimizer_state": None}, output / "model.pt")
    return choose_options(options)
