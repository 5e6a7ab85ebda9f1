"""recipes/length.sh from text to its table, with models of no use."""

import json
import re
import shlex

import pytest
from fairseq.models import build_model
from fairseq.options import get_training_parser, parse_args_and_arch

import cape_fairseq.tasks  # noqa: F401  (registers them)
from cape_fairseq.experiments import corpora, engine
from cape_fairseq.experiments.jobs import Plan
from cape_fairseq.experiments.steps import Text
from cape_fairseq.experiments.training import TrainingRun
from cape_fairseq.models import source_scale
from tests.recipes.support import write_corpus
from tests.support import ENCODINGS, ToyTask, cape


def test_text_to_table(tmp_path, forked_jobs):
    write_corpus(tmp_path / "data", train=60, valid=5, test=6)
    small = ("--seeds", "1", "--max-update", 2, "--stack", 20, "--bpe", 60, "--mix-from", 1)
    folders = ("--data", tmp_path / "data", "--out", tmp_path / "out")
    options = (*folders, "--rows", "sinpos-mixed", *small)
    printed = cape("lengths", *options).stdout
    found = json.loads((tmp_path / "out" / "length.json").read_text())
    assert [line[0] for line in found["rows"]] == ["sinpos-mixed"]
    one = json.loads((tmp_path / "out" / "sinpos-mixed" / "1" / "length.json").read_text())
    assert one["updates"] == 2
    assert 2 < one["stack_loss"] < 12
    assert one["texts"] >= 2
    assert any(line.startswith("sinpos-mixed ") for line in printed.splitlines())
    log = (tmp_path / "out" / "sinpos-mixed" / "1" / "logs" / "training.log").read_text()
    assert "of 60 pairs are in" in log
    assert "too long" in (tmp_path / "out" / "text" / "lengths.txt").read_text()
    other = cape("lengths", *options, "--max-update", 3, check=False)
    assert other.returncode == 1
    assert "was made with other settings" in other.stderr  # a mean over two budgets means nothing


def test_models_take_the_stacks_that_they_are_trained_and_tested_on():
    """The command lines; fairseq leaves out what is longer than it was told."""

    def commands(*options):
        rows = ("--rows", "abspos-tuned-mixed", "--seeds", 1)
        return cape("lengths", *rows, *options, "--dry-run").stdout.splitlines()

    usual, long = commands(), commands("--stack", 900)
    assert not any("source-positions" in line for line in usual)
    trainings = [line for line in long if " train-run " in line]
    assert len(trainings) == 2
    assert all("--max-target-positions 2048" in line for line in trainings)  # as a batch
    assert any("--stack-max-tokens 1200" in line for line in trainings)
    assert any("check-lengths" in line and "--longest 2048" in line for line in long)
    sentences = [line for line in long if line.endswith("/test.out")]
    assert sentences
    assert all("--max-source-positions 2048" in line for line in sentences)
    translated = [line for line in usual if line.endswith(("/test.out", "/stacks.out"))]
    translated = [line for line in translated if "--score-reference" not in line]
    assert len(translated) == 2
    assert all("--max-len-a 2 --max-len-b 200" in line for line in translated)


def test_own_rows_are_trained_as_they_are_described():
    own = ("mine=shape --shape-max-shift 7", "next=rope_cross --from mine --dropout '0.2'")
    given = [word for text in own for word in ("--own", text)]
    options = (*given, "--rows", "sinpos", "--seeds", 500, "--max-update", 90, "--dry-run")
    printed = cape("lengths", *options).stdout.splitlines()
    _, first, second = (line for line in printed if " train-run " in line)
    assert "--arch shape_transformer_tiny" in first
    assert "--shape-max-shift 7 --max-update 90" in first
    assert "--arch rope_cross_transformer_tiny" in second
    assert "--parent mine/500/checkpoints/checkpoint_best.pt" in second
    assert "--dropout 0.2 --max-update 30" in second
    assert "next" in cape("lengths", *given, "--rows", "list").stdout.split()


def trainings(*options):
    """The command lines of the trainings, and what is said of them."""
    done = cape("lengths", "--rows", "sinpos-tuned", *options)
    return [x for x in done.stdout.splitlines() if " train-run " in x], done.stderr


