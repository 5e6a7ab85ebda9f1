"""Small models on the disk, as a training leaves them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import torch

from tests.support import TINY, ToyTask, build

SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 64,
}
CODES = "#version: 0.2\n"  # no merges, so words become letters


def saved(folder: Path, arch: str, seed: int = 1, **options) -> Path:
    """A checkpoint with random weights, its dictionaries beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    model = build(arch, seed, **{**SMALL, **options})
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():  # what begins at zero would hide mistakes
        if "relative_" in name or "flow" in name:
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)
    dictionary = ToyTask().source_dictionary
    for language in ("en", "de"):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    task = {"task": "translation", "source_lang": "en", "target_lang": "de", "data": str(folder)}
    path = folder / "checkpoint.pt"
    given = {**TINY, **SMALL, **options} if arch == "transformer" else vars(model.args)
    args = Namespace(**{**given, "arch": arch, **task})
    history = [{"num_updates": 1, "optimizer_name": "", "lr_scheduler_state": {}}]
    progress = {"train_iterator": {"epoch": 1}}
    torch.save(
        {
            "args": args,
            "cfg": None,
            "model": model.state_dict(),
            "optimizer_history": history,
            "extra_state": progress,
        },
        path,
    )
    return path
