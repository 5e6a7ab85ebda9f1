"""Learning curves from real lines of both formats."""

import pytest

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.training_log import parse, read
from tests.support import cape, train

SIMPLE = [
    "2026-01-01 00:00:00 | INFO | train_inner | epoch 001:     20 / 296 loss=12.114, "
    "nll_loss=12.044, ppl=4222.52, "
    "wps=4678.1, ups=1.43, wpb=3281.8, bsz=87.2, num_updates=20, lr=0.000160096, gnorm=1.877, "
    "train_wall=14, wall=16",
    "2026-01-01 00:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.104 | "
    "nll_loss 7.404 | "
    "ppl 169.41 | wps 23480.8 | wpb 2502.1 | bsz 57.6 | num_updates 296",
    "2026-01-01 00:00:00 | INFO | train_inner | epoch 001:     40 / 296 loss=nan, num_updates=40, "
    "lr=1.6e-05",
    "2026-01-01 00:00:00 | INFO | fairseq.trainer | loss=1.0, num_updates=7",
]


def test_simple_format():
    training, validation, *_ = parse(SIMPLE)
    assert training[20] == {
        "loss": 12.114,
        "nll_loss": 12.044,
        "ppl": 4222.52,
        "wps": 4678.1,
        "ups": 1.43,
        "wpb": 3281.8,
        "bsz": 87.2,
        "lr": 0.000160096,
        "gnorm": 1.877,
        "train_wall": 14,
        "wall": 16,
    }
    assert training[40]["lr"] == 1.6e-05
    assert list(training) == [20, 40]
    assert validation[296]["loss"] == 8.104
    assert list(validation) == [296]


def test_a_resumed_log_has_each_update_once():
    training = parse([SIMPLE[0], SIMPLE[0].replace("loss=12.114", "loss=11")]).train
    assert training[20]["loss"] == 11


def test_a_file_without_records_is_refused(tmp_path):
    (tmp_path / "log").write_text("nothing\n")
    with pytest.raises(
        UserError, match="has no record of training; train with --log-format simple or json"
    ):
        read(tmp_path / "log")


@pytest.mark.parametrize("form", ["json", "simple"])
def test_plot_training_on_a_real_log(data_bin, tmp_path, form):
    printed = train(data_bin, tmp_path / "run", "--log-format", form, updates=9)
    (tmp_path / "log").write_text(printed)
    out = cape("plot-training", "a=log", "--value", "nll_loss", cwd=tmp_path).stdout
    rows = [line.split("\t") for line in (tmp_path / "training.tsv").read_text().splitlines()[1:]]
    training, validation, *_ = read(tmp_path / "log")
    assert len(training) == 9
    assert [row[2:] for row in rows if row[1] == "train"] == [
        [str(u), f"{v['nll_loss']:g}"] for u, v in training.items()
    ]
    assert max(validation) == 9
    assert f"{min(v['nll_loss'] for v in validation.values()):g}" in out
    assert (tmp_path / "training.png").stat().st_size > 10_000
    refused = cape("plot-training", "a=log", "--value", "bleu", check=False, cwd=tmp_path)
    assert refused.returncode == 1
    assert "has no bleu; choose another --value" in refused.stderr


def test_the_best_accuracy_is_the_highest(tmp_path):
    text = "| INFO | valid | epoch 001 | accuracy {} | num_updates {}\n"
    (tmp_path / "log").write_text(text.format(40, 10) + text.format(60, 20))
    out = cape("plot-training", "a=log", "--value", "accuracy", cwd=tmp_path).stdout
    assert out.splitlines()[1].split() == ["a", "60", "20", "20"]


def test_what_is_no_number_is_never_the_best(tmp_path):
    text = '| INFO | valid | {{"epoch": 1, "valid_ppl": "{}", "valid_num_updates": "{}"}}\n'
    log = [text.format(*pair) for pair in (("nan", 10), (60, 20), ("inf", 30))]
    (tmp_path / "log").write_text("".join(log))
    (tmp_path / "nan").write_text(log[0])
    out = cape("plot-training", "a=log", "b=nan", "--value", "ppl", cwd=tmp_path).stdout
    assert [line.split() for line in out.splitlines()[1:3]] == [
        ["a", "60", "20", "30"],
        ["b", "-", "-", "10"],
    ]
    assert "Infinity" not in (tmp_path / "training.json").read_text()


def test_tensorboard(data_bin, tmp_path):
    """fairseq's option, with the package of the extra "tensorboard"."""
    pytest.importorskip("tensorboardX")
    printed = train(
        data_bin, tmp_path / "run", "--tensorboard-logdir", tmp_path / "board", updates=4
    )
    assert "tensorboard not found" not in printed
    files = list((tmp_path / "board").rglob("events.out.tfevents.*"))
    assert {path.parent.name for path in files} >= {"train_inner", "valid"}
    assert all(path.stat().st_size > 100 for path in files)


def test_of_several_validation_sets_the_first_counts():
    second = SIMPLE[1].replace("valid | epoch", "test | epoch").replace("'valid'", "'test'")
    second = second.replace("loss 8.104", "loss 9.9")
    assert parse([*SIMPLE, second]).valid[296]["loss"] == 8.104
    assert parse([second.replace("INFO | test", "INFO | valid"), *SIMPLE]).valid[296]["loss"] == 9.9
