"""The paper's protocol, end to end on a very small corpus, and what it refuses."""

import re

import torch

from tests.support import ROOT, run

SMALL = (
    "--plain-updates",
    4,
    "--updates",
    4,
    "--average",
    2,
    "--compare",
    "--",
    "--encoder-layers",
    1,
    "--decoder-layers",
    1,
    "--max-tokens",
    400,
)


def floater(*options, **more):
    return run(["bash", ROOT / "recipes" / "floater.sh", *options], **more)


def test_plain_copy_fine_tune_average_test(data_bin, tmp_path):
    first = floater(
        "--out", tmp_path / "out", "--data-bin", data_bin, "--src", "en", "--tgt", "de", *SMALL
    )
    state, rate = {}, {}
    for name in ("plain", "floater", "plain-longer", "scratch"):
        folder = tmp_path / "out" / name
        assert f"{name}: " in first.stdout
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
    assert rate == {
        "plain": [0.004],
        "floater": [0.002],
        "plain-longer": [0.002],
        "scratch": [0.004],
    }
    assert any("flow" in key for key in state["floater"])
    solved = torch.load(
        tmp_path / "out" / "floater" / "checkpoints" / "checkpoint_solved.pt", weights_only=True
    )
    assert len(solved["model"]["encoder.flow.stored"]) == 1024
    for name in ("floater", "scratch"):
        assert re.search(rf"^floater: {name}: decoder +1024 +\d\.\de-\d\d$", first.stdout, re.M)
    assert not any("flow" in key for key in state["plain-longer"])
    log = (tmp_path / "out" / "floater" / "logs" / "training.log").read_text()
    assert "plain/checkpoints/checkpoint_best.pt" in log
    assert "not in the checkpoint, so newly initialized: encoder.flow.initial" in log
    again = floater(
        "--out", tmp_path / "out", "--data-bin", data_bin, "--src", "en", "--tgt", "de", *SMALL
    )
    assert again.stdout.count("train: done before") == 4


def test_bad_options_are_one_sentence(data_bin, tmp_path):
    for options, message in (
        (("--updates", "0"), "--updates is 0, but it must be a whole number above 0"),
        (("--updates", "3"), "--updates is 3, but 5 checkpoints are to be averaged"),
        (
            ("--updates", "607"),
            "--plain-updates is 600, but must be at least 605, as long as checkpoints are averaged",
        ),
        (("--plain-updates", "x"), "--plain-updates is x, but"),
        (
            ("--data-bin", data_bin, "--tgt", "de", "--src", "fr"),
            "has no dict.fr.txt; give --data-bin what",
        ),
        (("--lr", "fast"), "--lr is fast, but it must be a number"),
        (("--size",), "--size needs a value"),
    ):
        result = floater("--out", tmp_path / "out", *options, check=False)
        assert result.returncode == 1
        assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()
