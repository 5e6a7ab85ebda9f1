"""fairseq-train, -generate and -interactive as subprocesses, with the stock translation task."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.conftest import fairseq, train


@pytest.fixture(scope="module")
def models(data_bin, tmp_path_factory) -> dict[str, Path]:
    """A cape and a sinpos model after a few updates."""
    folder = tmp_path_factory.mktemp("models")
    for arch in ("cape", "sinpos"):
        train(data_bin, folder / arch, arch=f"{arch}_transformer_tiny", updates=30)
    return {arch: folder / arch / "checkpoint_last.pt" for arch in ("cape", "sinpos")}


def generate(data_bin: Path, *paths: Path, options=()) -> dict[str, tuple[float, str]]:
    """Hypotheses by sentence: score and text."""
    output = fairseq("generate", data_bin, "--path", ":".join(map(str, paths)), "--cpu", "--max-len-b", 25, *options)
    found = {m[1]: (float(m[2]), m[3]) for m in re.finditer(r"^H-(\d+)\t(\S+)\t(.*)$", output, re.M)}
    assert len(found) == 12, output[-2000:]
    return found


def alignments(output: str) -> dict[str, list[tuple[int, int]]]:
    return {
        m[1]: [tuple(map(int, pair.split("-"))) for pair in m[2].split()]
        for m in re.finditer(r"^A-(\d+)\t(.*)$", output, re.M)
    }


def same(first: dict, second: dict) -> None:
    assert {k: text for k, (_, text) in first.items()} == {k: text for k, (_, text) in second.items()}
    for key, (score, _) in first.items():
        assert second[key][0] == pytest.approx(score, abs=1e-4)


def test_the_checkpoint_says_all(models, data_bin):
    options = vars(torch.load(models["cape"], weights_only=True)["cfg"]["model"])
    counts = [int(re.search(rf"\[{lang}\].*train.{lang}: 300 sents, (\d+) tokens",
              (data_bin / "preprocess.log").read_text())[1]) for lang in ("de", "en")]  # fmt: skip
    assert options["source_scale"] == pytest.approx(counts[0] / counts[1])
    assert options["source_bos"] == "on"


def test_batch_size_changes_nothing(models, data_bin):
    alone = generate(data_bin, models["cape"], options=("--batch-size", 1))
    same(alone, generate(data_bin, models["cape"], options=("--batch-size", 12)))
    same(alone, generate(data_bin, models["cape"], options=("--batch-size", 5)))


def test_ensemble_of_models_with_and_without_begin_of_sentence(models, data_bin):
    cape = generate(data_bin, models["cape"], options=("--beam", 1))
    same(cape, generate(data_bin, models["cape"], models["cape"], options=("--beam", 1)))
    mixed = generate(data_bin, models["cape"], models["sinpos"], options=("--beam", 3, "--print-alignment", "hard"))
    assert {score for score, _ in mixed.values()} != {score for score, _ in cape.values()}


def test_interactive_agrees_with_generate(models, data_bin):
    expected = generate(data_bin, models["cape"], options=("--beam", 4))
    lines = (data_bin.parent / "test.en").read_text(encoding="utf-8")
    output = fairseq("interactive", data_bin, "--path", models["cape"], "--cpu", "--beam", 4, "--max-len-b", 25,
                     "--buffer-size", 12, "--batch-size", 5, input=lines)  # fmt: skip
    actual = {m[1]: (float(m[2]), m[3]) for m in re.finditer(r"^H-(\d+)\t(\S+)\t(.*)$", output, re.M)}
    same(expected, actual)


def test_alignments_point_at_the_callers_tokens(models, data_bin, tmp_path):
    """hard alignments and copied words, against the attention of a direct forward pass."""
    from fairseq.checkpoint_utils import load_model_ensemble_and_task

    raw = tmp_path / "raw"
    raw.mkdir()
    for lang in ("en", "de"):
        shutil.copy(data_bin.parent / f"test.{lang}", raw / f"test.en-de.{lang}")
        shutil.copy(data_bin / f"dict.{lang}.txt", raw)
    output = fairseq("generate", raw, "--dataset-impl", "raw", "--path", models["cape"], "--cpu", "--beam", 2,
                     "--max-len-b", 25, "--print-alignment", "hard", "--replace-unk", "-s", "en",
                     "-t", "de")  # fmt: skip
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", output, re.M))
    (model,), _, task = load_model_ensemble_and_task([str(models["cape"])], {"data": str(data_bin)})
    model.eval()
    lines = (data_bin.parent / "test.en").read_text(encoding="utf-8").splitlines()
    for number, pairs in alignments(output).items():
        source = task.source_dictionary.encode_line(lines[int(number)], add_if_not_exist=False).long()
        target = task.target_dictionary.encode_line(hypotheses[number], add_if_not_exist=False).long()
        prefix = torch.cat([target[-1:], target[:-1]])
        attention = model(source[None], None, prefix[None])[1]["attn"][0][0]
        assert attention.shape == (len(prefix), len(source))
        assert [source for source, _ in pairs] == attention[: len(pairs), :-1].argmax(1).tolist()
    assert alignments(output)


def test_unlimited_length_with_the_stock_task(models, data_bin):
    """The stock task's own limit of 1,024 tokens is an option of that task."""
    line = " ".join(["the old man buys an egg"] * 200) + "\n"
    limits = ("--max-source-positions", 5000, "--max-target-positions", 5000)
    output = fairseq("interactive", data_bin, "--path", models["cape"], "--cpu", "--beam", 1, "--max-len-b", 5,
                     *limits, input=line)  # fmt: skip
    assert re.search(r"^H-0\t", output, re.M), output[-1500:]
