"""Segmented text to binarized data, by fairseq-preprocess."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from cape_fairseq.errors import UserError


def binarize(
    text: Path, tests: list[str], languages: tuple[str, str], folder: Path, workers: int
) -> None:
    """Binarize ``train``, ``valid`` and ``tests`` of a folder of text with one dictionary for both
    languages; ``folder`` is there complete or not at all.

    Raises:
        UserError: fairseq-preprocess fails; its last line is in the sentence.
    """
    temporary = folder.with_name(f"{folder.name}.tmp")
    for path in (folder, temporary):  # of a run that was stopped; fairseq takes fresh folders
        shutil.rmtree(path, ignore_errors=True)
    options = {
        "source-lang": languages[0],
        "target-lang": languages[1],
        "trainpref": text / "train",
        "validpref": text / "valid",
        "testpref": ",".join(str(text / name) for name in tests),
        "destdir": temporary,
        "workers": workers,
    }
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--joined-dictionary"]
    command += [f"--{name}={value}" for name, value in options.items()]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"fairseq-preprocess failed: {last}")
    temporary.replace(folder)
