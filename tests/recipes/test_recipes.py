"""Recipes from text to a score: bad input is one sentence and nothing written, and whatever hinders
a recipe, it comes to the same results."""

import gzip
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import psutil
import pytest
import torch

from cape_fairseq.data.toy_grammar import sentence
from tests.support import ROOT, cape, run


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
    return run([*command_line(folder), *options], check=check)


def damage(folder, kind):
    path = folder / "data" / "val.de"
    lines = path.read_bytes().splitlines(keepends=True)
    if kind == "missing":
        path.unlink()
        return
    if kind == "unequal":
        del lines[3]
    elif kind == "empty":
        lines[2] = b" \n"
    else:
        lines[1] = b"\xff\xfe\n"
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "there is no val.de or val.de.gz in "),
        ("unequal", "val.en has 5 lines and "),
        ("empty", "val.de, line 3: empty; "),
        ("not UTF-8", "val.de, line 2: not UTF-8; "),
    ],
)
def test_bad_text_is_one_sentence_and_nothing_written(tmp_path, kind, message):
    write_corpus(tmp_path / "data", train=9, val=5, test_2016_flickr=4)
    damage(tmp_path, kind)
    result = recipe(tmp_path, check=False)
    assert result.returncode != 0
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--bpe", "many"], 2, "argument --bpe: many is not a whole number above 0"),
        (["--max-update", "-5"], 2, "argument --max-update: -5 is not a whole number above 0"),
        (["--max-update", "0"], 2, "argument --max-update: 0 is not a whole number above 0"),
        (["--select", "luck"], 2, "argument --select: invalid choice: 'luck'"),
        (["--frobnicate"], 2, "unrecognized arguments: --frobnicate"),
        (["--seed"], 2, "argument --seed: expected one argument"),
        (["--data", "/nowhere"], 1, "there is no folder /nowhere; give --data a folder with"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, options, status, message):
    write_corpus(tmp_path / "data", train=9, val=5, test_2016_flickr=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    result = cape("train", *words, *options, check=False)
    assert result.returncode == status
    assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_run_goes_on_from_another(tmp_path):
    write_corpus(tmp_path / "data", train=9, val=5, test_2016_flickr=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    for parent, message in (
        ("sinpos", "has no trained run sinpos; train it first, with the same --out"),
        ("cape_transformer_tiny", "--parent cape_transformer_tiny is this run itself"),
    ):
        refused = cape("train", *words, "--parent", parent, check=False)
        assert refused.returncode == 1
        assert message in refused.stderr
    ready = tmp_path / "out" / "sinpos" / "checkpoints" / "trained.json"
    ready.parent.mkdir(parents=True)
    ready.touch()
    printed = cape("train", *words, "--parent", "sinpos", "--long", 50, "--dry-run").stdout
    (line,) = (line for line in printed.splitlines() if " train-run " in line)
    assert "--parent sinpos/checkpoints/checkpoint_best.pt" in line
    assert "--stack-from-epoch 1" in line
    assert line.rindex("--lr 2e-3") > line.rindex("--lr 4e-3")


def test_a_model_of_fairseq_gets_no_option_of_this_project(tmp_path):
    write_corpus(tmp_path / "data", train=9, val=5, test_2016_flickr=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    for arch, known in (
        ("cape_transformer_tiny", True),
        ("transformer_iwslt_de_en", False),
        ("cmlm_transformer", False),
        ("rope_cross_transformer", True),
    ):
        printed = cape("train", *words, "--arch", arch, "--dry-run").stdout
        (line,) = (line for line in printed.splitlines() if " train-run " in line)
        assert ("--fast-dropout" in line) == known


def test_long_text_comes_after_short_text(tmp_path):
    write_corpus(tmp_path / "data", train=9, val=5, test_2016_flickr=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    options = ("--long", 50, "--max-update", 90, "--dry-run")
    printed = cape("train", *words, *options).stdout
    short, long = (line for line in printed.splitlines() if " train-run " in line)
    assert "train-run cape_transformer_tiny --" in short
    assert "--max-update 90" in short
    assert "stacked" not in short
    assert "train-run cape_transformer_tiny-long --parent cape_transformer_tiny/" in long
    assert "--max-update 30" in long
    assert "--stack-max-tokens 50 --stack-from-epoch 1" in long
    assert "compare cape_transformer_tiny/results.json cape_transformer_tiny-long/" in printed
    printed = cape("train", *words, *options, "--", "--lr", "5e-4", "--warmup-updates", 4000).stdout
    short, long = (line for line in printed.splitlines() if " train-run " in line)
    assert short.endswith("--lr 5e-4 --warmup-updates 4000")
    assert "--warmup-updates 100 --lr 0.00025 --max-update 30" in long
    refused = cape("train", *words, *options, "--", "--lr", "5e-4,1e-4", check=False)
    assert "--lr is 5e-4,1e-4, and --long goes on at half of it" in refused.stderr
    printed = cape("train", *words, *options, "--long-from-epoch", 2).stdout
    (both,) = (line for line in printed.splitlines() if " train-run " in line)
    assert "--stack-max-tokens 50 --stack-from-epoch 2" in both
    refused = cape("train", *words, "--long-from-epoch", 2, check=False)
    assert refused.returncode == 2
    assert "--long-from-epoch is for the stacks of --long N" in refused.stderr


SMALL = ("--bpe", "60", "--seed", "3")
TINY = (
    *("--", "--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "32"),
    *("--max-tokens", "300", "--save-interval-updates", "10", "--no-epoch-checkpoints"),
    *("--validate-interval", "100", "--num-workers", "0"),
)
UPDATES = 60


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
    write_corpus(folder / "data", train=60, val=5, test_2016_flickr=4)
    plain = folder / "data" / "train.en"
    plain.with_name("train.en.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    result = recipe(folder, *SMALL, "--max-update", UPDATES, *TINY)
    return folder, result


def test_text_to_results(undisturbed):
    folder, printed = undisturbed
    run_folder = folder / "out" / "cape_transformer_tiny"
    results = json.loads((run_folder / "results.json").read_text())
    assert results["updates"] == UPDATES
    assert results["options"]["source_scale"] != 1.0
    assert results["tests"]["test_2016_flickr"]["sentences"] == 4
    assert results["tests"]["test_2016_flickr"]["signature"].startswith("nrefs:1")
    assert results["training"]["dataset.max_tokens"] == 300
    assert results["processes"] == 1
    assert results["wall_seconds"] > 0
    assert results["device"]
    assert results["training"]["task.data"] == "data-bin"  # a folder that can be moved
    assert len((run_folder / "test_2016_flickr.txt").read_text().splitlines()) == 4
    assert "BLEU test_2016_flickr" in printed.stdout
    assert "[7/9] cape_transformer_tiny/test_2016_flickr: done in" in printed.stderr
    other = recipe(folder, "--bpe", "80", "--max-update", "9", check=False)
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
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(path, words, process):
    while not (path.exists() and words in path.read_text()):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)


def test_a_full_disk_signals_and_a_second_start_change_nothing(undisturbed, tmp_path):
    """The same recipe, hindered in every way, comes to the same results bit for bit."""
    shutil.copytree(undisturbed[0] / "data", tmp_path / "data")
    run_folder = tmp_path / "out" / "cape_transformer_tiny"
    log = run_folder / "logs" / "training.log"

    hindered = start(tmp_path, limit=300_000)  # checkpoints are larger
    assert hindered.wait() == 1
    assert "cape_transformer_tiny/train failed" in hindered.stdout.read()
    assert not list((run_folder / "checkpoints").glob("*.pt"))
    log.unlink()

    stopped = start(tmp_path)
    wait_for(log, "Saved checkpoint", stopped)
    stopped.terminate()
    assert stopped.wait() == 143
    told = stopped.stdout.read()
    assert "stopped; the same command goes on from here" in told
    assert not training_in(run_folder)

    killed = start(tmp_path)
    wait_for(log, "Loaded checkpoint", killed)
    held = training_in(run_folder)  # it would be faster than a second start
    assert held
    for process in held:
        process.suspend()
    second = recipe(tmp_path, *SMALL, "--max-update", UPDATES, *TINY, check=False)
    assert second.returncode == 1
    assert "out is in use by process " in second.stderr
    kill_recipe(killed)
    assert not (run_folder / "checkpoints" / "trained.json").exists()
    for process in held:
        process.resume()

    last = start(tmp_path)  # waits for the training that is still there
    told = last.communicate()[0]
    assert last.returncode == 0, told
    assert_equal(outcome(tmp_path), outcome(undisturbed[0]))


def training_in(folder) -> list[psutil.Process]:
    """Processes of fairseq-train that save to a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        saves = any(word.endswith(f"{folder.name}/checkpoints") for word in words)
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
    for key, value in one[0].items():
        assert torch.equal(value, other[0][key]), key


def test_what_changed_runs_again_and_nothing_else(undisturbed):
    """After a model is removed and trained again its scores are new; this comes last."""
    folder = undisturbed[0]
    run_folder = folder / "out" / "cape_transformer_tiny"
    again = recipe(folder, *SMALL, "--max-update", UPDATES, *TINY)
    assert "done in" not in again.stderr
    assert "BLEU test_2016_flickr" in again.stdout
    shutil.rmtree(run_folder / "checkpoints")
    anew = recipe(folder, *SMALL, "--max-update", 3, *TINY)
    for job in ("train", "test_2016_flickr", "score"):
        assert f"cape_transformer_tiny/{job}: done in" in anew.stderr
    assert "binarize: done" not in anew.stderr
    assert json.loads((run_folder / "results.json").read_text())["updates"] == 3
