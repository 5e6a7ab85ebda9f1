"""What is compared is what it says, and the tables show what was measured."""

import json

import pytest
import torch

from cape_fairseq.benchmark import parts
from cape_fairseq.benchmark.models import STOCK, RandomTask, build, random_batch, training_step
from cape_fairseq.benchmark.table9 import table9
from cape_fairseq.benchmark.tables import (
    decoding_tables,
    memory_tables,
    table9_tables,
    training_tables,
)
from cape_fairseq.benchmark.timing import Clock
from cape_fairseq.evaluation.rows import text
from tests.support import cape

TASK = RandomTask(50)


def test_fairseqs_transformer_has_the_same_settings():
    torch.manual_seed(1)
    stock = build(TASK, STOCK, "_tiny")
    torch.manual_seed(1)
    ours = build(TASK, "sinpos", "_tiny")
    assert type(stock).__module__.startswith("fairseq.")
    assert type(ours).__module__.startswith("cape_fairseq.")
    for name, value in ours.state_dict().items():
        assert torch.equal(value, stock.state_dict()[name])
    assert stock.cfg.dropout == ours.cfg.dropout == 0.1


def test_a_batch_is_whole_sentences_of_words():
    batch = random_batch(TASK, 3, 7, torch.device("cpu"))
    net = batch["net_input"]
    assert net["src_tokens"].shape == (3, 7)
    assert (net["src_tokens"][:, -1] == 2).all()
    assert (net["src_tokens"][:, :-1] >= 4).all()
    assert torch.equal(net["prev_output_tokens"][:, 1:], batch["target"][:, :-1])
    assert (net["prev_output_tokens"][:, 0] == 2).all()
    assert batch["ntokens"] == 21


def test_a_training_step_trains():
    model = build(TASK, "relpos", "_tiny")
    before = {name: value.clone() for name, value in model.named_parameters()}
    training_step(TASK, model, random_batch(TASK, 3, 7, torch.device("cpu")))()
    changed = [
        name for name, value in model.named_parameters() if not torch.equal(value, before[name])
    ]
    assert len(changed) == len(before)


def test_an_unknown_size_is_named():
    with pytest.raises(ValueError, match="there is no architecture rope_transformer_huge"):
        build(TASK, "rope", "_huge")


def test_table9_measures_every_part():
    rows = list(
        table9(Clock("cpu", 5, 0.0, 0), 50, 20, torch.float32, contexts=(100,), lengths=(10,))
    )
    assert [(row["case"], row["paper"]) for row in rows] == [
        ("layer", 2.1),
        ("encoder", 2.4),
        ("decoder", 1.7),
    ]
    assert all(row["sentences"] == 2 for row in rows)
    assert all(row["seconds"] > 0 for row in rows)


ROW = {"case": "rope", "length": 30, "ratio": 1.025, "spread": [1.0, 1.251], "base": "sinpos"}


def shown(tables) -> list[str]:
    return "\n\n".join(map(text, tables)).splitlines()


def test_tables():
    assert shown(
        training_tables([ROW, {**ROW, "length": 100}, {**ROW, "case": "x", "base": STOCK}])
    ) == [
        "training step / sinpos         30 tokens        100 tokens",
        "rope                    1.02 (1.00-1.25)  1.02 (1.00-1.25)",
        "",
        "training step / fairseq transformer         30 tokens",
        "x                                    1.02 (1.00-1.25)",
    ]
    nine = {**ROW, "case": "layer", "context": 100, "sentences": 5, "paper": 1.2}
    assert shown(table9_tables([nine, {**nine, "context": 1000, "paper": None}])) == [
        "relpos / none  context  tokens  sentences          slowdown  paper",
        "layer             1000      30          5  1.02 (1.00-1.25)",
        "layer              100      30          5  1.02 (1.00-1.25)    1.2",
    ]
    assert shown(memory_tables([{**ROW, "bytes": 3 * 2**20, "spread": []}]))[1].split() == [
        "rope",
        "30",
        "3",
        "1.02",
    ]
    spoken = {**ROW, "words_per_second": 1234.5}
    assert shown(
        decoding_tables([spoken, {**spoken, "ratio": 2.0, "spread": [], "base": STOCK}])
    ) == [
        "beam search  words/s          / sinpos  / fairseq transformer",
        "rope           1,234  1.02 (1.00-1.25)                   2.00",
    ]


def test_the_script_writes_tables_and_json(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_process_peak", lambda *_: 2**20)  # measured below
    small = [
        "--tokens",
        20,
        "--words",
        40,
        "--lengths",
        5,
        "--rounds",
        5,
        "--memory-length",
        10,
        "--decoding-length",
        4,
        "--variants",
        "sinpos",
        "shape",
    ]
    three = ["training", "decoding", "memory"]
    result = cape("benchmark", "--parts", *three, *small, "--json", tmp_path / "out.json")
    rows = json.loads((tmp_path / "out.json").read_text())["measured"]
    found = {(row["part"], row["case"], row["base"]) for row in rows}
    assert found == {
        ("training", "shape", "sinpos"),
        *(("decoding", case, STOCK) for case in ("sinpos", "shape")),
        *(("decoding", case, "sinpos") for case in (STOCK, "shape")),
        *(("memory", case, "sinpos") for case in ("sinpos", "shape")),
    }
    assert all(row["ratio"] > 0 for row in rows)
    for title in ("training step / sinpos", "beam search", "peak memory"):
        assert title in result.stdout
    alone = ("--parts", "training", *small[:-2], "shape", "--json", tmp_path / "alone.json")
    cape("benchmark", *alone)
    (row,) = json.loads((tmp_path / "alone.json").read_text())["measured"]
    assert (row["case"], row["base"]) == ("shape", STOCK)
    wrong = cape("benchmark", "--rounds", 0, check=False)
    assert wrong.returncode == 2
    assert "argument --rounds: 0 is not a whole number above 0" in wrong.stderr
    unknown = cape("benchmark", "--variants", "sinus", check=False)
    assert unknown.returncode == 2
    assert "--variants has sinus, but it must be of fairseq transformer, sinpos" in unknown.stderr


def test_memory_is_that_of_the_process_that_needs_it():
    """A parent that holds half a gigabyte must not count."""
    held = torch.ones(2**27)
    setting = parts.Setting(Clock("cpu"), "_tiny", 40, 20, torch.float32)
    (row,) = parts.memory(setting, 10, ["sinpos"])
    assert 10 * 2**20 < row["bytes"] < 400 * 2**20 < held.nbytes


def test_variants_are_what_they_are_called():
    for variant, (name, options) in parts.VARIANTS.items():
        model = build(TASK, name, "_tiny", **options)
        if name != STOCK:
            assert model.cfg.position_encoding == variant.split(",")[0]
            assert model.encoder.positions.attention.crosses == (variant == "rope, cross")
            begins = name == "cape" and "source_bos" not in options
            assert (model.encoder.positions.bos.extra == 1) == begins
        if name == "relpos":
            assert (model.encoder.layers[0].self_attn.relative_values is None) == (
                variant == "relpos, keys"
            )
