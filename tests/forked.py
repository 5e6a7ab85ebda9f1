"""Python commands as processes of their own that need not import torch and fairseq again, which
takes seconds.

They are forked from a server that has imported these two and nothing of this project.
"""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy

PRELOADED = [
    "fairseq_cli.train",
    "fairseq_cli.generate",
    "fairseq_cli.interactive",
    "fairseq_cli.preprocess",
    "torch._dynamo",
]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(PRELOADED)


def run_python(command: list[str], environment: dict, timeout: float, cwd=None, input: str = ""):
    """``subprocess.run`` of [python, "-m", module, ...] or [python, script, ...]."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("in", "out", "err")]
        files[0].write_text(input, encoding="utf-8")
        process = SERVER.Process(
            target=main, args=(command[1:], environment, str(cwd or os.getcwd()), files)
        )
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, timeout)
        output, errors = (path.read_text(encoding="utf-8") for path in files[1:])
    return subprocess.CompletedProcess(command, process.exitcode, output, errors)


def main(arguments: list[str], environment: dict, folder: str, files: list[Path]) -> None:
    """In the new process: be what the interpreter would be for these arguments."""
    for number, (path, flags) in enumerate(
        zip(files, (os.O_RDONLY, *(os.O_WRONLY | os.O_CREAT,) * 2), strict=True)
    ):
        os.dup2(os.open(path, flags), number)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115  (it stays open)
    for stream in (sys.stdout, sys.stderr):  # fairseq's logger has these objects already
        stream.reconfigure(encoding="utf-8")
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    numpy.random.seed()
    # As in a process that is started from a shell.
    multiprocessing.set_start_method("fork", force=True)
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # multiprocessing leaves them out


def two_processes(work: Callable[[], None], folder: Path) -> list[int]:
    """Run a function in two processes of one gloo group -> their exit statuses."""
    processes = [
        SERVER.Process(target=one_of_two, args=(work, rank, str(folder / "store")))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def one_of_two(work: Callable[[], None], rank: int, file: str) -> None:
    from torch import distributed

    distributed.init_process_group("gloo", f"file://{file}", world_size=2, rank=rank)
    work()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may wait for each other
