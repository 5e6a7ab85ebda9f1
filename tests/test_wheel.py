"""The wheel, outside the source tree: it has all files, and fairseq finds the plugin in it."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.support import ROOT, train_arguments


def files(folder):
    """What the package has, without what Python writes beside it."""
    found = [path for path in (folder / "cape_fairseq").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)) for path in found if path.parent.name != "__pycache__"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    for name in ("setup.py", "pyproject.toml", "README.md", "MANIFEST.in", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tree / name)
    shutil.copytree(
        ROOT / "cape_fairseq",
        tree / "cape_fairseq",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    command = ("-m", "pip", "wheel", *quiet, "--no-build-isolation", ".")
    subprocess.run([sys.executable, *command, "--wheel-dir", "dist"], cwd=tree, check=True)
    (path,) = (tree / "dist").glob("*.whl")
    return path


def test_it_has_every_file(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("cape_fairseq/")}
    assert packed == files(ROOT)


def test_fairseq_trains_with_it(wheel, data_bin, tmp_path):
    site = tmp_path / "site"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    install = ("-m", "pip", "install", *quiet, "--target", site, wheel)
    subprocess.run([sys.executable, *install], check=True)
    options = {
        "cwd": tmp_path,
        "env": {**os.environ, "PYTHONPATH": str(site)},
        "capture_output": True,
        "text": True,
        "check": True,
    }
    printed = subprocess.run([sys.executable, "-m", "cape_fairseq", "path"], **options).stdout
    assert printed.strip() == str(site / "cape_fairseq")
    arguments = train_arguments(data_bin, tmp_path / "run", "rope_transformer_tiny", updates=2)
    command = [sys.executable, "-m", "fairseq_cli.train", *arguments, "--user-dir", printed.strip()]
    subprocess.run([str(word) for word in command], **options)
    assert (tmp_path / "run" / "checkpoint_last.pt").exists()
