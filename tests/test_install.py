"""The installer: what it refuses, and that it is quick when there is nothing to do."""

import shutil
import sys

import pytest

from tests.support import ROOT, run


def test_installer_refuses_a_python_that_is_not_there_or_too_old(tmp_path):
    result = run(["bash", ROOT / "scripts" / "install.sh", tmp_path / "python"], check=False)
    assert result.returncode == 1
    assert "there is no" in result.stderr
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 3.8\n")
    old.chmod(0o755)
    result = run(["bash", ROOT / "scripts" / "install.sh", old], check=False)
    assert result.returncode == 1
    assert "is Python 3.8, and 3.10 to 3.13 are supported" in result.stderr


def test_installer_refuses_to_begin_without_a_compiler(tmp_path):
    for name in ("scripts/install.sh", "setup.py", "requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    command = ["bash", tmp_path / "scripts" / "install.sh", sys.executable]
    if sys.version_info[:2] == (3, 12):
        pytest.skip("there is a wheel for this Python, so nothing is compiled")
    result = run(command, check=False, env={"CXX": "/nowhere/c++"})
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "install: fairseq is compiled here and there is no C++ compiler; "
        "install one (Debian: apt-get install g++), or use Python 3.12"
    )
    assert not (tmp_path / ".venv").exists()


def test_installing_again_changes_nothing():
    before = (ROOT / ".venv" / "installed").stat().st_mtime_ns
    result = run(["bash", ROOT / "scripts" / "install.sh", ROOT / ".venv" / "bin" / "python"])
    assert result.stdout.strip().endswith(
        f"is complete (Python {sys.version_info[0]}.{sys.version_info[1]}); nothing to do"
    )
    assert (ROOT / ".venv" / "installed").stat().st_mtime_ns == before


@pytest.mark.parametrize("moved", [True, False])
def test_an_environment_of_another_folder_is_made_anew(tmp_path, moved):
    """A copied one would run the code of the folder that it was copied from."""
    for name in ("scripts/install.sh", "setup.py", "requirements.txt", "cape_fairseq/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")  # as good as a copy
    kept = tmp_path if moved else ROOT
    result = run(
        ["bash", kept / "scripts" / "install.sh", sys.executable],
        check=False,
        env={"CXX": "/nowhere/c++"},  # ends where it would begin
    )
    assert ("it is made anew" in result.stdout) == moved
    assert (tmp_path / ".venv").is_symlink() != moved
    assert (ROOT / ".venv" / "installed").exists()
