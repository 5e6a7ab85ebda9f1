"""The encoding of docs/development.md, in a folder outside of the package."""

from __future__ import annotations

import re
import sys

from tests.support import ROOT, add_options, run, train_options


def read_examples() -> tuple[str, str]:
    """Return the example of an encoding, and its test."""
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    return tuple(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2])


def test_it_is_trained_tested_and_translates(data_bin, tmp_path):
    encoding, test = read_examples()
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "gaussian.py").write_text(encoding)
    (folder / "__init__.py").write_text(
        "from . import gaussian; import cape_fairseq.models, cape_fairseq.tasks\n"
    )
    (tmp_path / "test_gaussian.py").write_text(f"import mine\n{test}")
    arch = "gaussian_transformer_tiny"
    options = train_options(data_bin, tmp_path / "save", arch, 2)
    options += ["--gaussian-width", 10]
    arguments = [word for word in add_options("train", options) if word != "--user-dir"]
    arguments[arguments.index(str(ROOT / "cape_fairseq"))] = f"--user-dir={folder}"
    run(sys.executable, "-m", "fairseq_cli.train", *arguments)
    tool = (sys.executable, "-m", "cape_fairseq.cli", "translate", "--user-dir", folder)
    checkpoint = (tmp_path / "save" / "checkpoint_last.pt", "--data", data_bin, "--beam", 1)
    assert run(*tool, *checkpoint, input="the man .\n").stdout.count("\n") == 1
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    result = run(*command, cwd=ROOT, check=False)
    assert "1 passed" in result.stdout, result.stdout
