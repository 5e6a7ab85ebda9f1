"""scripts/benchmark.py: what a GPU takes, on a CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support import run

SCRIPT = Path(__file__).parent.parent / "scripts/benchmark.py"
SMALL = ["--words", 50, "--lengths", 10, "--tokens", 40, "--rounds", 2, "--device", "cpu"]


def benchmark(*options, check=True):
    return run(sys.executable, SCRIPT, options[0], *SMALL, *options[1:], check=check)


def test_a_step_in_half_precision():
    systems = "stock,sinpos+chunked,rope_cross,floater+refresh3"
    options = ["--dtype", "bfloat16", "--ragged", "--no-optimizer", "--systems", systems]
    found = json.loads(benchmark("step", *options).stdout)
    assert found["ratios"]["stock"] == 1
    assert sorted(found["milliseconds"]) == sorted(systems.split(","))
    assert all(low > 0 for low, *_ in found["milliseconds"].values())


def test_memory_is_that_of_a_process_of_its_own():
    found = json.loads(benchmark("memory", "--systems", "cape", "--dtype", "bfloat16").stdout)
    assert float(found["MiB"]) > 50


def test_a_missing_gpu_is_an_error():
    result = benchmark("step", "--device", "cuda", check=False)
    assert result.returncode == 2
    assert "GPU" in result.stderr
