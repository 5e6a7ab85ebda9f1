"""What recipes show on the terminal, and what they keep in logs."""

from tests.recipes.support import PROGRAMS, replace_programs
from tests.recipes.test_recipes import run_recipe

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


def train(tmp_path, lines, code=0, **variables):
    """Run recipes/train.sh, whose ``fairseq-train`` prints lines; return its result and log."""
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (tmp_path / f"{split}.{lang}").write_text("a\n")
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
    script = f"{PROGRAMS['fairseq-train']}\ncat {tmp_path}/lines >&2\nexit {code}"
    path = replace_programs(tmp_path / "bin", **{"fairseq-train": script})
    settings = {"TEXT": str(tmp_path), "OUT": f"{tmp_path}/out", "UPDATES": "400", "WARMUP": "1"}
    result = run_recipe("train", path, **{**settings, **variables})
    return result, tmp_path / "out" / "rope_cross_transformer_tiny" / "train.log"


def test_a_training_shows_progress_and_warnings_of_the_package(tmp_path):
    result, log = train(tmp_path, TRAINING)
    assert result.returncode == 0, result.stderr
    assert log.read_text().splitlines() == TRAINING
    assert result.stderr.count("7 pairs are left out") == 1
    assert "of fairseq" not in result.stderr
    progress = [line for line in result.stderr.splitlines() if "loss" in line]
    assert [line.split(" updates")[0].split(": ")[1] for line in progress] == [
        f"{updates} of 400" for updates in (100, 200, 300, 400)
    ]
    result, _ = train(tmp_path, TRAINING, VERBOSE="1", UPDATES="401")
    assert [line for line in result.stderr.splitlines() if line in TRAINING] == TRAINING


def test_a_short_training_has_one_line(tmp_path):
    """Of the end of its epoch; fairseq logs every 100 updates."""
    epoch = "2026-01-01 | INFO | train | epoch 001 | loss 4.25 | nll_loss 3 | num_updates 50 | x"
    result, _ = train(tmp_path, [epoch], UPDATES="50")
    assert [x.split(",")[0] for x in result.stderr.splitlines() if "loss" in x] == [
        "rope_cross_transformer_tiny: 50 of 50 updates"
    ]


def test_an_error_names_the_log_and_shows_its_end(tmp_path):
    result, log = train(tmp_path, [*TRAINING, "Traceback", "ValueError: the reason"], code=3)
    assert result.returncode == 1
    assert "ValueError: the reason" in result.stderr
    assert str(log) in result.stderr
