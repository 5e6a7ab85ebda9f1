"""Advice at the start of a training."""

import pytest

from tests.support import train

STACKS = ("--task", "stacked_translation", "--stack-junction", "separator", "--stack-sentences", 2)
SCHEDULE = ("--lr-scheduler", "inverse_sqrt", "--warmup-updates")


@pytest.mark.parametrize(
    ("arch", "options", "level", "named"),
    [
        ("sinpos", (*SCHEDULE, 100), "WARNING", "--warmup-updates is 100"),
        ("sinpos", (*SCHEDULE, 1), "WARNING", None),
        ("sinpos", ("--sentence-context", 1), "WARNING", "--sentence-context is 1"),
        ("sinpos", ("--sentence-context", 1, *STACKS), "WARNING", None),
        ("shape", (), "INFO", "--shape-max-shift is 500"),
        ("shape", ("--shape-max-shift", 10), "INFO", None),
    ],
)
def test_settings_that_are_rarely_meant(arch, options, level, named, data_bin, tmp_path):
    output = train(data_bin, tmp_path, *options, arch=f"{arch}_transformer_tiny", updates=1)
    start = f"{level} | cape_fairseq.tasks.advice | "
    found = [line for line in output.splitlines() if line.startswith(start)]
    assert len(found) == (named is not None)
    assert named is None or named in found[0]
