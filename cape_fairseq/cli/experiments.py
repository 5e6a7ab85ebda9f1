"""Tools that run experiments, and that a running experiment calls."""

from __future__ import annotations

import argparse
import os
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from cape_fairseq.cli.tool import Found, Tool, positive, show
from cape_fairseq.errors import UsageError, UserError
from cape_fairseq.system import cores

if TYPE_CHECKING:
    from cape_fairseq.experiments.jobs import Plan


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers above 0, between spaces."""
    if not text.split():
        raise argparse.ArgumentTypeError("there is none; give at least one number")
    return tuple(positive(word) for word in text.split())


def shell_words(text: str) -> tuple[str, ...]:
    """Words as a shell takes them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be split into words: {error}") from None


def add_machine(parser: ArgumentParser) -> None:
    how_many = "of this machine (OMP_NUM_THREADS, or all)"
    parser.add_argument("--cores", type=positive, default=cores(), help=how_many)
    parser.add_argument("--executor", default="", help="of Snakemake, as slurm (this machine)")
    parser.add_argument("--profile", default="", metavar="DIR", help="of Snakemake")
    more = 'more options for it, as in --snakemake="--keep-going"'
    parser.add_argument("--snakemake", type=shell_words, default=(), metavar="WORDS", help=more)
    parser.add_argument("--dry-run", action="store_true", help="print the commands instead")


def add_papers(parser: ArgumentParser) -> None:
    parser.add_argument("experiments", nargs="+", metavar="EXPERIMENT", help="tables to make")
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), help="(runs/papers)")
    parser.add_argument("--archives", type=Path, help="where archives are already (fetch them)")
    parser.add_argument("--rows", default="", metavar='"A B ..."', help="(all that are published)")
    parser.add_argument("--seeds", type=numbers, default=(), metavar='"N ..."', help="(all)")
    parser.add_argument("--gpus", type=positive, help="of a training, on each node")
    parser.add_argument("--nodes", type=positive, default=1, help="of a training (1)")
    parser.add_argument("--cpu", action="store_true", help="train the papers' models without a GPU")
    parser.add_argument("--smoke", action="store_true", help="small models, a small corpus, no GPU")
    add_machine(parser)


def papers(args: Namespace) -> Found:
    from cape_fairseq.experiments import plan as planning
    from cape_fairseq.experiments.jobs import Plan
    from cape_fairseq.experiments.papers import find

    plan = Plan()
    settings = planning.Settings(
        tuple(args.rows.split()),
        args.seeds,
        gpus_of(args),
        args.nodes,
        str(args.archives.absolute()) if args.archives else "",
        args.smoke,
    )
    for name in args.experiments:
        planning.experiment_jobs(plan, find(name), settings)
    kind = "archives" if args.archives or not args.smoke else "stand-ins"
    processes = settings.gpus * settings.nodes
    made = f"papers smoke={args.smoke} {kind} processes={processes}"
    return start(args, plan, made, settings.gpus, cpu=args.smoke or args.cpu)


def gpus_of(args: Namespace) -> int:
    """GPUs of a training: as given; one, if there is any; none for a smoke run.

    Raises:
        UserError: there is none, and the models are the papers'.
    """
    from cape_fairseq.experiments.machine import has_gpu

    if args.smoke or args.cpu:
        return 0
    if not (has_gpu() or args.dry_run or args.executor or args.profile):
        raise UserError(
            "there is no GPU here, and the papers' models take weeks without one; add --smoke to "
            "try the path, --executor slurm for a cluster, or --cpu to do it all the same"
        )
    return args.gpus or 1


def start(
    args: Namespace, plan: Plan, settings: str, gpus: int | None = None, cpu: bool = False
) -> Found:
    """Run a plan in ``args.out``, or show it. Without ``gpus`` a training takes one, if there is
    any."""
    from cape_fairseq.evaluation.rows import Rows
    from cape_fairseq.experiments import engine
    from cape_fairseq.experiments.machine import has_gpu

    if args.dry_run:
        for job in plan.jobs:
            print(f"# {job.name}", *job.shown(), sep="\n")
        return Found([])
    gpus = int(has_gpu()) if gpus is None else gpus
    places = (args.cores, args.executor, args.profile, args.snakemake)
    engine.run(plan, args.out.absolute(), engine.Machine(gpus, cpu, *places), settings)
    made = [[str(args.out / path)] for path in plan.shown]
    return Found([Rows(["made"], made)] if args.json else [])