def last(words, option):
    return re.findall(rf" {option} (\S+)", words)[-1]


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        ((), ["1", "10000001", "20000001"]),
        (("--seeds", 2), ["1", "10000001"]),
        (("--seeds", "3 7"), ["3", "7"]),
        (("--seeds", "10000001"), ["10000001"]),
    ],
)
def test_seeds_are_counted_or_named(given, seeds):
    lines, told = trainings(*given, "--dry-run")
    assert [last(words, "--seed") for words in lines[::2]] == seeds
    assert f"{2 * len(seeds)} trainings with the seeds {' '.join(seeds)}" in told


def test_options_for_all_rows():
    """Rows that go on have half of the user's peak, too."""
    options = ("--seeds", 1, "--size", "_iwslt_de_en", "--dry-run", "--", "--lr", "1e-3")
    plain, tuned = trainings(*options, "--dropout", 0.3)[0]
    for words in (plain, tuned):
        assert "--arch sinpos_transformer_iwslt_de_en" in words
        assert last(words, "--dropout") == "0.3"
    assert last(plain, "--lr") == "1e-3"
    assert last(tuned, "--lr") == "0.0005"


@pytest.mark.parametrize(
    ("updates", "expected"), [((), ("200", "100")), ((300, 50), ("150", "25"))]
)
def test_a_short_training_comes_to_its_peak(updates, expected):
    options = zip(("--max-update", "--tune-update"), updates, strict=False)
    given = [word for pair in options for word in pair]
    lines, _ = trainings("--seeds", 1, *given, "--dry-run")
    assert tuple(last(words, "--warmup-updates") for words in lines) == expected


def test_larger_models_learn_with_less():
    (plain, tuned), _ = trainings("--seeds", 1, "--size", "_iwslt_de_en", "--dry-run")
    assert (last(plain, "--lr"), last(plain, "--warmup-updates")) == ("5e-4", "450")
    assert (last(tuned, "--lr"), last(tuned, "--warmup-updates")) == ("0.00025", "100")
    usual, _ = trainings("--seeds", 1, "--dry-run")
    assert [last(words, "--lr") for words in usual] == ["4e-3", "2e-3"]


def test_stacks_of_training_reach_those_of_the_test():
    rows = ("--rows", "rope-cross-mixed rope-cross-tuned-mixed randpos", "--seeds", 1)
    options = (*rows, "--stack", 150, "--dry-run")
    lines = cape("lengths", *options).stdout.splitlines()
    found = [words for words in lines if " train-run " in words and "--stack-max" in words]
    assert [last(words, "--stack-max-tokens") for words in found] == ["200", "200"]
    (check,) = (words for words in lines if "check-lengths" in words)
    assert "--stack 150 --stack-probability 0.5 --stack-max-tokens 200 >" in check
    measured = [words for words in lines if "length-run" in words]
    assert len(measured) == 3
    assert all(words.endswith(" --language de --reference text/test.de") for words in measured)


def test_random_positions_have_room_for_every_line(tmp_path):
    write_corpus(tmp_path / "data", train=60, valid=5, test=6)
    options = ("--rows", "randpos", "--seeds", 1, "--stack", 100, "--dry-run")
    for data, room in (((), "400"), (("--data", tmp_path / "data"), "1024")):
        lines = cape("lengths", *options, *data).stdout.splitlines()
        (words,) = (line for line in lines if " train-run " in line)
        assert last(words, "--randpos-range") == room


def test_every_encoding_has_a_row():
    assert set(ENCODINGS) <= set(cape("lengths", "--rows", "list").stdout.split())


@pytest.mark.parametrize("tool", [("lengths", "--seeds", 1), ("quick-start",)])
def test_fairseq_accepts_every_row(tool, tmp_path, monkeypatch):
    """Its options are parsed, and the model is built."""
    monkeypatch.setattr(source_scale, "target_source_ratio", lambda *_: 0.9)
    (tmp_path / "dict.en.txt").touch()
    lines = [shlex.split(line) for line in cape(*tool, "--dry-run").stdout.splitlines()]
    lines = [words for words in lines if "train-run" in words]
    listed = cape("lengths", "--rows", "list").stdout.split()
    assert len(lines) == (3 if tool[0] == "quick-start" else len(listed))
    for words in lines:
        more = words[words.index("--") + 2 :]
        command = TrainingRun(tmp_path / words[2], [str(tmp_path), *more], None).command()
        parsed = parse_args_and_arch(get_training_parser(), command[3:])
        model = build_model(parsed, ToyTask())
        row = words[2].split("/")[0].replace("_", "-")
        known = [name for name in ENCODINGS if row.startswith(name)]
        assert model.cfg.position_encoding in (known or ["sinpos"])  # randpos has sinusoids


