"""Export to CTranslate2: equal scores and translations."""

import json
from argparse import Namespace

import pytest
import torch

from cape_fairseq.cli import main
from cape_fairseq.inference.checkpoints import build_checkpoint, load_model
from tests.importing.hugging_face import save_m2m, save_marian
from tests.support import SMALL, SYSTEMS, SmallTask, build

ctranslate2 = pytest.importorskip("ctranslate2")

OPTIONS = {
    "sinpos-prenorm": {
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "layernorm_embedding": True,
        "activation_fn": "gelu",
    },
    "cape": {"source_scale": "1.1"},
    "rope": {"rope_base": 5000.0},
    "rope-linear": {"rope_scaling": "linear", "rope_scale_factor": 4.0},
    "rope-ntk": {"rope_scaling": "ntk", "rope_scale_factor": 4.0, "decoder_embed_dim": 64},
    "t5": {"t5_max_distance": 40},
    "floater-additive": {"floater_layers": "input"},
}
SYSTEMS_OUT = (*OPTIONS, "abspos", "nopos", "relpos", "relpos-shared")


def save(system, folder, **options):
    """Save a small model with random weights as a checkpoint, with its dictionaries."""
    folder.mkdir(parents=True)
    given = {**OPTIONS.get(system, {}), **options}
    model = build(system, **given)
    torch.manual_seed(4)
    for parameter in model.parameters():  # norms and biases, too
        parameter.data += 0.1 * torch.randn_like(parameter)
    arch = f"{system.partition('-')[0]}_transformer_tiny"
    stored = {**SMALL, **SYSTEMS.get(system, {}), **given}
    args = Namespace(
        arch=arch, source_lang="en", target_lang="de", data="", task="translation", **stored
    )
    torch.save(build_checkpoint(args, model.state_dict()), folder / "model.pt")
    for language in ("en", "de"):
        SmallTask().source_dictionary.save(str(folder / f"dict.{language}.txt"))
    return folder / "model.pt"


def score(checkpoint, sources, targets):
    """Log-probabilities of the targets' words and EOS, one list for each pair."""
    model, task, *_ = load_model(checkpoint)
    found = []
    for source, target in zip(sources, targets, strict=True):
        with torch.no_grad():
            tokens, labels = (
                dictionary.encode_line(" ".join(words), add_if_not_exist=False).long()
                for dictionary, words in (
                    (task.source_dictionary, source),
                    (task.target_dictionary, target),
                )
            )
            previous = labels.roll(1).unsqueeze(0)
            output = model(tokens.unsqueeze(0), None, previous)
            scores = model.get_normalized_probs(output, log_probs=True)[0]
        found.append(scores.gather(1, labels.unsqueeze(1)).squeeze(1).tolist())
    return found