def add_job(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a file of the engine")
    parser.add_argument("name", metavar="NAME", help="of the job")


def run_job(args: Namespace) -> Found:
    from cape_fairseq.experiments import launch
    from cape_fairseq.experiments.jobs import read_job

    launch.run_job(read_job(args.plan, args.name))
    return Found([])


def add_train(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN")
    parser.add_argument("--parent", type=Path, help="the checkpoint to start from")
    parser.add_argument("--gpus", type=positive, default=0, help="on each node")
    parser.add_argument("--nodes", type=positive, default=1, help="under Slurm (1)")


def train_run(args: Namespace) -> Found:
    from cape_fairseq.experiments.training import TrainingRun

    if not args.passed_on:
        raise UsageError("no data are given; add -- DATA and the options of fairseq-train")
    TrainingRun(args.folder, args.passed_on, args.parent, args.gpus, args.nodes).train()
    return Found([])


def add_list(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", default=[], metavar="EXPERIMENT", help="only these")
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), help="(runs/papers)")


def list_experiments(args: Namespace) -> Found:
    from cape_fairseq.experiments import listing
    from cape_fairseq.experiments.papers import find

    return Found(listing.rows(args.out, [find(name).name for name in args.names]))


def add_collect(parser: ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="the experiment's folder, with ROW/SEED in it")
    parser.add_argument("--table", required=True, metavar="EXPERIMENT")


def collect(args: Namespace) -> Found:
    from cape_fairseq.experiments import collected
    from cape_fairseq.experiments.papers import find

    return Found(collected.tables(args.out, find(args.table)))


def add_gpu_check(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("runs/gpu-check"), help="(runs/gpu-check)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="(cuda)")
    parser.add_argument("--updates", type=positive, default=100, help="of a training (100)")
    parser.add_argument("--wheels", action="store_true", help="print what to carry, and end")


def gpu_check(args: Namespace) -> Found:
    from cape_fairseq.experiments import gpu_check as tool
    from cape_fairseq.experiments.jobs import Plan
    from cape_fairseq.experiments.machine import CPU_ONLY, has_gpu

    if args.wheels:
        print(*tool.wheels(), sep="\n")
        return Found([])
    if args.device == "cuda" and not has_gpu():
        raise UserError("there is no GPU here; --device cpu tries the path without one")
    out = fresh(args.out.absolute())
    args.json = args.json and args.json.absolute()
    plan = Plan()
    tool.jobs(plan, args.device, args.updates)
    os.chdir(out)
    if args.device == "cpu":
        os.environ[CPU_ONLY] = "1"
    failed = tool.check(plan)
    tables = tool.report(out, args.device, failed)
    if failed:
        show(args, Found(tables))
        raise UserError(f"{len(failed)} of {len(plan.jobs)} checks failed; see {out / 'check.md'}")
    return Found(tables)


def fresh(out: Path) -> Path:
    """An empty folder."""
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty, and old results must not pass for new ones")
    out.mkdir(parents=True, exist_ok=True)
    return out


COLLECT = """\
Ours is the mean over seeds (and test sets, where the paper has one number for them) with the
standard deviation over seeds; "-" is not measured, or not published. The scores' signature and
every test set are in the results.json files."""
TRAIN = """\
Checkpoints, training.json and logs/training.log are in RUN. The same command goes on where a
training stopped, and further with a larger --max-update. With other data, or another parent, it
starts anew; other options are refused. Only one training at a time works in a folder; another one
waits for its end."""
PAPERS = """\
cape-fairseq experiments lists them. Everything goes to --out: corpora/, shared by all, and
EXPERIMENT/ROW/SEED. A second start does what is left, and what depends on something that changed.
The tokens of an update stay the paper's whatever the number of GPUs."""

GPU = """\
Tests that need a GPU, speed and memory in float32 and half precision, and a short training of every
encoding in float32, fp16, amp and autocast; OUT/check.md and check.json. It needs no network and no
Snakemake. --wheels prints what a machine with torch still needs. With the same version of Python:
pip wheel fairseq-fixed and torchdiffeq with --no-deps, so that torch stays out, and the others with
what they need; carry the wheels, and pip install --no-index --no-deps all of them."""
TOOLS = (
    Tool(
        "experiments",
        "the papers' tables: rows, seeds, costs, state, time to go",
        add_list,
        list_experiments,
    ),
    Tool("collect", "a paper's table with our numbers beside it", add_collect, collect, COLLECT),
    Tool("papers", "run the papers' experiments: a table each", add_papers, papers, PAPERS),
    Tool(
        "train-run",
        "fairseq-train in a folder that resumes",
        add_train,
        train_run,
        TRAIN,
        True,
        False,
    ),
    Tool("gpu-check", "all that needs a GPU, in one command", add_gpu_check, gpu_check, GPU),
    Tool("run-job", "run one job of a plan (Snakemake calls this)", add_job, run_job, tables=False),
)