def test_the_epoch_of_the_first_stacks_is_looked_at_before():
    """Of rows that have one, and by nobody else: others do not wait for it."""

    def checked(*options):
        lines = cape("lengths", "--seeds", 1, *options, "--dry-run").stdout.splitlines()
        return [line for line in lines if " check-epochs " in line]

    late = ("--rows", "sinpos rope-cross-mixed")
    (line,) = checked(*late)
    assert (
        "--max-tokens 2048 --update-freq 1 --gpus 1 --max-update 900 --stack-from-epoch 3" in line
    )
    assert checked("--rows", "rope-cross-tuned-mixed sinpos") == []
    own = "late=sinpos --task stacked_translation --stack-probability 0.5 --stack-from-epoch 9"
    assert "--stack-from-epoch 9 >" in checked("--rows", "sinpos", "--own", own)[0]


def test_first_stacks_are_looked_for_with_the_options_of_training():
    plan, text = Plan(), Text("data-bin", "ready", "en", "de", {})
    options = ("--max-tokens", "4096", "--max-update", "5000", "--stack-from-epoch", "3")
    given = corpora.long_enough(plan, text, (*options, "--update-freq", "1,4"), gpus=2)
    assert given.ready == plan.jobs[0].outputs[0]
    expected = "--max-tokens 4096 --update-freq 1,4 --gpus 2 --max-update 5000 --stack-from-epoch 3"
    assert " ".join(plan.jobs[0].commands[0]).endswith(expected)
    assert corpora.long_enough(plan, text, options[:4]) == text
    corpora.long_enough(plan, text, (*options, "--batch-size", "16", "--update-freq", "3"), gpus=2)
    expected = "--max-tokens 4096 --batch-size 16 --update-freq 3 --gpus 2 --max-update 5000"
    assert expected in " ".join(plan.jobs[1].commands[0])
    assert len({job.name for job in plan.jobs}) == 2
    endless = ("--max-update", "0", "--max-epoch", "10")  # the epochs are enough
    assert corpora.long_enough(plan, text, (*options, *endless)) == text


def test_options_of_a_user_and_of_a_row_win():
    own = ("--own", "soft=cape --from sinpos --lr 3e-4")
    more = ("--", "--warmup-updates", 30, "--max-source-positions", 5000)
    options = ("--seeds", 1, "--rows", "sinpos", *own, "--stack", 400, "--dry-run", *more)
    lines = cape("lengths", *options).stdout.splitlines()
    plain, soft = (line for line in lines if " train-run " in line)
    assert last(soft, "--lr") == "3e-4"
    assert last(plain, "--warmup-updates") == "30"
    assert last(plain, "--max-source-positions") == "5000"


def test_a_folder_has_one_size_and_one_set_of_options(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(engine, "run", lambda plan, out, machine, settings: told.append(settings))
    sizes = ((), ("--size", "_iwslt_de_en"), ("--", "--dropout", "0.3"), ("--mix-from", 2))
    for more in sizes:
        cape("lengths", "--rows", "sinpos", "--seeds", 1, "--out", tmp_path, *more)
    assert told[0].endswith("900+300 updates")
    added = ["_iwslt_de_en", "--dropout 0.3", "stacks from epoch 2"]
    assert told[1:] == [f"{told[0]}, {words}" for words in added]


def test_tuned_rows_start_from_a_row_of_their_seed():
    rows = "floater-tuned cape-near-mixed kerple-tuned-mixed"
    options = ("--rows", rows, "--seeds", "1 2", "--max-update", 90)
    printed = cape("lengths", *options, "--tune-update", 40, "--dry-run").stdout.splitlines()
    found = {}
    for words in (line.split() for line in printed if " train-run " in line):
        parent = words[words.index("--parent") + 1] if "--parent" in words else None
        updates = words[len(words) - words[::-1].index("--max-update")]
        found[words[words.index("train-run") + 1]] = (parent, updates)
    for seed in ("1", "2"):
        for parent, child in (
            ("sinpos", "floater-tuned"),
            ("sinpos", "cape-near-mixed"),
            ("kerple", "kerple-tuned-mixed"),
        ):
            assert found[f"{parent}/{seed}"] == (None, "90")
            checkpoint = f"{parent}/{seed}/checkpoints/checkpoint_best.pt"
            assert found[f"{child}/{seed}"] == (checkpoint, "40")
    # A parent itself is not tested unless its row is asked for.
    assert not any("--path sinpos/" in line for line in printed)
