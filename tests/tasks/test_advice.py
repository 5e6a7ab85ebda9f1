"""Advice at the start of a training."""

import re

from tests.support import train

STACKS = ("--task", "stacked_translation", "--stack-junction", "separator", "--stack-sentences", 2)
SCHEDULE = ("--lr-scheduler", "inverse_sqrt", "--warmup-updates")


def test_settings_that_are_rarely_meant(data_bin, tmp_path):
    """None of them in a training of documents with a few updates of warm-up."""
    context = ("--sentence-context", 1)
    plain = ("--shape-max-shift", 10, *SCHEDULE, 1, *STACKS)
    for options, count in (((*SCHEDULE, 100), 3), (plain, 0)):
        save = tmp_path / str(count)
        more = (*context, *options)
        output = train(data_bin, save, *more, arch="shape_transformer_tiny", updates=1)
        advice = re.findall(r"\w+ \| cape_fairseq.tasks.advice \| (--\S+ is \d+)", output)
        settings = (
            "--sentence-context is 1",
            "--shape-max-shift is 500",
            "--warmup-updates is 100",
        )
        assert sorted(advice) == list(settings[:count])
