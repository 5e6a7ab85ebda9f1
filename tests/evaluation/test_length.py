"""The table over rows and seeds, from files written out."""

import json
import math
import statistics

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer
from scipy import stats

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation import plots
from cape_fairseq.evaluation.generated import Sentence
from cape_fairseq.evaluation.length import interval, measure, plot, rows, significance
from cape_fairseq.evaluation.length_run import ENDS, curve
from cape_fairseq.evaluation.length_run import measure as measure_run
from cape_fairseq.evaluation.output_length import kept, of_one
from tests.support import cape

VERSES = [
    ("ein altes Haus ist da .", "ein altes Haus ist da ."),
    ("zwei Hunde da .", "zwei Hunde ."),
    ("so .", "so ."),
]
LOG = (
    "x | INFO | train_inner | epoch 001: 20 / 30 loss=5.0, num_updates=20\n"
    "x | INFO | valid | epoch 001 | valid on 'valid' subset | loss 4.5 | num_updates 30\n"
    "x | INFO | valid | epoch 002 | valid on 'valid' subset | loss 4.25 | num_updates 60\n"
    "x | INFO | fairseq_cli.train | done training in 12.5 seconds\n"
)


def generated(path, pairs, scores="-1.0"):
    lines = [
        line
        for i, (reference, text) in enumerate(pairs)
        for line in (
            f"S-{i}\tx",
            f"T-{i}\t{reference}",
            f"H-{i}\t-1\t{text}",
            f"P-{i}\t{' '.join([scores] * (len(text.split()) + 1))}",
        )
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "sinpos" / "1"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "training.log").write_text(LOG)
    generated(folder / "test.out", VERSES)
    first = f"{VERSES[0][0]} {VERSES[1][0]}"
    generated(folder / "stacks.out", [(first, "ein altes Haus ist da"), (VERSES[2][0], "so .")])
    generated(folder / "score_stacks.out", [(first, first), ("so .", "so .")])
    return folder


def test_one_run(run):
    found = measure_run(run)
    references = ["ein altes Haus ist da . zwei Hunde da .", "so ."]
    joined = ["ein altes Haus ist da . zwei Hunde .", "so ."]
    assert found["split_bleu"] == round(BLEU().corpus_score(joined, [references]).score, 2)
    stacks = ["ein altes Haus ist da", "so ."]
    assert found["stack_bleu"] == round(BLEU().corpus_score(stacks, [references]).score, 2)
    sides = [[pair[side] for pair in VERSES] for side in (1, 0)]
    assert found["bleu"] == round(BLEU().corpus_score(sides[0], [sides[1]]).score, 2)
    assert len({found["bleu"], found["split_bleu"], found["stack_bleu"]}) == 3
    assert found["stack_loss"] == round(math.log(2), 4)
    assert found["far_loss"] is None
    assert (found["valid_loss"], found["updates"], found["seconds"]) == (4.25, 60, 12.5)
    assert found["best_update"] == 60
    assert found["ratio"] == round(7 / 12, 4)
    assert found["kept"] == round(1 / 3, 4)  # one of the three full stops
    assert found["position_loss"] == []  # no stack fills a bin


def test_loss_by_position_as_far_as_half_of_the_stacks_go():
    lengths = (25, 45, 70)
    losses = np.full((3, 70), np.nan)
    for row, length in zip(losses, lengths, strict=True):
        row[:length] = np.arange(length)
    first = [n for _ in lengths for n in range(20)]
    second = [n for length in lengths for n in range(20, min(length, 40))]
    expected = [statistics.mean(first), statistics.mean(second)]
    assert curve(losses) == pytest.approx(expected, abs=1e-4)


def test_sentences_kept_of_detokenized_text():
    ours, theirs = ["Gut.", "Ja!", "So"], ["Gut .", "Ja !", "So ."]
    words = [[text.split() for text in side] for side in (ours, theirs)]
    assert kept(*words, (".", "!")) == round(2 / 3, 4)


@pytest.mark.parametrize(
    ("language", "ours", "theirs", "ratio", "share"),
    [
        ("zh", "我喜欢猫。你呢", "我喜欢猫。你呢？", 7 / 8, 1 / 2),
        ("hi", "राम घर गया ।", "राम घर गया । सीता आई ।", 4 / 7, 1 / 2),
    ],
)
def test_lengths_and_ends_of_other_scripts(language, ours, theirs, ratio, share):
    found = of_one([Sentence("x", theirs, ours)], ENDS, language)
    assert (found["ratio"], found["kept"]) == (round(ratio, 4), share)


