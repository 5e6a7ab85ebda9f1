"""What can only be seen on a GPU, in one command: tests, speed and memory, short trainings.

It needs no network and no Snakemake: a source tree, and a Python with torch and a few wheels.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cape_fairseq.data.parallel import read_json, read_lines, write_lines
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows, as_json, text
from cape_fairseq.evaluation.training_log import read
from cape_fairseq.experiments import corpora
from cape_fairseq.experiments.jobs import Job, Plan, command
from cape_fairseq.experiments.launch import last_words, run_job
from cape_fairseq.experiments.recipes.settings import QUICK

ROOT = Path(__file__).resolve().parents[2]
PRECISIONS = {
    "float32": (),
    "fp16": ("--fp16",),
    "amp": ("--amp",),
    "bf16": ("--autocast", "bf16"),
}
# Not needed on a machine whose Python has torch already.
LEFT_BEHIND = {
    *("torch", "snakemake", "snakemake-executor-plugin-slurm", "ruff"),
    *("setuptools", "wheel", "cython", "ninja"),
}
TRAINING = (*QUICK, "--max-tokens", "8192", "--warmup-updates", "40", "--seed", "1")


def wheels() -> list[str]:
    """Requirements to carry to a machine without network, with their own."""
    lines = [line.partition("#")[0].strip() for line in read_lines(ROOT / "requirements.txt")]
    return [line for line in lines if line and line.partition("==")[0] not in LEFT_BEHIND]


def jobs(plan: Plan, device: str, updates: int) -> None:
    """Tests first, then the benchmark, then a training of each encoding in each precision."""
    tests = ROOT / "tests"
    if tests.is_dir():
        words = command(
            *(sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", tests),
            *("--rootdir", ROOT, "-c", ROOT / "pyproject.toml", "--junit-xml", "tests.xml"),
        )
        plan.add(Job("tests", (words,), (), ("tests.xml",)))
    for precision in ("fp32", "fp16", "bf16") if device == "cuda" else ("fp32",):
        words = command(
            *("cape-fairseq", "benchmark", "--device", device, "--precision", precision),
            *("--parts", "training", "memory", "--lengths", 30, 100, "--seconds", 30),
            *("--rounds", 5, "--json", f"benchmark-{precision}.json"),
            () if device == "cpu" else ("--size", ""),
        )
        plan.add(Job(f"benchmark-{precision}", (words,), (), (f"benchmark-{precision}.json",)))
    text = corpora.quick_start(plan)
    for encoding in ENCODINGS:
        for name, flags in PRECISIONS.items():
            if device == "cpu" and name == "fp16":
                continue  # fairseq's needs a GPU
            run = f"{encoding}/{name}"
            words = command(
                *("cape-fairseq", "train-run", run, "--", text.folder, text.languages),
                *("--arch", f"{encoding}_transformer_tiny", TRAINING, flags),
                *("--max-update", updates),
            )
            plan.add(Job(f"{run}/train", (words,), (text.ready,), (f"{run}/trained",)))


def check(plan: Plan) -> dict[str, str]:
    """Run every job, in the current folder -> what failed, and why. One failure stops no other."""
    failed: dict[str, str] = {}
    for number, job in enumerate(plan.jobs, 1):
        print(f"[{number}/{len(plan.jobs)}] {job.name}", file=sys.stderr, flush=True)
        try:
            run_job(job)
        except UserError:
            failed[job.name] = (last_words(Path(job.log)) or ["it said nothing"])[-1]
    return failed


def losses(out: Path) -> Rows:
    """Validation loss of every encoding in every precision, and the difference to float32."""
    lines = []
    for encoding in ENCODINGS:
        found = {}
        for name in PRECISIONS:
            log = out / encoding / name / "logs" / "training.log"
            valid = read(log).valid if log.exists() else {}
            if valid:
                found[name] = valid[max(valid)]["loss"]
        plain = found.get("float32")
        cells = [
            f"{found[name]:.3f} ({found[name] / plain - 1:+.2%})"
            if plain and name in found
            else "-"
            for name in PRECISIONS
            if name != "float32"
        ]
        lines.append([encoding, "-" if plain is None else f"{plain:.3f}", *cells])
    head = ["encoding", *PRECISIONS]
    return Rows(head, lines, title="Validation loss (bits), and its difference to float32")


def report(out: Path, device: str, failed: dict[str, str]) -> list[Rows]:
    """All that was found; also as check.json and check.md."""
    from cape_fairseq.experiments.machine import device as place

    tables = [losses(out)]
    for path in sorted(out.glob("benchmark-*.json")):
        found = read_json(path, "head", "rows")
        title = f"{path.stem}: {found.get('title') or 'training step'}"
        tables.append(Rows(found["head"], found["rows"], title=title))
        tables += [
            Rows(other["head"], other["rows"], title=f"{path.stem}: {other['title']}")
            for other in found.get("tables", [])
        ]
    lines = [[name, why] for name, why in failed.items()] or [["nothing", ""]]
    tables.append(Rows(["failed", "why"], lines))
    page = [f"# GPU check: {place()}", ""]
    for rows in tables:
        page += ["```", text(rows), "```", ""]
    write_lines(out / "check.md", page)
    found = {"device": place(), "kind": device, "failed": failed}
    found["tables"] = [as_json(rows) for rows in tables]
    write_lines(out / "check.json", [json.dumps(found, indent=1)])
    return tables
