"""Recipes from text to a score: whatever hinders one, it comes to the same results."""

import contextlib
import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import time

import psutil
import pytest
import torch

from cape_fairseq.experiments.machine import CPU_ONLY
from tests.recipes.support import command_line, recipe, write_corpus
from tests.support import cape

SMALL = ("--bpe", "60", "--seed", "3")
TINY = (
    *("--", "--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "32"),
    *("--max-tokens", "300", "--save-interval-updates", "10", "--no-epoch-checkpoints"),
    *("--validate-interval", "100", "--num-workers", "0"),
)
UPDATES = 120


def outcome(folder):
    """What a run came to: parameters, and its results but for times."""
    run_folder = folder / "out" / "cape_transformer_tiny"
    path = run_folder / "checkpoints" / "checkpoint_last.pt"
    results = json.loads((run_folder / "results.json").read_text())
    kept = ("updates", "best_value", "best_update", "seed", "options", "tests")
    return torch.load(path, weights_only=True)["model"], {key: results[key] for key in kept}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The folder of a run from text to its score, and what it printed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_corpus(folder / "data", train=60, valid=5, test=4)
    plain = folder / "data" / "train.en"
    plain.with_name("train.en.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    result = recipe(folder, *SMALL, "--max-update", UPDATES, *TINY)
    return folder, result


def test_text_to_results(undisturbed, monkeypatch):
    folder, printed = undisturbed
    run_folder = folder / "out" / "cape_transformer_tiny"
    results = json.loads((run_folder / "results.json").read_text())
    assert results["updates"] == UPDATES
    assert results["options"]["source_scale"] != 1.0
    assert results["tests"]["test"]["sentences"] == 4
    assert results["tests"]["test"]["signature"].startswith("nrefs:1")
    assert results["training"]["dataset.max_tokens"] == 300
    assert results["processes"] == 1
    assert results["wall_seconds"] > 0
    assert results["device"]
    assert results["training"]["task.data"] == "data-bin"  # a folder that can be moved
    assert len((run_folder / "test.txt").read_text().splitlines()) == 4
    assert "BLEU test" in printed.stdout
    assert "[8/10] cape_transformer_tiny/test: done in" in printed.stderr
    monkeypatch.setenv(CPU_ONLY, "1")
    words = (*command_line(folder)[2:], "--bpe", 80, "--max-update", 9)
    other = cape("train", *words, check=False)
    assert other.returncode == 1
    assert "was made with other settings" in other.stderr


def start(folder, *, limit: int = 0) -> subprocess.Popen:
    """The recipe of :func:`undisturbed` in the background; no file may be larger than ``limit``."""

    def full_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    words = [*command_line(folder), *SMALL, "--max-update", UPDATES, *TINY]
    return subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=full_disk if limit else None,
        env={**os.environ, "OMP_NUM_THREADS": "1", CPU_ONLY: "1"},
    )


def wait_for(path, words, process):
    while not (path.exists() and words in path.read_text()):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)


def test_a_full_disk_signals_and_a_second_start_change_nothing(undisturbed, monkeypatch):
    """The same training, hindered in every way, comes to the same results bit for bit; what came
    after it runs again, and what came before does not."""
    folder = undisturbed[0]
    expected = outcome(folder)
    run_folder = folder / "out" / "cape_transformer_tiny"
    shutil.rmtree(run_folder / "checkpoints")  # what was translated stays, and is old
    for made in ("results.json", "table.txt"):
        (run_folder / made).unlink()
    log = run_folder / "logs" / "training.log"

    hindered = start(folder, limit=300_000)  # checkpoints are larger
    assert hindered.wait() == 1
    assert "cape_transformer_tiny/train failed" in hindered.stdout.read()
    assert not list((run_folder / "checkpoints").glob("*.pt"))
    log.unlink()

    stopped = start(folder)
    wait_for(log, "Saved checkpoint", stopped)
    stopped.terminate()
    assert stopped.wait() == 143
    told = stopped.stdout.read()
    assert "stopped; the same command goes on from here" in told
    assert not training_in(run_folder)

    killed = start(folder)
    wait_for(log, "Loaded checkpoint", killed)
    held = training_in(run_folder)  # it would be faster than a second start
    assert held
    for process in held:
        process.suspend()
    monkeypatch.setenv(CPU_ONLY, "1")
    words = (*command_line(folder)[2:], *SMALL, "--max-update", UPDATES, *TINY)
    second = cape("train", *words, check=False)
    assert second.returncode == 1
    assert "out is in use by process " in second.stderr
    kill_recipe(killed)
    assert not (run_folder / "checkpoints" / "trained.json").exists()
    for process in held:
        process.resume()

    last = start(folder)  # waits for the training that is still there
    told = last.communicate()[0]
    assert last.returncode == 0, told
    assert_equal(outcome(folder), expected)
    for job in ("train", "test", "score"):
        assert f"cape_transformer_tiny/{job}: done in" in told
    assert "binarize: done" not in told


def training_in(folder) -> list[psutil.Process]:
    """Processes of fairseq-train that save to a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        saves = any(word.endswith(f"{folder.name}/checkpoints") for word in words)
        with contextlib.suppress(psutil.Error):  # it has ended, or is somebody else's
            if "fairseq_cli.train" in words and saves and process.cwd() == str(folder.parent):
                found.append(process)
    return found


def kill_recipe(process: subprocess.Popen) -> None:
    """Kill the recipe and Snakemake at once; the training goes on."""
    for other in psutil.Process(process.pid).children(recursive=True):
        if "snakemake" in " ".join(other.cmdline()) and "run-job" not in other.cmdline():
            other.kill()
    process.kill()
    process.wait()


def assert_equal(one, other):
    assert one[1] == other[1]
    assert one[0].keys() == other[0].keys()
    for key, value in one[0].items():
        assert torch.equal(value, other[0][key]), key


def test_what_did_not_change_does_not_run_again(undisturbed):
    """Nor is a model trained again that was removed to save room; this comes last."""
    shutil.rmtree(undisturbed[0] / "out" / "cape_transformer_tiny" / "checkpoints")
    again = recipe(undisturbed[0], *SMALL, "--max-update", UPDATES, *TINY)
    assert "done in" not in again.stderr
    assert "BLEU test" in again.stdout
