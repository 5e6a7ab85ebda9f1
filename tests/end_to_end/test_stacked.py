"""The task stacked_translation and the evaluation on real commands, with models of a few
updates."""

import json
import math
import re

import pytest
import torch
from fairseq import checkpoint_utils

from cape_fairseq.data.stacking import edit_sentence
from cape_fairseq.evaluation.generated import read_generated, read_scored
from tests.support import (
    cape,
    fairseq,
    fairseq_command,
    needs_stock_inference,
    run,
    train,
)

STACK = ("--task", "stacked_translation", "--stack-min-tokens", 40)


@pytest.fixture(scope="module")
def models(data_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stacked")
    for arch in ("transformer", "cape_transformer_tiny", "shape_transformer_tiny"):
        train(data_bin, folder / arch, "--share-all-embeddings", arch=arch, updates=12)
    return {path.name.split("_")[0]: path / "checkpoint_last.pt" for path in folder.iterdir()}


def generate(data_bin, path, output, *options):
    printed = fairseq(
        "generate", data_bin, "--path", path, "--cpu", "--beam", 2, "--max-len-b", 10, *options
    )
    output.write_text(printed, encoding="utf-8")
    return printed


@pytest.mark.parametrize("name", ["transformer", "cape"])
def test_scores_are_those_of_a_forward_pass(models, data_bin, tmp_path, name):
    """Teacher-forced scores of stacks, a stock model's and one's with a begin-of-sentence token of
    its own."""
    if name == "transformer":
        needs_stock_inference()
    printed = generate(data_bin, models[name], tmp_path / "out", *STACK, "--score-reference")
    stacks = read_scored(tmp_path / "out")
    assert re.search(
        rf"12 pairs became {len(stacks)} stacks|of 12 pairs became {len(stacks)} stacks", printed
    )
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(models[name])], {"data": str(data_bin)}
    )
    model.eval()
    for stack in stacks:
        source, target = (
            dictionary.encode_line(line, add_if_not_exist=False).long()
            for dictionary, line in (
                (task.source_dictionary, stack.source),
                (task.target_dictionary, stack.reference),
            )
        )
        assert len(target) - 1 >= 40
        with torch.no_grad():
            logits, _ = model(
                source[None],
                torch.tensor([len(source)]),
                torch.cat([target[-1:], target[:-1]])[None],
            )
        expected = torch.log_softmax(logits[0], -1).gather(1, target[:, None])[:, 0]
        assert stack.scores == pytest.approx(expected.tolist(), abs=1e-4)


def test_stacks_are_those_of_the_text(models, data_bin, tmp_path):
    """The task joins token ids as the text would be joined, in corpus order, on both sides."""
    generate(data_bin, models["cape"], tmp_path / "plain", "--score-reference")
    generate(data_bin, models["cape"], tmp_path / "stacked", *STACK, "--score-reference")
    generate(
        data_bin,
        models["cape"],
        tmp_path / "kept",
        *STACK,
        "--score-reference",
        "--stack-keep-rest",
    )
    plain, stacked, kept = (
        read_generated(tmp_path / name) for name in ("plain", "stacked", "kept")
    )
    known = set((data_bin / "dict.de.txt").read_text(encoding="utf-8").split())
    for side in ("source", "reference"):
        language = "en" if side == "source" else "de"
        words = " ".join(getattr(s, side) for s in plain).split()
        joined = [w for s in kept for w in getattr(s, side).split()]
        assert [w.lower().replace(".", ",") for w in joined] == [
            w.lower().replace(".", ",") for w in words
        ]
        first = getattr(stacked[0], side)
        count = len(first.split())
        lines, expected = iter(plain), []
        while len(expected) < count:
            line = getattr(next(lines), side)
            lower, comma = bool(expected), len(expected) + len(line.split()) < count
            edited = edit_sentence(line, lower, comma, language).split()
            expected += [e if e in known else w for e, w in zip(edited, line.split(), strict=True)]
        assert first.split() == expected
    assert [s.reference for s in kept[: len(stacked)]] == [s.reference for s in stacked]