def make_texts(words, lengths, seed):
    """Texts of random words."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [words[i] for i in torch.randint(len(words), (n,), generator=generator)] for n in lengths
    ]


@pytest.mark.parametrize("system", SYSTEMS_OUT)
def test_scores_are_equal_up_to_long_texts(system, tmp_path):
    checkpoint = save(system, tmp_path / "run")
    output = tmp_path / "ct2"
    assert main(["export", str(checkpoint), "--output", str(output)]) == 0
    words = [f"w{i}" for i in range(56)]
    sources = make_texts(words, (3, 40, 180, 1000), 1)
    targets = make_texts(words, (5, 30, 180, 1000), 2)
    engine = ctranslate2.Translator(str(output), compute_type="float32")
    found = engine.score_batch(sources, targets, max_input_length=0)
    for ours, theirs in zip(score(checkpoint, sources, targets), found, strict=True):
        assert theirs.log_probs == pytest.approx(ours, abs=1e-4)


@pytest.mark.parametrize("kind", ["marian", "nllb"])
def test_imported_models_have_equal_scores(kind, tmp_path):
    """As of a fine-tuned model, the codes of languages and the segmentation lie in the data."""
    if kind == "marian":
        save_marian(tmp_path / "model", codes=(">>deu<<",))
        code, languages = ">>deu<<", ["--target-lang", "deu"]
    else:
        save_m2m(tmp_path / "model", is_nllb=True)
        code, languages = "eng_Latn", ["--source-lang", "eng_Latn", "--target-lang", "deu_Latn"]
    data, output = tmp_path / "data", tmp_path / "ct2"
    assert main(["import", str(tmp_path / "model"), str(data), *languages]) == 0
    _, task, *_ = load_model(data / "model.pt")
    words = task.source_dictionary.symbols[10:40]
    sources, targets = make_texts(words, (3, 40), 1), make_texts(words, (5, 30), 2)
    expected = score(data / "model.pt", [[code, *source] for source in sources], targets)
    checkpoint = (data / "model.pt").rename(tmp_path / "model.pt")
    assert main(["export", str(checkpoint), "--data", str(data), "--output", str(output)]) == 0
    engine = ctranslate2.Translator(str(output), compute_type="float32")
    for ours, theirs in zip(expected, engine.score_batch(sources, targets), strict=True):
        assert theirs.log_probs == pytest.approx(ours, abs=1e-4)
    assert json.loads((output / "config.json").read_text())["add_source_bos"]
    assert (output / ("source.spm" if kind == "marian" else "sentencepiece.model")).is_file()
    assert (output / "prefixes.json").is_file()


def test_translations_are_equal(tmp_path):
    from cape_fairseq import load

    checkpoint = save("rope", tmp_path / "run")
    for quantization, output in (("float32", tmp_path / "ct2"), ("int8", tmp_path / "small")):
        options = ["--output", str(output), "--quantization", quantization]
        assert main(["export", str(checkpoint), *options]) == 0
    sources = make_texts([f"w{i}" for i in range(56)], (3, 12, 30), 1)
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), compute_type="float32")
    found = engine.translate_batch(sources, beam_size=1, max_decoding_length=40)
    translator = load(checkpoint, tokenizer="space")
    lines = [" ".join(source) for source in sources]
    expected = translator.translate_sentences(lines, beam=1, max_len_a=0, max_len_b=40)
    found = [" ".join(result.hypotheses[0]) for result in found]
    assert [line.split()[:40] for line in expected] == [line.split()[:40] for line in found]
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("small", "ct2")]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("system", "options"),
    [
        ("rope_cross", {}),
        ("alibi", {}),
        ("floater", {}),
        ("sinpos-all", {}),
        ("cape-mean", {}),
        ("rope", {"rope_scaling": "yarn", "rope_scale_factor": 2.0}),
        ("sinpos", {"residual_init": "admin", "is_profiled": True}),
        ("sinpos", {"activation_fn": "tanh"}),
        ("rope", {"position_augmentation": "randpos"}),
        ("rope", {"source_scale": "1.5"}),
        ("sinpos", {"quant_noise_pq": 0.1}),
        ("sinpos", {"decoder_output_dim": 16, "share_decoder_input_output_embed": False}),
        ("sinpos", {"no_cross_attention": True}),
    ],
)
def test_models_that_ctranslate2_cannot_run_are_rejected(system, options, tmp_path):
    checkpoint = save(system, tmp_path / "run", **options)
    assert main(["export", str(checkpoint), "--output", str(tmp_path / "x")]) == 1
    assert not (tmp_path / "x").exists()


def test_all_that_ctranslate2_lacks_is_said(tmp_path, capsys):
    checkpoint = save("alibi", tmp_path / "run", activation_fn="tanh", no_cross_attention=True)
    assert main(["export", str(checkpoint), "--output", str(tmp_path / "x")]) == 1
    error = capsys.readouterr().err
    assert all(name in error for name in ("alibi", "tanh", "--no-cross-attention"))
