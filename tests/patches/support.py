"""Commands of small trainings, and what they saved."""

import torch

from tests.support import fairseq_command, train_arguments


def command(data_bin, save, updates, *more):
    return [
        str(part)
        for part in fairseq_command(
            "train", *train_arguments(data_bin, save, "cape_transformer_tiny", updates), *more
        )
    ]


def updates_of(path) -> int:
    return torch.load(path, weights_only=True)["optimizer_history"][-1]["num_updates"]