def test_separator_swap_and_numbers_of_sentences(models, data_bin, tmp_path):
    spare = "Euro"  # any token that both dictionaries have
    options = (
        "--task",
        "stacked_translation",
        "--stack-sentences",
        3,
        "--stack-separator",
        spare,
        "--score-reference",
    )
    generate(data_bin, models["shape"], tmp_path / "plain", "--score-reference")
    generate(data_bin, models["shape"], tmp_path / "stacked", *options)
    generate(data_bin, models["shape"], tmp_path / "swapped", *options, "--stack-swap")
    plain, stacked, swapped = (
        read_generated(tmp_path / name) for name in ("plain", "stacked", "swapped")
    )
    lines = [s.reference for s in plain]
    assert [s.reference for s in stacked] == [
        f" {spare} ".join(lines[i : i + 3]) for i in range(0, 12, 3)
    ]
    assert [s.reference for s in swapped] == [
        f" {spare} ".join([*lines[i + 1 : i + 3], lines[i]]) for i in range(0, 12, 3)
    ]


def test_long_translations_are_not_cut(models, data_bin, tmp_path):
    """fairseq's own limit of 200 tokens is none for stacks; without the task's, a minimum above it
    fails."""
    generate(
        data_bin,
        models["cape"],
        tmp_path / "out",
        "--task",
        "stacked_translation",
        "--stack-min-tokens",
        110,
        "--max-len-b",
        200,
        "--min-len",
        205,
        "--beam",
        1,
    )
    assert all(len(s.hypothesis.split()) >= 205 for s in read_generated(tmp_path / "out"))


def test_training_on_stacks(data_bin, tmp_path):
    """SHAPE's Interpolate: also the checkpoint's task can then be translated with."""
    printed = train(
        data_bin,
        tmp_path / "run",
        "--task",
        "stacked_translation",
        "--stack-sentences",
        3,
        "--stack-junction",
        "none",
        arch="shape_transformer_tiny",
        updates=3,
    )
    assert "300 of 300 pairs became 100 stacks" in printed
    assert "30 of 30 pairs became 10 stacks" in printed
    path = tmp_path / "run" / "checkpoint_last.pt"
    generate(
        data_bin, path, tmp_path / "out", "--task", "stacked_translation", "--stack-sentences", 3
    )
    assert len(read_generated(tmp_path / "out")) == 4
    assert len(read_generated_plain(data_bin, path, tmp_path / "plain")) == 12
    # fairseq-validate always takes the checkpoint's own task: its loss is that of the scored
    # references.
    options = ("--task", "stacked_translation", "--stack-sentences", 3, "--stack-junction", "none")
    generate(data_bin, path, tmp_path / "scored", *options, "--score-reference")
    scores = [s.scores for s in read_scored(tmp_path / "scored")]
    mean = -sum(row.sum() for row in scores) / sum(map(len, scores))
    validated = fairseq(
        "validate",
        data_bin,
        "--path",
        path,
        "--cpu",
        "--task",
        "translation",
        "--valid-subset",
        "test",
        "--max-tokens",
        4000,
    )
    assert mean / math.log(2) == pytest.approx(
        float(re.search(r"nll_loss ([\d.]+)", validated)[1]), abs=1e-3
    )


def read_generated_plain(data_bin, path, output):
    generate(data_bin, path, output)
    return read_generated(output)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stack-separator", "<nosuch>"), "--stack-separator: '<nosuch>' is not in dict.en.txt"),
        (
            ("--stack-min-tokens", 5, "--stack-sentences", 2),
            "give either a number of target tokens or",
        ),
        (("--stack-sentences", 0), "a stack cannot have 0 tokens or sentences"),
        (("--stack-sentences", 13), "test has 12 pairs, too few for one stack"),
        (
            ("--bpe", "subword_nmt", "--bpe-codes", "/no/such/codes"),
            "--bpe subword_nmt cannot be built",
        ),
        (("--load-alignments",), "--load-alignments does not work with stacked sentences"),
    ],
)
def test_options_that_make_no_sense(models, data_bin, options, message):
    command = fairseq_command(
        "generate", data_bin, "--path", models["cape"], "--cpu", "--task", "stacked_translation"
    )
    result = run([*command, *options], check=False)
    assert result.returncode != 0
    assert message in result.stderr.splitlines()[-1]


