"""fairseq checkpoints load with weights_only; anything else in a checkpoint is refused and does not
run."""

import os
import pickle
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

import cape_fairseq.models  # noqa: F401  (allows what fairseq checkpoints hold)
from tests.support import run


class Hostile:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_what_fairseq_stores_is_loaded(tmp_path):
    stored = {
        "args": None,
        "cfg": {
            "model": Namespace(arch="cape_transformer", source_scale=1.03),
            "task": {"data": "bin"},
        },
        "extra_state": {"metrics": {"counts": np.array([3, 2, 1], dtype=np.int64)}, "best": 3.5},
        "model": {"encoder.version": torch.tensor([3.0])},
    }
    torch.save(stored, tmp_path / "checkpoint.pt")
    loaded = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert loaded["cfg"] == stored["cfg"]
    assert loaded["extra_state"]["metrics"]["counts"].tolist() == [3, 2, 1]


@pytest.mark.parametrize("place", ["cfg", "model", "extra_state"])
def test_a_hostile_checkpoint_is_refused_and_nothing_runs(tmp_path, place):
    mark = tmp_path / "ran"
    checkpoint = {
        "cfg": {"model": Namespace()},
        "model": {},
        "extra_state": {},
        place: Hostile(mark),
    }
    torch.save(checkpoint, tmp_path / "checkpoint.pt")
    with pytest.raises(pickle.UnpicklingError, match="mkdir"):
        torch.load(tmp_path / "checkpoint.pt")
    assert not mark.exists()


def test_fairseq_refuses_it_too(tmp_path):
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    mark = tmp_path / "ran"
    torch.save({"cfg": None, "args": Hostile(mark)}, tmp_path / "checkpoint.pt")
    with pytest.raises(pickle.UnpicklingError):
        load_checkpoint_to_cpu(str(tmp_path / "checkpoint.pt"))
    assert not mark.exists()


def test_other_classes_are_still_refused(tmp_path):
    torch.save({"model": Path("x")}, tmp_path / "checkpoint.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "checkpoint.pt")


def test_the_package_and_its_mathematics_do_not_need_fairseq():
    import sys

    code = (
        "import sys; sys.modules['fairseq'] = None\n"
        "import cape_fairseq.positions, cape_fairseq.evaluation.runs, "
        "cape_fairseq.evaluation.scoring"
    )
    run([sys.executable, "-c", code])
