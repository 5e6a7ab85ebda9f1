"""What a run was, from its log and checkpoint, and the table over runs."""

import json
from argparse import Namespace

import pytest
import torch

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import text
from cape_fairseq.evaluation.runs import (
    describe_checkpoints,
    describe_training,
    read_results,
    rows,
)

START = "2026-01-01 00:00:00 | INFO | "
LOG = """\
{}fairseq_cli.train | num. shared model params: 1,913,856 (num. trained: 1)
{}train_inner | epoch 001: 20 / 145 loss=12.1, wps=5000.5, ups=1.5, wpb=3433, num_updates=20
{}train_inner | epoch 001: 40 / 145 loss=11.1, wps=7000.5, ups=2.5, wpb=3433, num_updates=40
{}fairseq_cli.train | done training in 10.5 seconds
{}train_inner | epoch 001: 60 / 145 loss=10.1, wps=6000.0, ups=2.0, wpb=3433, num_updates=60
{}fairseq_cli.train | done training in 5.0 seconds
""".replace("{}", START)


def test_training_log(tmp_path):
    (tmp_path / "log").write_text(LOG)
    assert describe_training(tmp_path / "log") == {
        "parameters": 1913856,
        "train_seconds": 15.5,
        "words_per_second": 6000.0,
        "updates_per_second": 2.0,
    }


def test_checkpoint(tmp_path):
    model = Namespace(
        arch="cape_transformer_tiny", source_scale=1.03, cape_global_shift=5.0, dropout=0.1
    )
    cfg = {"model": model, "common": {"seed": 3}, "checkpoint": {"best_checkpoint_metric": "loss"}}
    cfg |= {"task": {"data": "bin"}, "dataset": {"max_tokens": 4096}, "optimization": {"lr": [0.1]}}
    torch.save(
        {
            "model": {},
            "cfg": cfg,
            "optimizer_history": [{"num_updates": 40}],
            "extra_state": {"best": 2.5},
        },
        tmp_path / "c.pt",
    )
    last = {"model": {}, "cfg": cfg, "optimizer_history": [{"num_updates": 60}]}
    torch.save(last, tmp_path / "last.pt")
    assert describe_checkpoints(tmp_path / "c.pt", tmp_path / "last.pt") == {
        "arch": "cape_transformer_tiny",
        "options": {"cape_global_shift": 5.0, "source_scale": 1.03},
        "training": {
            "task.data": "bin",
            "task.source_lang": None,
            "task.target_lang": None,
            "dataset.max_tokens": 4096,
            "optimization.max_update": None,
            "optimization.lr": [0.1],
            "optimization.update_freq": None,
            "optimization.clip_norm": None,
        },
        "seed": 3,
        "updates": 60,
        "best_update": 40,
        "selected_by": "loss",
        "best_value": 2.5,
    }
    torch.save({**last, "extra_state": {}}, tmp_path / "c.pt")  # --disable-validation
    assert describe_checkpoints(tmp_path / "c.pt", tmp_path / "last.pt")["best_value"] is None
    with pytest.raises(UserError, match="there is no checkpoint"):
        describe_checkpoints(tmp_path / "c.pt", tmp_path / "none.pt")
    torch.save({**last, "cfg": None}, tmp_path / "c.pt")
    with pytest.raises(UserError, match="does not say how it was trained"):
        describe_checkpoints(tmp_path / "c.pt", tmp_path / "last.pt")


def test_table():
    common = {
        "parameters": 1913856,
        "updates": 400,
        "train_seconds": 120.4,
        "words_per_second": 6000.0,
    }
    none = {**common, "words_per_second": None}  # a run shorter than the logging interval
    runs = [
        {
            "run": "sinpos",
            **common,
            "best_value": 2.5,
            "tests": {"test": {"bleu": 97.5, "signature": "s"}},
        },
        {
            "run": "cape",
            **none,
            "tests": {
                "test": {"bleu": 9, "signature": "s"},
                "long": {"bleu": 1.25, "signature": "s"},
            },
        },
    ]
    assert text(rows(runs)).splitlines() == [
        "run     parameters  updates  train s  words/s  valid  BLEU test  BLEU long",
        "sinpos   1,913,856      400      120    6,000  2.500      97.50          -",
        "cape     1,913,856      400      120        -      -       9.00       1.25",
        "sacreBLEU signature: s",
    ]


def test_runs_of_one_name_are_told_apart(tmp_path):
    folders = ("a/cape_en_de/sinpos", "a/cape_en_de/cape", "b/cape_en_de/cape")
    paths = [tmp_path / folder / "1111" / "results.json" for folder in folders]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"run": "1111", "tests": {}}))
    names = [run["run"] for run in read_results([*paths, paths[0]])]
    assert names == [f"{folder}/1111" for folder in folders]
    assert [run["run"] for run in read_results(paths[:2])] == ["sinpos/1111", "cape/1111"]
    assert [run["run"] for run in read_results(paths[:1])] == ["1111"]
    other = paths[0].with_name("older.json")
    other.write_text(paths[0].read_text())
    names = [run["run"] for run in read_results([paths[0], other])]
    assert names == ["1111/results.json", "1111/older.json"]
