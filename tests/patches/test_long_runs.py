"""Damaged checkpoints, full disks and losses that are no number, each provoked."""

import errno
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from cape_fairseq.patches.damaged_checkpoint import damage, replace_damaged, resumable_updates
from cape_fairseq.patches.loss_is_no_number import with_sentences
from tests.patches.support import command, updates_of
from tests.support import run, train, train_losses

EPOCHS = ("--max-tokens", 1500, "--keep-last-epochs", 3)  # of four updates


@pytest.fixture(scope="module")
def epochs(data_bin, tmp_path_factory):
    """A run of two epochs and a half, with a checkpoint of each epoch."""
    folder = tmp_path_factory.mktemp("epochs") / "run"
    arguments = [a for a in command(data_bin, folder, 10, *EPOCHS) if a != "--no-epoch-checkpoints"]
    run(arguments)
    return folder


def damaged(epochs, folder, how):
    shutil.copytree(epochs, folder)
    last = folder / "checkpoint_last.pt"
    content = last.read_bytes()
    middle = len(content) // 2
    last.write_bytes(
        {
            "cut": content[:middle],
            "empty": b"",
            "changed": changed(content, middle),
        }[how]
    )
    return last


def changed(content, start):
    """With 100 other bytes: between the files of a checkpoint up to 64 bytes mean nothing."""
    end = start + 100
    return content[:start] + bytes(byte ^ 255 for byte in content[start:end]) + content[end:]


def test_damage_is_found_wherever_it_is(tmp_path):
    """In the numbers, in the names and headers between them, and in the list at the end."""
    path = tmp_path / "x.pt"
    torch.save({"model": {f"{i}": torch.ones(20 + i) for i in range(4)}}, path)
    assert damage(path) is None
    content = path.read_bytes()
    for start in range(len(content) - 100):
        path.write_bytes(changed(content, start))
        assert damage(path), start


@pytest.mark.parametrize("how", ["cut", "empty", "changed"])
def test_a_damaged_checkpoint_is_replaced_by_the_one_before(epochs, data_bin, tmp_path, how):
    last = damaged(epochs, tmp_path / "run", how)
    (last.parent / "checkpoint1.pt").touch()  # a copy of a folder may have any times
    before = max(updates_of(path) for path in last.parent.glob("checkpoint[0-9].pt"))
    assert 0 < before < 10
    content = last.read_bytes()
    (last.parent / "checkpoint_best.pt").unlink()
    result = run(command(data_bin, last.parent, 12, *EPOCHS))
    printed = result.stdout + result.stderr
    assert re.search(
        r"checkpoint_last\.pt is damaged .* training goes on from checkpoint2\.pt", printed
    )
    assert len(train_losses(printed)) == 12 - before
    assert updates_of(last) == 12
    assert (last.parent / "checkpoint_last.pt.damaged").read_bytes() == content


def test_there_is_a_last_checkpoint_at_every_moment(epochs, tmp_path, monkeypatch):
    """Without one the next start would begin from the start."""
    last = damaged(epochs, tmp_path / "run", "cut")
    seen = []
    for name in ("replace", "unlink"):
        method = getattr(Path, name)

        def watched(self, *args, method=method, **kwargs):
            found = method(self, *args, **kwargs)
            seen.append(last.exists())
            return found

        monkeypatch.setattr(Path, name, watched)
    replace_damaged(last)
    assert seen
    assert all(seen)


def test_an_archive_behind_another_is_damaged(tmp_path):
    """zipfile reads it, torch does not."""
    torch.save({"model": {"x": torch.ones(3)}}, tmp_path / "x.pt")
    content = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(content[:300] + content)
    with pytest.raises(RuntimeError, match="archive"):
        torch.load(tmp_path / "x.pt", weights_only=True)
    assert "archive" in damage(tmp_path / "x.pt")


def test_without_room_for_a_copy_all_stays(epochs, tmp_path, monkeypatch):
    """Else the next start would find no last checkpoint, and begin from nothing."""
    last = damaged(epochs, tmp_path / "run", "cut")
    before = digests(last.parent)

    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        replace_damaged(last)
    assert digests(last.parent) == before


