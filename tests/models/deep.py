"""Deep models with data to profile, for the tests of ADMIN."""

from types import SimpleNamespace

import torch
from fairseq.data import LanguagePairDataset

from cape_fairseq.models.admin import initialize
from tests.support import ToyTask, batch, build


class DataTask(ToyTask):
    """A task with a training split in memory."""

    def __init__(self, pairs: int = 40) -> None:
        super().__init__()
        lengths = torch.randint(
            2, 12, (2, pairs), generator=torch.Generator().manual_seed(0)
        ).tolist()
        sides = [
            [batch([n], left=False, seed=i)[0] for i, n in enumerate(side)] for side in lengths
        ]
        dictionary = self.source_dictionary
        self.cfg = SimpleNamespace(train_subset="train")
        self.datasets = {
            "train": LanguagePairDataset(
                sides[0], lengths[0], dictionary, sides[1], lengths[1], dictionary
            )
        }

    def dataset(self, split):
        return self.datasets[split]


def deep(arch: str, **options):
    """A model of four layers whose omegas were profiled."""
    model = build(
        arch, residual_init="admin-profiled", encoder_layers=4, decoder_layers=4, **options
    )
    for name, parameter in model.named_parameters():  # residual branches of different sizes
        if name.endswith(("fc2.weight", "out_proj.weight")):
            parameter.data *= 1 + len(name) % 3
    initialize(model, DataTask())
    return model
