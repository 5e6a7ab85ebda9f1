"""Exported models are the model: fairseq without the plugin, and CTranslate2."""

import json
import random
import shutil
import sys

import pytest
import torch

from cape_fairseq import load
from cape_fairseq.errors import UserError
from tests.serving.support import saved
from tests.support import cape, run

LEARNED = {"max_source_positions": 64, "max_target_positions": 64}
TABLES = {
    "transformer": {},
    "sinpos_transformer_tiny": {},
    "abspos_transformer_tiny": LEARNED,
    "nopos_transformer_tiny": {},
    "cape_transformer_tiny": {"source_scale": "1.17"},
    "shape_transformer_tiny": {"position_offset": 12.0},
    "floater_transformer_tiny": {"floater_form": "additive", "floater_layers": "input"},
}
IN_ATTENTION = {
    "relpos_transformer_tiny": {"relpos_max_distance": 5},
    "rope_transformer_tiny": {"rope_base": 500.0},
}
REFUSED = {
    "alibi_transformer_tiny": ({}, "alibi"),
    "t5_transformer_tiny": ({}, "t5"),
    "fire_transformer_tiny": ({}, "fire"),
    "kerple_transformer_tiny": ({}, "kerple"),
    "floater_transformer_tiny": ({}, "floater"),
    "sinpos_transformer_tiny": ({"position_layers": "all"}, "every block"),
    "cape_transformer_tiny": ({"cape_mean_normalize": True}, "length of the text"),
    "shape_transformer_tiny": ({"sharpen_attention_from": 10}, "length of the text"),
}
PLAIN = """
import json, sys, torch
from argparse import Namespace
torch.serialization.add_safe_globals([Namespace])
from fairseq import checkpoint_utils
from fairseq.sequence_scorer import SequenceScorer
pairs, folders = json.load(sys.stdin)
found = {}
for name, (folder, bos) in folders.items():
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [folder + "/model.pt"], arg_overrides={"data": folder})
    assert type(models[0]).__name__ == "TransformerModel", type(models[0])
    for layer in models[0].encoder.layers:
        layer.can_use_fastpath = False  # of fairseq 0.12.2, which fails in new versions of PyTorch
    found[name] = []
    for source, target in pairs:
        begin = [task.source_dictionary.bos()] if bos else []
        source = begin + [task.source_dictionary.index(w) for w in source] + [2]
        target = torch.tensor([[task.target_dictionary.index(w) for w in target] + [2]])
        previous = torch.cat([target[:, -1:], target[:, :-1]], 1)
        sample = {"net_input": {"src_tokens": torch.tensor([source]), "src_lengths": None,
                  "prev_output_tokens": previous}, "target": target}
        best = SequenceScorer(task.target_dictionary).generate(models, sample)[0][0]
        found[name].append(best["positional_scores"].tolist())
assert not any(name.startswith("cape_fairseq") for name in sys.modules)
print(json.dumps(found))
"""


def sentences(count=8, longest=40):
    draw = random.Random(3)
    words = [f"w{number}" for number in range(60)]
    return [
        [draw.choices(words, k=draw.randint(1, longest)) for _ in range(2)] for _ in range(count)
    ]


def test_plain_fairseq_gives_equal_scores(tmp_path):
    pairs, folders, own = sentences(), {}, {}
    for arch, options in TABLES.items():
        path = saved(tmp_path / arch, arch, **options)
        printed = cape("export", "fairseq", path, tmp_path / arch / "out", "--max-positions", 50)
        assert "largest difference" in printed.stdout
        settings = json.loads((tmp_path / arch / "out" / "text.json").read_text())
        assert settings["source_bos"] == arch.startswith("cape")
        folders[arch] = str(tmp_path / arch / "out"), settings["source_bos"]
        own[arch] = load(path).engine.score(*map(list, zip(*pairs, strict=True)))
        assert load(tmp_path / arch / "out").engine.room == 49  # and the end mark
    result = run([sys.executable, "-c", PLAIN], input=json.dumps([pairs, folders]), cwd=tmp_path)
    other = json.loads(result.stdout.splitlines()[-1])
    for arch in TABLES:
        for a, b in zip(own[arch], other[arch], strict=True):
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b), atol=1e-5, rtol=0)


@pytest.mark.parametrize("arch", [*TABLES, *IN_ATTENTION])
def test_ctranslate2_gives_equal_scores(arch, tmp_path):
    pytest.importorskip("ctranslate2")
    path = saved(tmp_path / "model", arch, **{**TABLES, **IN_ATTENTION}[arch])
    cape("export", "ctranslate2", path, tmp_path / "out", "--max-positions", 50)
    pairs = sentences()
    own, other = (
        load(model).engine.score(*map(list, zip(*pairs, strict=True)))
        for model in (path, tmp_path / "out")
    )
    for a, b in zip(own, other, strict=True):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b), atol=1e-4, rtol=0)


@pytest.mark.parametrize("system", ["fairseq", "ctranslate2"])
@pytest.mark.parametrize("arch", REFUSED)
def test_what_has_no_counterpart_is_refused(arch, system, tmp_path):
    if system == "ctranslate2":
        pytest.importorskip("ctranslate2")
    options, why = REFUSED[arch]
    path = saved(tmp_path / "model", arch, **options)
    result = cape("export", system, path, tmp_path / "out", check=False)
    assert result.returncode == 1
    assert why in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arch", IN_ATTENTION)
