"""Files of checkpoints where there is no room: tried again from the start; the old one stays."""

import errno
import shutil

import pytest
import torch
from fairseq import checkpoint_utils

from cape_fairseq.files import copy
from cape_fairseq.patches import checkpoint_files
from cape_fairseq.patches.damaged_checkpoint import damage


def test_a_second_try_begins_anew(tmp_path, monkeypatch):
    """fairseq's would write behind what the first has written."""
    tries = []

    def fail_twice(state, stream):
        tries.append(stream)
        if len(tries) == 3:
            return torch.save(state, stream)
        stream.write(b"half of it" * 100_000)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint_files, "PAUSE", 0)
    monkeypatch.setattr(checkpoint_utils, "_torch_persistent_save", fail_twice)
    checkpoint_utils.torch_persistent_save({"x": torch.ones(3)}, str(tmp_path / "x.pt"))
    assert torch.load(tmp_path / "x.pt", weights_only=True)["x"].tolist() == [1, 1, 1]
    assert damage(tmp_path / "x.pt") is None


def test_a_copy_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")

    def half(source, target):
        with open(target, "w") as stream:
            stream.write("ne")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", half)
        with pytest.raises(OSError, match="No space left"):
            copy(tmp_path / "new", tmp_path / "old")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
    assert (tmp_path / "old").read_text() == "old"
    copy(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"
