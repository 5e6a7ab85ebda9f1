"""The installer: what it refuses, and that it is quick when there is nothing to do."""

import shutil
import subprocess
import sys

import pytest

from cape_fairseq import locks
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


@pytest.mark.skipif(not shutil.which("flock"), reason="the installer then takes no lock")
def test_two_at_once_wait_for_each_other(tmp_path):
    for name in ("scripts/install.sh", "setup.py", "requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    command = ["bash", tmp_path / "scripts" / "install.sh", tmp_path / "none"]
    with locks.held(tmp_path / ".install.lock"):
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert "another installation runs here; this one waits" in running.stderr.readline()
        assert running.poll() is None
    assert "there is no" in running.communicate()[1]


def test_installing_again_changes_nothing():
    before = (ROOT / ".venv" / "installed").stat().st_mtime_ns
    result = run(["bash", ROOT / "scripts" / "install.sh", ROOT / ".venv" / "bin" / "python"])
    assert result.stdout.strip().endswith(
        f"is complete (Python {sys.version_info[0]}.{sys.version_info[1]}); nothing to do"
    )
    assert (ROOT / ".venv" / "installed").stat().st_mtime_ns == before


@pytest.mark.parametrize("here", [True, False])
def test_an_environment_of_another_folder_is_found_and_kept_until_it_can_be_made(tmp_path, here):
    """A copied one would run the code of the folder that it was copied from."""
    if sys.version_info[:2] == (3, 12):
        pytest.skip("there is a wheel for this Python, so nothing is compiled")
    for name in ("scripts/install.sh", "setup.py", "requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    made_in = tmp_path if here else ROOT
    pip = tmp_path / ".venv" / "bin" / "pip"
    pip.parent.mkdir(parents=True)
    pip.write_text(f"#!{made_in}/.venv/bin/python3.11\n")
    command = ["bash", tmp_path / "scripts" / "install.sh", sys.executable]
    result = run(command, check=False, env={"CXX": "/nowhere/c++"})
    assert "there is no C++ compiler" in result.stderr
    assert ("made in another folder" in result.stdout) != here
    assert pip.exists()