def test_attention_has_no_counterpart_in_plain_fairseq(arch, tmp_path):
    result = cape("export", "fairseq", saved(tmp_path, arch), tmp_path / "out", check=False)
    assert result.returncode == 1
    assert "acts in the attention" in result.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"source_scale": "1.2"}, "distances other than 1"),
        ({"rope_attention": "self+cross", "source_scale": "1.2"}, "turns self-attention only"),
    ],
)
def test_rope_that_ctranslate2_has_not_is_refused(options, why, tmp_path):
    pytest.importorskip("ctranslate2")
    path = saved(tmp_path, "rope_transformer_tiny", **options)
    result = cape("export", "ctranslate2", path, tmp_path / "out", check=False)
    assert result.returncode == 1
    assert why in result.stderr


def test_a_table_longer_than_the_models_is_refused(tmp_path):
    path = saved(tmp_path, "abspos_transformer_tiny", **LEARNED)
    options = ("export", "fairseq", path, tmp_path / "out", "--max-positions", 65)
    result = cape(*options, check=False)
    assert result.returncode == 1
    assert "--max-positions" in result.stderr
    result = cape(*options[:-1], 1, check=False)
    assert "--max-positions must be at least 2, a token and the end mark" in result.stderr


def test_half_precision_and_an_existing_folder(tmp_path):
    path = saved(tmp_path / "model", "sinpos_transformer_tiny")
    cape("export", "fairseq", path, tmp_path / "out", "--half", "--max-positions", 50)
    state = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["model"]
    assert state["encoder.embed_positions.weight"].dtype == torch.float16
    assert state["encoder.embed_positions.weight"].shape == (52, 32)
    result = cape("export", "fairseq", path, tmp_path / "out", check=False)
    assert result.returncode == 1
    assert "is there already" in result.stderr


def test_the_begin_of_sentence_of_an_exported_model_is_not_lost(tmp_path):
    """Its settings add it: neither a second export nor an ensemble's first model does."""
    path, out = saved(tmp_path / "model", "cape_transformer_tiny"), tmp_path / "out"
    cape("export", "fairseq", path, out, "--max-positions", 50)
    result = cape("export", "fairseq", out / "model.pt", tmp_path / "again", check=False)
    assert result.returncode == 1
    assert "export the checkpoint that it was made of" in result.stderr
    assert not (tmp_path / "again").exists()
    with pytest.raises(UserError, match=r"cannot translate together.* \(source_bos beside them\)"):
        load([path, out])
    assert load([path, path]).translate(["w1"])
    other = saved(tmp_path / "other", "cape_transformer_tiny")
    shutil.copy(out / "text.json", other.parent / "text.json")
    with open(other.parent / "dict.de.txt", "a") as stream:
        stream.write("another 1\n")
    with pytest.raises(UserError, match=r"\(source_bos, dict\.de\.txt beside them\)"):
        load([path, other])


@pytest.mark.parametrize("system", ["fairseq", "ctranslate2"])
def test_nothing_is_written_where_models_differ(system, tmp_path):
    pytest.importorskip("ctranslate2")
    path = saved(tmp_path / "model", "sinpos_transformer_tiny")
    options = ("export", system, path, tmp_path / "out", "--tolerance", "1e-12")
    result = cape(*options, check=False)
    assert result.returncode == 1
    assert "nothing was written" in result.stderr
    assert [child.name for child in tmp_path.iterdir()] == ["model"]


def test_int8(tmp_path):
    pytest.importorskip("ctranslate2")
    path = saved(tmp_path / "model", "cape_transformer_tiny")
    options = ("--max-positions", 60, "--quantization", "int8")
    printed = cape("export", "ctranslate2", path, tmp_path / "out", *options).stdout
    assert "int8" in printed
    plain = cape("export", "ctranslate2", path, tmp_path / "plain", *options[:2])
    assert plain.returncode == 0
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("out", "plain")]
    assert sizes[0] < 0.4 * sizes[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("fairseq", "--quantization", "int8"), "--quantization is for ctranslate2; fairseq has"),
        (("ctranslate2", "--half"), "--half is for fairseq; ctranslate2 has --quantization"),
    ],
)
def test_options_of_the_other_system_are_refused(options, words, tmp_path):
    system, *more = options
    result = cape("export", system, tmp_path / "x.pt", tmp_path / "out", *more, check=False)
    assert result.returncode == 2
    assert words in result.stderr


def test_settings_are_what_the_options_say(tmp_path):
    (tmp_path / "bin").mkdir()
    for language in ("en", "de"):
        (tmp_path / "bin" / f"dict.{language}.txt").write_text("a 1\n")
    where = ("--data-bin", tmp_path / "bin", "--source-lang", "en", "--target-lang", "de")
    for options, changed in (
        ((), {}),
        (("--no-normalize",), {"normalize": False}),
        (("--no-aggressive-dashes",), {"aggressive": False}),
        (("--separator", "<sep>"), {"separator": "<sep>"}),
        (("--books",), {"books": True}),
    ):
        cape("text-settings", tmp_path / "out", *where, *options)
        found = json.loads((tmp_path / "out" / "text.json").read_text())
        usual = {"normalize": True, "aggressive": True, "separator": "", "books": False}
        assert {name: found[name] for name in usual} == {**usual, **changed}
    missing = ("--bpe-codes", tmp_path / "none")
    assert cape("text-settings", tmp_path / "new", *where, *missing, check=False).returncode == 1
    assert not (tmp_path / "new").exists()
