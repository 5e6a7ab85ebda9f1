"""The paper's protocol, end to end on a very small corpus, and what it refuses."""

import json
import re

import torch

from tests.support import cape

SMALL = (
    "--plain-updates",
    4,
    "--updates",
    4,
    "--average",
    2,
    "--",
    "--encoder-layers",
    1,
    "--decoder-layers",
    1,
    "--max-tokens",
    400,
    "--num-workers",
    0,
)


def test_plain_copy_fine_tune_average_test(data_bin, tmp_path, forked_jobs):
    where = ("--out", tmp_path / "out", "--data-bin", data_bin)
    first = cape("floater", *where, "--src", "en", "--tgt", "de", *SMALL)
    state, rate = {}, {}
    for name in ("plain", "floater"):
        folder = tmp_path / "out" / name
        assert f"{name} " in first.stdout
        output = (folder / "test.out").read_text().splitlines()
        assert len([line for line in output if line.startswith("H-")]) == 12
        average = torch.load(folder / "checkpoints" / "checkpoint_average.pt", weights_only=True)
        state[name] = average["model"]
        rate[name] = average["cfg"]["optimization"]["lr"]
        weight = "decoder.layers.0.fc1.weight"
        paths = (folder / "checkpoints").glob("checkpoint_[0-9]*.pt")
        saved = [torch.load(path, weights_only=True)["model"][weight] for path in paths]
        assert len(saved) == 2
        assert torch.allclose(state[name][weight], sum(saved) / 2)
    assert rate == {"plain": [0.004], "floater": [0.002]}
    assert any("flow" in key for key in state["floater"])
    solved = torch.load(
        tmp_path / "out" / "floater" / "checkpoints" / "checkpoint_solved.pt", weights_only=True
    )
    counts = solved["model"]["decoder.flow.seen.counts"]
    longest = int(counts.nonzero()[:, 1].max())  # of 300 texts, so that each counts
    assert len(solved["model"]["decoder.flow.stored"]) == longest
    told = (tmp_path / "out" / "floater" / "solved.txt").read_text()
    assert re.search(rf"^decoder +{longest} +\d\.\de-\d\d +\d+ +\d\.\de-\d\d$", told, re.M)
    assert told in first.stdout
    log = (tmp_path / "out" / "floater" / "logs" / "training.log").read_text()
    assert "plain/checkpoints/checkpoint_best.pt" in log
    assert "not in the checkpoint, so newly initialized: encoder.flow.initial" in log
    results = json.loads((tmp_path / "out" / "floater" / "results.json").read_text())
    assert results["tests"]["test"]["sentences"] == 12
    assert "BLEU of floater, and what it gains over plain: " in first.stdout


def last(words, option):
    """The value of an option that comes several times."""
    return words[len(words) - words[::-1].index(option)]


def test_compare_trains_as_long_from_the_plain_model_and_from_scratch(data_bin):
    options = ("--data-bin", data_bin, "--updates", 4, "--average", 2, "--plain-updates", 6)
    printed = cape("floater", *options, "--compare", "--dry-run").stdout.splitlines()
    found = {}
    for words in (line.split() for line in printed if " train-run " in line):
        limits = (last(words, option) for option in ("--arch", "--lr", "--max-update"))
        found[words[2]] = (*limits, "--parent" in words)
    assert found == {
        "plain": ("sinpos_transformer_tiny", "0.004", "6", False),
        "floater": ("floater_transformer_tiny", "0.002", "4", True),
        "plain-longer": ("sinpos_transformer_tiny", "0.002", "4", True),
        "scratch": ("floater_transformer_tiny", "0.004", "10", False),
    }


def test_bad_options_are_one_sentence(data_bin, tmp_path):
    for options, status, message in (
        (("--updates", "0"), 2, "argument --updates: 0 is not a whole number above 0"),
        (("--updates", "3"), 1, "--updates is 3, but 5 checkpoints are to be averaged"),
        (
            ("--updates", "607"),
            1,
            "--plain-updates is 600, but must be at least 605, as long as checkpoints are averaged",
        ),
        (("--plain-updates", "x"), 2, "argument --plain-updates: x is not a whole number"),
        (
            ("--data-bin", data_bin, "--tgt", "de", "--src", "fr"),
            1,
            "has no dict.fr.txt; give --data-bin what",
        ),
        (("--lr", "fast"), 2, "argument --lr: invalid float value: 'fast'"),
        (("--size",), 2, "argument --size: expected one argument"),
    ):
        result = cape("floater", "--out", tmp_path / "out", *options, check=False)
        assert result.returncode == status
        assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()
