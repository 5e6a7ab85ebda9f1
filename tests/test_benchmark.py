"""scripts/benchmark.py: what a GPU takes, on a CPU."""

import json
import runpy
import sys

import pytest

from tests.support import ROOT

SMALL = ["--words", 50, "--lengths", 10, "--tokens", 40, "--rounds", 2, "--device", "cpu"]


@pytest.fixture
def benchmark(monkeypatch, capsys):
    """Run the script in this process; return what it prints."""
    scripts = ROOT / "scripts"
    monkeypatch.syspath_prepend(str(scripts))

    def run(part: str, *options) -> str:
        monkeypatch.setattr(sys, "argv", ["benchmark.py", *map(str, (part, *SMALL, *options))])
        runpy.run_path(str(scripts / "benchmark.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()[-1]

    return run


def test_a_step_in_half_precision(benchmark):
    systems = "stock,sinpos+chunked,rope_cross,floater+refresh3"
    options = ["--dtype", "bfloat16", "--ragged", "--no-optimizer", "--systems", systems]
    found = json.loads(benchmark("step", *options))
    assert found["ratios"]["stock"] == 1
    assert sorted(found["milliseconds"]) == sorted(systems.split(","))
    assert all(low > 0 for low, *_ in found["milliseconds"].values())


@pytest.mark.slow
def test_memory_is_that_of_a_process_of_its_own(benchmark):
    found = json.loads(benchmark("memory", "--systems", "cape", "--dtype", "bfloat16"))
    assert float(found["MiB"]) > 50
