"""gpu-check: what it runs, what it says of it, and what it lets fail."""

import json
import os
import re
import sys

from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.experiments import gpu_check
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.machine import CPU_ONLY
from tests.support import cape


def test_every_encoding_in_every_precision():
    plan = Plan()
    gpu_check.jobs(plan, "cuda", 10)
    trained = {job.name for job in plan.jobs if job.name.endswith("/train")}
    assert trained == {f"{e}/{p}/train" for e in ENCODINGS for p in gpu_check.PRECISIONS}
    assert list(gpu_check.PRECISIONS) == ["float32", "fp16", "amp", "bf16"]
    benchmarks = [job for job in plan.jobs if job.name.startswith("benchmark")]
    assert [job.commands[0][5] for job in benchmarks] == ["fp32", "fp16", "bf16"]
    assert "gpu" in next(job for job in plan.jobs if job.name == "tests").commands[0]


def test_one_failure_stops_no_other_and_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = Plan()
    plan.add(Job("bad", (command(sys.executable, "-c", "raise SystemExit('the reason')"),)))
    plan.add(Job("good", (command("touch", "made"),)))
    failed = gpu_check.check(plan)
    assert failed == {"bad": "the reason"}
    assert (tmp_path / "made").exists()
    for name, loss in (("float32", 4.0), ("fp16", 4.1)):
        folder = tmp_path / "cape" / name / "logs"
        folder.mkdir(parents=True)
        told = f"epoch 001 | valid on 'valid' subset | loss {loss} | num_updates 9"
        (folder / "training.log").write_text(f"| INFO | valid | {told}\n")
    gpu_check.report(tmp_path, "cuda", failed)
    page = (tmp_path / "check.md").read_text()
    assert re.search(r"^cape +4\.000 +4\.100 \(\+2\.50%\) +- +-$", page, re.M)
    assert "the reason" in page
    assert json.loads((tmp_path / "check.json").read_text())["failed"] == failed


def test_wheels_and_refusal(monkeypatch, tmp_path):
    names = {line.partition("==")[0] for line in cape("gpu-check", "--wheels").stdout.split()}
    assert {"fairseq-fixed", "torchdiffeq", "sacrebleu", "pytest"} <= names
    assert not {"torch", "snakemake", "ruff"} & names
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old").touch()
    refused = cape("gpu-check", "--device", "cpu", "--out", tmp_path / "full", check=False)
    assert "full is not empty, and old results must not pass for new ones" in refused.stderr
    assert CPU_ONLY not in os.environ
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    refused = cape("gpu-check", "--out", tmp_path / "out", check=False)
    assert refused.returncode == 1
    assert "there is no GPU here; --device cpu tries the path" in refused.stderr
