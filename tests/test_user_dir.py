"""The encoding of docs/development.md, in a folder outside of the package."""

import re
import sys

import pytest

from cape_fairseq.positions import ENCODINGS
from tests.support import ROOT, add_options, run, train_options


def read_examples() -> tuple[str, str]:
    """Return the example of an encoding, and its test."""
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    return tuple(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2])


def test_its_own_test_passes():
    encoding, test = read_examples()
    names = {"__name__": __name__}
    try:
        exec(compile(f"{encoding}\n{test}", "development.md", "exec"), names)
        names["test_scores_fall_with_the_square_of_the_distance"]()
    finally:
        ENCODINGS.pop("gaussian", None)


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
