"""The mean of checkpoints, number by number."""

import resource
from argparse import Namespace

import pytest
import torch

from cape_fairseq.checkpoints.averaging import average, last_checkpoints
from cape_fairseq.checkpoints.reading import write as write_checkpoint
from cape_fairseq.errors import UserError


def write(path, value: float, updates: int = 0, arch: str = "x", heads: int = 4, **more) -> None:
    model = {"weight": torch.tensor([value, 1.0]).half(), "count": torch.tensor(3), **more}
    history = [{"num_updates": 1}, {"num_updates": updates}]
    cfg = {"model": Namespace(arch=arch, encoder_attention_heads=heads)}
    state = {
        "model": model,
        "cfg": cfg,
        "last_optimizer_state": {"big": 1},
        "optimizer_history": history,
        "extra_state": {"ema": {"weight": torch.ones(2)}, "val_loss": 2.0},
    }
    torch.save(state, path)


def test_a_disk_that_is_full_is_told_and_nothing_is_left(tmp_path):
    """torch's writer raises an error of its own there."""
    path = tmp_path / "checkpoint.pt"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(UserError, match=r"checkpoint\.pt could not be written \(.+\)"):
            write_checkpoint({"model": {"weight": torch.zeros(100_000)}}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_mean_of_the_last(tmp_path):
    for updates, value in ((90, 100.0), (100, 1.0), (110, 2.0), (1000, 6.0)):
        write(tmp_path / f"checkpoint_3_{updates}.pt", value)
    for name in ("checkpoint_best.pt", "checkpoint_last.pt", "checkpoint7.pt"):
        write(tmp_path / name, 50.0)
    paths = last_checkpoints(tmp_path, 3)
    assert [path.name for path in paths] == [f"checkpoint_3_{n}.pt" for n in (100, 110, 1000)]
    write_checkpoint(average(paths), tmp_path / "mean.pt")
    mean = torch.load(tmp_path / "mean.pt", weights_only=True)
    assert mean["model"]["weight"].tolist() == [3.0, 1.0]
    assert mean["model"]["weight"].dtype == torch.float16
    assert mean["model"]["count"] == 3
    assert mean["last_optimizer_state"] is None
    assert mean["extra_state"] == {"val_loss": 2.0}  # a moving average is of one checkpoint


def test_at_the_end_of_an_epoch_there_is_a_checkpoint_of_the_epoch(tmp_path):
    write(tmp_path / "checkpoint_9_95.pt", 1.0)
    for epoch in (9, 10):
        write(tmp_path / f"checkpoint{epoch}.pt", 1.0, updates=10 * epoch)
    names = [path.name for path in last_checkpoints(tmp_path, 3)]
    assert names == ["checkpoint9.pt", "checkpoint_9_95.pt", "checkpoint10.pt"]


def test_ends_of_epochs_between_the_wanted_updates_do_not_count(tmp_path):
    for epoch, updates in ((2, 290), (3, 400), (4, 435)):
        write(tmp_path / f"checkpoint{epoch}.pt", 1.0, updates=updates)
    for epoch, updates in ((1, 100), (2, 200), (3, 300), (4, 500)):
        write(tmp_path / f"checkpoint_{epoch}_{updates}.pt", 1.0)
    names = [path.name for path in last_checkpoints(tmp_path, 5, every=100)]
    assert names == [
        f"checkpoint{name}.pt" for name in ("_1_100", "_2_200", "_3_300", "3", "_4_500")
    ]
    with pytest.raises(
        UserError, match="has 5 numbered checkpoints of every 100 updates, but 6 are to be averaged"
    ):
        last_checkpoints(tmp_path, 6, every=100)


@pytest.mark.parametrize("name", ["stored", "kept.initial", "source.stored", "source.kept.initial"])
def test_solved_vectors_are_not_averaged(name, tmp_path):
    given = {f"decoder.flow.{each}": torch.ones(2) for each in (name, "initial")}
    write(tmp_path / "checkpoint_1_5.pt", 1.0, **given)
    found = average(last_checkpoints(tmp_path, 1))["model"]
    assert f"decoder.flow.{name}" not in found
    assert "decoder.flow.initial" in found


def test_options_that_an_older_version_lacked_do_not_matter(tmp_path):
    write(tmp_path / "checkpoint1.pt", 1.0, updates=1)
    write(tmp_path / "checkpoint2.pt", 3.0, updates=2)
    new = torch.load(tmp_path / "checkpoint2.pt", weights_only=True)
    options = new["cfg"]["model"] if new.get("cfg") else new["args"]
    (options.__setitem__ if isinstance(options, dict) else options.__setattr__)("t5_buckets", 32)
    torch.save(new, tmp_path / "checkpoint2.pt")
    assert average(last_checkpoints(tmp_path, 2))["model"]


def test_what_cannot_be_averaged(tmp_path):
    write(tmp_path / "checkpoint_1_5.pt", 1.0)
    with pytest.raises(
        UserError,
        match="has 1 numbered checkpoints, but 2 are to be averaged; train with --save-int",
    ):
        last_checkpoints(tmp_path, 2)
    write(tmp_path / "checkpoint_1_6.pt", 1.0, other=torch.zeros(1))
    with pytest.raises(
        UserError, match=r"checkpoint_1_6.pt has other parameters than .*checkpoint_1_5.pt"
    ):
        average(last_checkpoints(tmp_path, 2))
    for more, message in (
        ({"arch": "y"}, "arch y, but .*_5.pt has x"),
        ({"heads": 8}, "encoder_attention_heads 8"),
    ):
        write(tmp_path / "checkpoint_1_6.pt", 1.0, **more)
        with pytest.raises(
            UserError, match=f"checkpoint_1_6.pt has {message}.*; average checkpoints of one run"
        ):
            average(last_checkpoints(tmp_path, 2))
    (tmp_path / "checkpoint_1_6.pt").write_bytes(b"cut off")
    with pytest.raises(UserError, match=r"checkpoint_1_6.pt cannot be loaded as a checkpoint"):
        average(last_checkpoints(tmp_path, 2))


def test_a_file_of_something_else_is_one_sentence(tmp_path):
    torch.save({"model": {"weight": torch.ones(2)}}, tmp_path / "checkpoint_1_100.pt")
    with pytest.raises(UserError, match="is no checkpoint of fairseq: it does not say how it was"):
        average([tmp_path / "checkpoint_1_100.pt"])