def test_position_loss_is_fairseqs_loss(models, data_bin, tmp_path):
    generate(data_bin, models["cape"], tmp_path / "a", *STACK, "--score-reference")
    generate(data_bin, models["shape"], tmp_path / "b", *STACK, "--score-reference")
    scores = [s.scores for s in read_scored(tmp_path / "a")]
    options = ("--output", "loss", "--end", "--train-length", data_bin / "train.en-de.de")
    printed = cape("position-loss", "cape=a", "both=a,b", *options, cwd=tmp_path).stdout
    data = json.loads((tmp_path / "loss.json").read_text())["models"]
    mean = -sum(row.sum() for row in scores) / sum(map(len, scores))
    assert data["cape"]["all"]["mean"] == pytest.approx([mean])
    assert data["cape"]["position"]["mean"][0] == pytest.approx(
        -sum(row[0] for row in scores) / len(scores)
    )
    assert data["both"]["position"]["count"] == data["cape"]["position"]["count"]
    assert f"{mean:.3f}" in printed
    assert (tmp_path / "loss.png").stat().st_size > 10_000
    rows = [line.split("\t") for line in (tmp_path / "loss.tsv").read_text().splitlines()]
    assert len({len(row) for row in rows}) == 1
    (row,) = (r for r in rows if r[:4] == ["cape", "position", "0", "1"])
    assert float(row[5]) == pytest.approx(data["cape"]["position"]["mean"][0], abs=1e-5)


def test_evaluate_reports_everything(models, data_bin, tmp_path, forked_jobs):
    pytest.importorskip("snakemake")
    out = tmp_path / "out #1: both 😀"
    both = (f"stock={models['transformer']}", f"cape={models['cape']}")
    pair = ("--src", "en", "--tgt", "de")
    settings = ("--min-tokens", 30, "--edges", "0 10 inf", "--detokenize")
    cape("evaluate", *both, *pair, "--data-bin", data_bin, "--out", out, *settings)
    report = (out / "report.md").read_text(encoding="utf-8")
    for title in (
        "Loss by position, stacked",
        "BLEU by source length",
        "first sentence at the end",
        "Cosine",
        "Tokens",
    ):
        assert title in report
    assert re.search(
        r"\| cape \| cape_transformer_tiny \| 12 \| .*cape_global_shift=5.* \| [0-9a-f]{12} \|",
        report,
    )
    for figure in re.findall(r"\]\((\S+\.png)\)", report):
        assert (out / figure).is_file()
    loss = json.loads((out / "loss.json").read_text())["models"]
    assert loss["cape"]["all"]["error"][0] > 0
    assert loss["stock"]["all"]["mean"][0] < 2 * math.log(512)
    assert (
        "Settings: stacks of 30 target tokens, junctions with commas and not segmented again; "
        "beam 4" in report
    )
    assert "BLEU of detokenized text" in report
    page = cape("report", out, *reversed(both), "--data-bin", data_bin, "--settings", "none").stdout
    assert "Cosine" in page + (out / "report.md").read_text(encoding="utf-8")
    assert "Tokens" not in (out / "report.md").read_text(encoding="utf-8")  # of the baseline
    more = ("--data-bin", data_bin, "--out", tmp_path / "x", "--edges", "50 10")
    refused = cape("evaluate", both[0], *pair, *more, check=False)
    assert refused.returncode == 2
    assert "edges of bins must be two or more rising numbers" in refused.stderr
    where = ("--data-bin", tmp_path, "--out", tmp_path / "x")
    refused = cape("evaluate", both[0], *pair, *where, check=False)
    assert refused.returncode == 1
    assert "has no dict.en.txt" in refused.stderr