def test_a_shard_is_not_replaced_alone(epochs, tmp_path):
    last = damaged(epochs, tmp_path / "run", "cut")
    shard = last.rename(last.with_name("checkpoint_last-shard0.pt"))
    with pytest.raises(ValueError, match="replace all its shards by those of another checkpoint"):
        replace_damaged(shard)
    assert shard.exists()


def test_without_another_checkpoint_nothing_starts(epochs, data_bin, tmp_path):
    last = damaged(epochs, tmp_path / "run", "cut")
    for path in last.parent.glob("checkpoint*.pt"):
        if path != last:
            torch.save({"model": {}, "last_optimizer_state": None}, path)  # an average, say
    content = last.read_bytes()
    result = run(command(data_bin, last.parent, 12, *EPOCHS), check=False)
    assert result.returncode != 0
    assert (
        "has no other to go on from; remove it to train from the start"
        in result.stderr.splitlines()[-1]
    )
    assert last.read_bytes() == content


def test_a_refused_checkpoint_is_not_damaged(tmp_path):
    """What torch refuses to unpickle is whole: it must fail in loading, not be replaced."""
    torch.save({"model": subprocess.Popen}, tmp_path / "x.pt")
    assert damage(tmp_path / "x.pt") is None
    assert resumable_updates(tmp_path / "x.pt") is None


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


SMALL_FILES = """
import resource, runpy, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
import cape_fairseq.models, cape_fairseq.tasks
from cape_fairseq.patches import checkpoint_files
checkpoint_files.PAUSE = 0
runpy.run_module("fairseq_cli.train", run_name="__main__", alter_sys=True)
"""


def test_a_full_disk_leaves_the_checkpoints(epochs, data_bin, tmp_path):
    shutil.copytree(epochs, tmp_path / "run")
    before = digests(tmp_path / "run")
    limit = (epochs / "checkpoint_last.pt").stat().st_size // 2
    (tmp_path / "small_files.py").write_text(SMALL_FILES)
    arguments = command(data_bin, tmp_path / "run", 12, *EPOCHS)[3:]
    script = [sys.executable, tmp_path / "small_files.py", limit, *arguments]
    result = run(script, check=False)
    assert result.returncode != 0
    message = r"OSError: .*checkpoint.*\.pt could not be written \(.*\); the checkpoints before it"
    assert re.search(message, result.stderr.splitlines()[-1])
    assert digests(tmp_path / "run") == before
    assert len(train_losses(train(data_bin, tmp_path / "run", *EPOCHS, updates=12))) == 2


@pytest.mark.parametrize("options", [(), ("--amp",), ("--update-freq", 2)])
def test_a_loss_that_is_no_number_names_its_batch(data_bin, tmp_path, options):
    arguments = command(
        data_bin, tmp_path / "run", 30, "--optimizer", "sgd", "--lr", "1e30", *options
    )
    result = run(arguments, check=False)
    assert result.returncode != 0
    last = result.stderr.splitlines()[-1]
    found = re.fullmatch(r"FloatingPointError: update (\d+): .*\(counted from 0\): ([\d ]+)", last)
    assert found, last
    assert int(found[1]) <= 4
    sentences = [int(number) for number in found[2].split()]
    assert len(set(sentences)) == len(sentences) > (20 if options == ("--update-freq", 2) else 5)
    assert all(0 <= number < 300 for number in sentences)


def test_an_error_of_batches_without_numbers_stays_as_it_is():
    """multilingual_translation's have them for each pair of languages."""

    def train_step(self, samples, raise_oom):
        raise FloatingPointError("Minimum loss scale reached")

    running = Mock(get_num_updates=lambda: 3)
    with pytest.raises(FloatingPointError, match=r"^Minimum loss scale reached$"):
        with_sentences(train_step)(running, [{"en-de": {"id": torch.tensor([1])}}, {}])
