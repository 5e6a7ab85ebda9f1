"""fairseq-train, -generate and -interactive as subprocesses, with the stock translation task."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.support import fairseq, train


@pytest.fixture(scope="module")
def models(data_bin, tmp_path_factory) -> dict[str, Path]:
    """A cape and a sinpos model after a few updates."""
    folder = tmp_path_factory.mktemp("models")
    for arch in ("cape", "sinpos"):
        train(data_bin, folder / arch, arch=f"{arch}_transformer_tiny", updates=30)
    return {arch: folder / arch / "checkpoint_last.pt" for arch in ("cape", "sinpos")}


def generate(data_bin: Path, *paths: Path, options=()) -> dict[str, tuple[float, str]]:
    """Hypotheses by sentence: score and text."""
    output = fairseq(
        "generate",
        data_bin,
        "--path",
        ":".join(map(str, paths)),
        "--cpu",
        "--max-len-b",
        25,
        *options,
    )
    found = {
        m[1]: (float(m[2]), m[3]) for m in re.finditer(r"^H-(\d+)\t(\S+)\t(.*)$", output, re.M)
    }
    assert len(found) == 12, output[-2000:]
    return found


def load(data_bin: Path, *paths: Path):
    """Models in evaluation mode, and their task."""
    from fairseq.checkpoint_utils import load_model_ensemble_and_task

    loaded, _, task = load_model_ensemble_and_task(
        [str(path) for path in paths], {"data": str(data_bin)}
    )
    return [model.eval() for model in loaded], task


def encode(task, line: str) -> torch.Tensor:
    return task.source_dictionary.encode_line(line, add_if_not_exist=False).long()


def prefix(target: torch.Tensor) -> torch.Tensor:
    """What the decoder is given to predict ``target``: the end mark first."""
    return torch.cat([target[-1:], target[:-1]])


def alignments(output: str) -> dict[str, list[tuple[int, int]]]:
    return {
        m[1]: [tuple(map(int, pair.split("-"))) for pair in m[2].split()]
        for m in re.finditer(r"^A-(\d+)\t(.*)$", output, re.M)
    }


def same(first: dict, second: dict) -> None:
    assert {k: text for k, (_, text) in first.items()} == {
        k: text for k, (_, text) in second.items()
    }
    for key, (score, _) in first.items():
        assert second[key][0] == pytest.approx(score, abs=1e-4)


def test_the_checkpoint_says_all(models, data_bin):
    options = vars(torch.load(models["cape"], weights_only=True)["cfg"]["model"])
    counts = [
        int(
            re.search(
                rf"\[{lang}\].*train.{lang}: 300 sents, (\d+) tokens",
                (data_bin / "preprocess.log").read_text(),
            )[1]
        )
        for lang in ("de", "en")
    ]
    assert options["source_scale"] == pytest.approx(counts[0] / counts[1])
    assert options["source_bos"] == "on"


def test_batch_size_changes_nothing(models, data_bin):
    alone = generate(data_bin, models["cape"], options=("--batch-size", 1))
    same(alone, generate(data_bin, models["cape"], options=("--batch-size", 12)))
    same(alone, generate(data_bin, models["cape"], options=("--batch-size", 5)))


def test_ensemble_of_models_with_and_without_begin_of_sentence(models, data_bin):
    """Scores and alignments, against the mean of the two models' direct forward passes."""
    paths = ":".join(str(path) for path in models.values())
    output = fairseq(
        "generate",
        data_bin,
        "--path",
        paths,
        "--cpu",
        "--beam",
        2,
        "--max-len-b",
        25,
        "--print-alignment",
        "hard",
    )
    sources, hypotheses = (
        dict(re.findall(rf"^{kind}-(\d+)\t(?:\S+\t)?(.*)$", output, re.M)) for kind in "SD"
    )
    scores = dict(re.findall(r"^P-(\d+)\t(.*)$", output, re.M))
    loaded, task = load(data_bin, *models.values())
    assert len(scores) == 12
    for number, line in scores.items():
        source, target = encode(task, sources[number]), encode(task, hypotheses[number])
        passes = [model(source[None], None, prefix(target)[None]) for model in loaded]
        probabilities = torch.stack([scores.softmax(-1) for scores, _ in passes]).mean(0)[0]
        expected = probabilities.gather(1, target[:, None]).log2().flatten()
        assert torch.tensor([float(score) for score in line.split()]) == pytest.approx(
            expected.detach(), abs=2e-3
        )
        attention = torch.stack([extra["attn"][0][0] for _, extra in passes]).mean(0)
        pairs = alignments(output)[number]
        assert [position for position, _ in pairs] == attention[: len(pairs), :-1].argmax(
            1
        ).tolist()