def test_references_are_those_of_the_text_and_sentences_stand_alone(run, tmp_path):
    """A piece that the dictionary lacks is no reason for a wrong reference; a lost quote in one
    sentence does not turn those of the next."""
    said = ["' ja , ' sagte Anna .", "' nein . '", "so ."]
    lost = ["ja , ' sagte Anna .", *said[1:]]
    unknown = [said[0].replace("Anna", "<<unk>> na"), *said[1:]]
    (tmp_path / "test.de").write_text("".join(f"{line}\n" for line in said), encoding="utf-8")
    generated(run / "test.out", list(zip(unknown, lost, strict=True)))
    whole = [" ".join(unknown[:2]), unknown[2]]
    generated(run / "stacks.out", [(whole[0], " ".join(said[:2])), (whole[1], "so .")])
    scored = [(line, line.replace("<<unk>>", "<unk>")) for line in whole]
    generated(run / "score_stacks.out", scored)
    found = measure_run(run, "de", tmp_path / "test.de")
    detokenize = MosesDetokenizer("de").detokenize
    wanted, ours = ([detokenize(line.split()) for line in side] for side in (said, lost))
    bleu = BLEU().corpus_score
    assert found["bleu"] == round(bleu(ours, [wanted]).score, 2)
    stacks = [" ".join(wanted[:2]), wanted[2]]
    joined = [" ".join(ours[:2]), ours[2]]
    assert found["split_bleu"] == round(bleu(joined, [stacks]).score, 2)
    assert found["stack_bleu"] == 100
    assert measure_run(run, "de")["stack_bleu"] < 100


def test_the_whole_training_is_told(run):
    """What several starts took together; and what it was trained with, the seed apart."""
    trained = {
        "settings": ["--arch", "x", "--seed", "7", "--dropout", "0.1"],
        "data": "digest 7",
        "starts": [{"seconds": 20.0}],
        "wall_seconds": 20.0,
    }
    path = run / "checkpoints" / "trained.json"
    path.parent.mkdir()
    path.write_text(json.dumps(trained))
    found = measure_run(run)
    assert (found["data"], found["options"]) == ("digest 7", "--arch x --dropout 0.1")
    assert found["seconds"] == 12.5  # fairseq's own, without its start
    stopped = {**trained, "starts": [{"seconds": 80.0}, {"seconds": 20.0}], "wall_seconds": 100.0}
    path.write_text(json.dumps(stopped))
    assert measure_run(run)["seconds"] == 100.0
    (run / "logs" / "training.log").write_text(LOG[: LOG.rindex("x | ")])  # its end was not seen
    path.write_text(json.dumps(trained))
    assert measure_run(run)["seconds"] == 20.0


def test_the_text_of_the_test_is_known_again(run):
    before = measure_run(run)["test_text"]
    generated(run / "test.out", [(line, f"x {line}") for line, _ in VERSES])
    assert measure_run(run)["test_text"] == before
    generated(run / "test.out", [*VERSES, ("da .", "da .")])
    assert measure_run(run)["test_text"] != before


def test_stacks_of_another_text_are_refused(run, tmp_path):
    generated(run / "stacks.out", [("something else .", "x")])
    result = cape("length-run", run, check=False)
    assert result.returncode == 1
    assert "stack 0 is not made of sentences of test.out" in result.stderr


def write(folder, name, seed, **values):
    run = {
        "updates": 100,
        "bleu": 10.0,
        "stack_bleu": 5.0 + seed / 100,
        "split_bleu": 9.0,
        "texts": 7,
    }
    run["signature"] = "s"
    (folder / name / str(seed)).mkdir(parents=True)
    text = json.dumps({**run, "valid_loss": 4.0, "ratio": 1.0, **values})
    (folder / name / str(seed) / "length.json").write_text(text)


