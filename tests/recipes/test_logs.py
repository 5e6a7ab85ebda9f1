"""What recipes show on the terminal, and what they keep in logs."""

import os
import subprocess

import pytest

from tests.recipes.support import RECIPES, replace_programs

STEP = (
    "2026-01-01 | INFO | train_inner | epoch 001: 9 / 99 loss=4.25, nll_loss=3, num_updates={}, x"
)
WARNING = "2026-01-01 | WARNING | cape_fairseq.tasks.checks | 7 pairs are left out"
TRAINING = [
    "2026-01-01 | INFO | fairseq_cli.train | a line of fairseq",
    "2026-01-01 | WARNING | fairseq.utils | a warning of fairseq",
    WARNING,
    WARNING,
    *(STEP.format(updates) for updates in range(50, 450, 50)),
]


@pytest.fixture
def train(tmp_path):
    """Return a call of recipes/train.sh, whose ``fairseq-train`` prints lines."""
    path = replace_programs(tmp_path / "bin")
    text = tmp_path / "text"
    text.mkdir()
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (text / f"{split}.{lang}").write_text("a\n")

    def call(lines: list[str], code: int = 0, **variables: str) -> subprocess.CompletedProcess:
        (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
        program = (tmp_path / "bin" / "fairseq-train").read_text()
        script = f"{program}\ncat {tmp_path}/lines >&2\nexit {code}\n"
        (tmp_path / "bin" / "fairseq-train").write_text(script)
        settings = {"TEXT": str(text), "OUT": f"{tmp_path}/out", "UPDATES": "400", "WARMUP": "1"}
        environment = {**os.environ, "PATH": path, **settings, **variables}
        command = ["bash", str(RECIPES / "train.sh")]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    return call


def read_log(tmp_path):
    return (tmp_path / "out" / "rope_cross_transformer_tiny" / "train.log").read_text()


def test_a_training_shows_progress_and_warnings_of_the_package(train, tmp_path):
    result = train(TRAINING)
    assert result.returncode == 0, result.stderr
    assert read_log(tmp_path).splitlines() == TRAINING
    assert result.stderr.count("7 pairs are left out") == 1
    assert "of fairseq" not in result.stderr
    progress = [line for line in result.stderr.splitlines() if "loss" in line]
    assert [line.split(" updates")[0].split(": ")[1] for line in progress] == [
        f"{updates} of 400" for updates in (100, 200, 300, 400)
    ]
    result = train(TRAINING, VERBOSE="1", UPDATES="401")
    assert [line for line in result.stderr.splitlines() if line in TRAINING] == TRAINING


def test_an_error_names_the_log_and_shows_its_end(train, tmp_path):
    result = train([*TRAINING, "Traceback", "ValueError: the reason"], code=3)
    assert result.returncode == 1
    assert "ValueError: the reason" in result.stderr
    assert str(tmp_path / "out" / "rope_cross_transformer_tiny" / "train.log") in result.stderr


def test_a_log_that_cannot_be_written_is_an_error(train, tmp_path):
    (tmp_path / "out" / "rope_cross_transformer_tiny" / "train.log").mkdir(parents=True)
    result = train(TRAINING)
    assert result.returncode == 1
    assert "train.log" in result.stderr
    assert "Traceback" not in result.stderr
