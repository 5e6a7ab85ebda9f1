"""Checkpoint files on a full disk, or when the process is killed while it writes.

fairseq copies checkpoints in place, so that a kill leaves half a file; leaves a temporary file and
a long traceback where there is no room; and tries again behind what a failed try has written.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from cape_fairseq.errors import first_line
from cape_fairseq.files import copy

RETRIES = 2  # and seconds before each, as in fairseq
PAUSE = 2.5


class AtomicPathManager(PathManager):
    """fairseq's, with copies of local files that appear complete or not at all."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        if "://" in dst_path or not overwrite:
            return PathManager.copy(src_path, dst_path, overwrite=overwrite)
        copy(Path(src_path), Path(dst_path))
        return True


def save_or_say_what_failed(torch_persistent_save: Callable) -> Callable:
    """Wrap fairseq's function that writes a checkpoint to a temporary file and renames it: each try
    opens a new file."""

    @functools.wraps(torch_persistent_save)
    def wrapped(obj: Any, filename: str, *args: Any, **kwargs: Any) -> None:
        for _ in range(RETRIES):
            try:
                return torch_persistent_save(obj, filename, *args, **kwargs)
            except Exception:
                time.sleep(PAUSE)
        try:
            return torch_persistent_save(obj, filename, *args, **kwargs)
        except (OSError, RuntimeError) as error:
            Path(f"{filename}.tmp").unlink(missing_ok=True)
            raise OSError(
                f"{filename} could not be written ({first_line(error)}); the checkpoints "
                "before it are untouched: make room, and start the same command again"
            ) from error

    return wrapped


def install() -> None:
    checkpoint_utils.PathManager = AtomicPathManager
    checkpoint_utils._torch_persistent_save = torch.save
    save = checkpoint_utils.torch_persistent_save
    checkpoint_utils.torch_persistent_save = save_or_say_what_failed(save)