def test_the_table_has_means_intervals_and_p(tmp_path):
    ours, theirs = [12.0, 12.5, 13.0], [10.0, 10.2, 10.9]
    for seed in range(3):
        write(tmp_path, "sinpos", seed, bleu=theirs[seed], split_bleu=9.0 + seed)
        write(tmp_path, "cape", seed, bleu=ours[seed], stack_bleu=8.0 + seed / 10)
    write(tmp_path, "rope", 1)
    write(tmp_path, "alibi", 1, kept=0.5, short=0.6, long=0.2, seconds=60)
    write(tmp_path, "alibi", 2, bleu=10.5, updates=1200, short=0.5, long=0.25, seconds=120)
    for seed in range(2):
        run = {"bleu": 11.0 + seed, "stack_bleu": 4.0 + seed, "split_bleu": 12.0 + seed}
        write(tmp_path, "sinpos-tuned", seed, **run)
    for seed in range(3):
        write(tmp_path, "nopos", seed, bleu=1.0 + seed / 100, stack_bleu=0.1 + seed)
        write(tmp_path, "fire", seed, bleu=theirs[seed])
    table = rows(measure(tmp_path))
    lines = {line[0]: dict(zip(table.head, line, strict=True)) for line in table.lines}
    half = 4.302653 * statistics.stdev(ours) / math.sqrt(3)
    assert lines["cape"]["BLEU"] == f"12.50 ± {half:.2f}"
    expected = stats.ttest_ind(ours, theirs, equal_var=False).pvalue
    assert lines["cape"]["p, BLEU against sinpos"] == f"{expected:.3f}, above"
    assert lines["nopos"]["p, BLEU against sinpos"] == "< 0.001, below"
    assert lines["fire"]["p, BLEU against sinpos"] == "1.000"
    assert lines["alibi"]["updates"] == "100 / 1,200"
    assert lines["alibi"]["minutes"] == "1.5"
    assert lines["alibi"]["shorter than 0.8, longer than 1.25"] == "55, 22 %"
    assert lines["rope"]["shorter than 0.8, longer than 1.25"] == "-"
    # Users who split take the better of the two.
    tuned = "split, translate, join (sinpos-tuned)"
    assert lines[tuned]["BLEU stacks"].startswith("12.50 ± ")
    expected = stats.ttest_ind([8.0, 8.1, 8.2], [12.0, 13.0], equal_var=False).pvalue
    assert lines["cape"][f"p, BLEU stacks against {tuned}"] == f"{expected:.3f}, below"
    assert lines["sinpos"]["p, BLEU against sinpos"] == "-"
    assert lines["split, translate, join"]["BLEU stacks"].startswith("10.00 ± ")
    assert lines["split, translate, join"]["BLEU stacks, by sentence"] == "-"
    assert (
        lines["sinpos"]["BLEU stacks, by sentence"]
        == lines["split, translate, join"]["BLEU stacks"]
    )
    assert lines["rope"]["BLEU"] == "10.00"
    assert lines["rope"]["p, BLEU against sinpos"] == "-"
    assert lines["sinpos"]["loss stacks"] == "-"
    assert lines["alibi"]["sentences kept"] == "-"  # one of its seeds has none


def test_one_seed_has_no_interval():
    assert interval([1.0]) is None
    assert significance([1.0], [1.0, 2.0]) is None


def test_the_command_writes_table_and_figure(run, tmp_path):
    cape("length-run", run, "--language", "de")
    printed = cape("length", tmp_path, "--output", tmp_path / "length").stdout
    first, second = (line.split() for line in printed.splitlines()[1:3])
    assert [*first[:2], first[3]] == ["split,", "translate,", "1"]  # best on stacks
    assert second[:3] == ["sinpos", "1", "60"]
    page = (tmp_path / "length.md").read_text().splitlines()
    assert page[3].startswith("| sinpos | 1 | 60 | ")
    assert (tmp_path / "length.png").stat().st_size > 5000
    assert json.loads((tmp_path / "length.json").read_text())["tool"] == "length"


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"texts": 40}, "number of stacks"),
        ({"test_text": "b"}, "text of the test set"),
        ({"data": "b"}, "text of the training"),
    ],
)
def test_runs_of_different_texts_have_no_mean(values, what, tmp_path):
    for seed in (1, 2):
        write(tmp_path, "sinpos", seed, data="a", test_text="a")
    write(tmp_path, "rope", 1, texts=None)  # measured before these were kept
    measure(tmp_path)
    write(tmp_path, "cape", 1, **{"data": "a", "test_text": "a", **values})
    with pytest.raises(UserError, match=f"cape/1 and sinpos/1 differ in the {what}; make both"):
        measure(tmp_path)


def test_seeds_with_different_options_are_named(tmp_path):
    for seed in (1, 2):
        write(tmp_path, "sinpos", seed, options="--lr 1", bleu=9.0 + seed, split_bleu=9.0 + seed)
        write(tmp_path, "cape", seed, options=f"--lr {seed}", bleu=8.0 + seed)
    notes = [note for note in rows(measure(tmp_path)).notes if "options" in note]
    assert [note.partition(":")[0] for note in notes] == ["cape"]


def test_every_row_has_its_place_in_the_legend(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(plots, "save", lambda figure, path: figures.append(figure))
    for number in range(48):
        write(tmp_path, f"row-{number}", 1)
    plot(measure(tmp_path), tmp_path / "x.png")
    FigureCanvasAgg(figures[0]).draw()
    assert figures[0].legends[0].get_window_extent().y0 >= 0


def test_an_empty_folder_is_refused(tmp_path):
    result = cape("length", tmp_path, check=False)
    assert result.returncode == 1
    assert "has no ROW/SEED/length.json; run recipes/length.sh" in result.stderr


def test_a_checkpoint_from_the_start_of_its_training_is_named(tmp_path):
    write(tmp_path, "sinpos", 1, best_update=24)
    write(tmp_path, "cape", 1, best_update=25)
    write(tmp_path, "rope", 1)  # measured before this was kept
    notes = rows(measure(tmp_path)).notes
    assert [note for note in notes if "is of update" in note] == [
        "sinpos/1: the checkpoint that was tested, with the lowest validation loss, is of update "
        "24 of 100; what came after made it worse on sentences."
    ]
    assert "7 stacks; sacreBLEU signature: s" in notes
