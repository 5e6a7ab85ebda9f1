"""The encoding and the kernel of docs/development.md."""

import re
import sys

import pytest
import torch

from cape_fairseq.positions import ENCODINGS
from tests.support import ROOT, add_options, build_encoding, run, train_options


def read_examples() -> list[str]:
    """Return the example of an encoding, and that of a kernel."""
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run_example(code: str) -> dict:
    """Return the names that an example of the documentation defines."""
    names = {"__name__": __name__}
    exec(compile(code, "development.md", "exec"), names)
    return names


def test_scores_of_the_encoding_fall_with_the_square_of_the_distance():
    try:
        run_example(read_examples()[0])
        encoding = build_encoding("gaussian", gaussian_width=4.0)
    finally:
        ENCODINGS.pop("gaussian", None)
    positions = torch.tensor([[0.0, 1.0, 3.0, 11.0]])
    found = encoding.score_bias(positions, positions)[0, 0]
    distance = positions.t() - positions
    torch.testing.assert_close(found, -(distance**2) / (2 * 4.0**2))


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float", "one step"])
def test_scores_of_the_kernel_fall_with_the_distance(mask):
    kernel = run_example(read_examples()[1])["Sloped"]()
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    bias = -0.1 * (torch.arange(5)[:, None] - torch.arange(5)).abs().float()
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = bias if mask == "none" else bias.masked_fill(hidden, float("-inf"))
    options = {}
    if mask == "causal":
        options["causal"] = True
    elif mask == "bool":
        options["mask"] = ~hidden[None, None]
    elif mask == "float":
        options["mask"] = torch.zeros(5, 5).masked_fill(hidden, float("-inf"))[None, None]
    elif mask == "one step":
        q, expected = q[:, :, 4:], expected[4:]
    weights = (q @ k.transpose(2, 3) / 8**0.5 + expected).softmax(-1)
    for need_weights in (False, True):
        found, _ = kernel(q, k, v, need_weights=need_weights, **options)
        torch.testing.assert_close(found, weights @ v)


@pytest.mark.slow
def test_it_is_trained_and_translates(data_bin, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "gaussian.py").write_text(read_examples()[0])
    (folder / "__init__.py").write_text(
        "from . import gaussian; import cape_fairseq.models, cape_fairseq.tasks\n"
    )
    arch = "gaussian_transformer_tiny"
    options = [*train_options(data_bin, tmp_path / "save", arch, 2), "--gaussian-width", 10]
    arguments = [word for word in add_options("train", options) if word != "--user-dir"]
    arguments[arguments.index(str(ROOT / "cape_fairseq"))] = f"--user-dir={folder}"
    run(sys.executable, "-m", "fairseq_cli.train", *arguments)
    tool = (sys.executable, "-m", "cape_fairseq.cli", "translate", "--user-dir", folder)
    checkpoint = (tmp_path / "save" / "checkpoint_last.pt", "--data", data_bin, "--beam", 1)
    assert run(*tool, *checkpoint, input="the man .\n").stdout.count("\n") == 1
    options = run(*tool[:3], "encodings", "gaussian", "--user-dir", folder).stdout
    assert "--gaussian-width" in options