def test_soft_alignments_are_attention_over_the_callers_tokens(models, data_bin):
    """In a padded batch; the begin-of-sentence token has no column."""
    output = fairseq(
        "generate",
        data_bin,
        "--path",
        models["cape"],
        "--cpu",
        "--max-len-b",
        25,
        "--print-alignment",
        "soft",
    )
    sources, hypotheses = (
        dict(re.findall(rf"^{kind}-(\d+)\t(?:\S+\t)?(.*)$", output, re.M)) for kind in "SH"
    )
    (model,), task = load(data_bin, models["cape"])
    found = dict(re.findall(r"^A-(\d+)\t(.*)$", output, re.M))
    assert len(found) == 12
    for number, line in found.items():
        source, target = encode(task, sources[number]), encode(task, hypotheses[number])
        expected = model(source[None], None, prefix(target)[None])[1]["attn"][0][0]
        rows = torch.tensor([[float(weight) for weight in row.split(",")] for row in line.split()])
        assert rows.shape == (len(target), len(source))
        assert (rows - expected).abs().max() < 1e-4


def test_interactive_agrees_with_generate(models, data_bin):
    expected = generate(data_bin, models["cape"], options=("--beam", 4))
    lines = (data_bin.parent / "test.en").read_text(encoding="utf-8")
    output = fairseq(
        "interactive",
        data_bin,
        "--path",
        models["cape"],
        "--cpu",
        "--beam",
        4,
        "--max-len-b",
        25,
        "--buffer-size",
        12,
        "--batch-size",
        5,
        input=lines,
    )
    actual = {
        m[1]: (float(m[2]), m[3]) for m in re.finditer(r"^H-(\d+)\t(\S+)\t(.*)$", output, re.M)
    }
    same(expected, actual)


def test_unknown_words_are_replaced_by_the_words_they_attend_to(models, data_bin, tmp_path):
    """With <unk> made the likeliest word everywhere, every word printed is the aligned source
    word."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for lang in ("en", "de"):
        shutil.copy(data_bin.parent / f"test.{lang}", raw / f"test.en-de.{lang}")
        shutil.copy(data_bin / f"dict.{lang}.txt", raw)
    options = (
        "--dataset-impl",
        "raw",
        "--path",
        models["cape"],
        "--cpu",
        "--beam",
        2,
        "--max-len-b",
        6,
        "--unkpen",
        -99,
    )
    replace = ("--replace-unk", "--print-alignment", "hard", "-s", "en", "-t", "de")
    output = fairseq("generate", raw, *options, *replace)
    (model,), task = load(data_bin, models["cape"])
    lines = (data_bin.parent / "test.en").read_text(encoding="utf-8").splitlines()
    hypotheses = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", output, re.M))
    assert len(hypotheses) == 12
    for number, text in hypotheses.items():
        source, words = encode(task, lines[int(number)]), text.split()
        unknown = torch.tensor(
            [task.target_dictionary.unk()] * len(words) + [task.target_dictionary.eos()]
        )
        attention = model(source[None], None, prefix(unknown)[None])[1]["attn"][0][0]
        positions = attention[: len(words), :-1].argmax(1).tolist()
        assert alignments(output)[number] == list(zip(positions, range(len(words)), strict=True))
        assert words == [lines[int(number)].split()[position] for position in positions]


def test_unlimited_length_with_the_stock_task(models, data_bin):
    """The stock task's own limit of 1,024 tokens is an option of that task."""
    line = " ".join(["the old man buys an egg"] * 200) + "\n"
    limits = ("--max-source-positions", 5000, "--max-target-positions", 5000)
    output = fairseq(
        "interactive",
        data_bin,
        "--path",
        models["cape"],
        "--cpu",
        "--beam",
        1,
        "--max-len-b",
        5,
        *limits,
        input=line,
    )
    assert re.search(r"^H-0\t", output, re.M), output[-1500:]
