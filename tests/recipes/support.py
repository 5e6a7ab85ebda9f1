"""A small corpus, and the recipe that trains on it."""

import random
import subprocess

from cape_fairseq.data.toy_grammar import sentence
from cape_fairseq.experiments.machine import CPU_ONLY
from tests.support import ROOT, run


def write_corpus(folder, **sizes):
    rng = random.Random(0)
    folder.mkdir()
    for split, size in sizes.items():
        pairs = [sentence(rng, 1) for _ in range(size)]
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


def command_line(folder) -> list:
    return [
        *("bash", ROOT / "recipes" / "train.sh", "--data", folder / "data", "--src", "en"),
        *("--tgt", "de", "--out", folder / "out", "--arch", "cape_transformer_tiny"),
    ]


def recipe(folder, *options, check=True) -> subprocess.CompletedProcess:
    """The recipe, on the CPU: what it comes to is compared bit for bit."""
    return run([*command_line(folder), *options], check=check, env={CPU_ONLY: "1"})
