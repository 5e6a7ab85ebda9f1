"""Mixed lengths in fairseq-train: training alone, anew in each epoch, resumed exactly."""

import pickle
import re
import tracemalloc
from argparse import Namespace

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq.data import LanguagePairDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import setup_task
from omegaconf import OmegaConf

from cape_fairseq.evaluation import text_lengths
from cape_fairseq.tasks import mixed_lengths
from cape_fairseq.tasks.mixed_lengths import Joining, MixedLengths, Sentences
from cape_fairseq.tasks.stacked_translation import StackedTranslationTask
from tests.support import (
    ToyTask,
    build,
    fairseq_command,
    run,
    train,
    train_arguments,
    train_losses,
)

MIXED = ("--task", "stacked_translation", "--stack-probability", "0.5", "--stack-max-tokens", "60")


def stacks(printed: str) -> dict[str, str]:
    """What was said of each epoch; fairseq draws the first one twice."""
    return dict(re.findall(r"epoch (\d+): ([\d,]+ of 300 pairs are in [\d,]+ stacks)", printed))


def test_epochs_differ_and_validation_stays(data_bin, tmp_path):
    printed = train(data_bin, tmp_path / "run", *MIXED, "--max-epoch", 2, updates=100)
    found = stacks(printed)
    assert set(found) >= {"1", "2"}
    assert found["1"] != found["2"]
    for number in found.values():
        assert 100 < int(number.split()[0]) < 300
    told = text_lengths.measure(data_bin, ("en", "de"), 1024, mix=(0.5, 60))  # before training
    assert round(300 * told["mix"]["share"]) == int(found["1"].split()[0])


def test_validation_is_of_single_pairs(data_bin, tmp_path):
    """Without learning, the loss of a mixed run on the validation set is a plain run's."""
    still = ("--lr", "1e-12", "--seed", 3)
    found = []
    for name, options in (("mixed", MIXED), ("plain", ())):
        printed = train(data_bin, tmp_path / name, *options, *still, updates=1)
        found.append(re.search(r'"valid_loss": "([\d.]+)"', printed)[1])
    assert found[0] == found[1]


def test_the_text_of_training_is_validated_after_training_only(data_bin, tmp_path):
    """In between it would be drawn anew, under the batches of its epoch."""
    arguments = train_arguments(data_bin, tmp_path, "cape_transformer_tiny", 1)
    both = fairseq_command("train", *arguments, *MIXED, "--valid-subset", "valid,train")
    refused = run(both, check=False)
    assert refused.returncode != 0
    message = "--valid-subset is valid,train, but it must be without train, which has stacks in"
    assert message in refused.stderr
    train(data_bin, tmp_path, *MIXED, updates=1)
    words = ("--task", "stacked_translation", "--path", tmp_path / "checkpoint_last.pt")
    limits = ("--valid-subset", "train", "--max-tokens", 4000)
    done = run(fairseq_command("validate", data_bin, *words, *limits))
    assert "pairs are in" not in done.stdout + done.stderr
    assert re.search(r"valid on 'train' subset .* bsz \d+", done.stdout + done.stderr)


def test_the_first_epochs_may_have_short_pairs_only(data_bin, tmp_path):
    late = ("--stack-from-epoch", 2, "--max-epoch", 2)
    found = stacks(train(data_bin, tmp_path / "late", *MIXED, *late, updates=100))
    assert found["1"] == "0 of 300 pairs are in 0 stacks"
    always = stacks(train(data_bin, tmp_path / "always", *MIXED, "--max-epoch", 2, updates=100))
    assert found["2"] == always["2"]


@pytest.mark.parametrize("frequency", [1, 2])
def test_a_resumed_run_goes_on_exactly(data_bin, tmp_path, frequency):
    """Across the end of an epoch, with accumulated batches too."""
    options = (*MIXED, "--update-freq", frequency, "--shift-warmup", 20)
    whole = train_losses(train(data_bin, tmp_path / "whole", *options, updates=24))
    first = train_losses(train(data_bin, tmp_path / "parts", *options, updates=10))
    rest = train_losses(train(data_bin, tmp_path / "parts", *options, updates=24))
    assert first + rest == whole
    assert len(set(whole)) > 20


def test_options_that_make_no_sense_end_the_training(data_bin, tmp_path):
    arguments = train_arguments(data_bin, tmp_path / "run", "sinpos_transformer_tiny", 2)
    given = ("--task", "stacked_translation", "--stack-probability", "1.5")
    result = run(fairseq_command("train", *arguments, *given), check=False)
    assert result.returncode != 0
    message = "--stack-probability is 1.5, but it must be above 0 and at most 1"
    assert message in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stack-probability", "0"), "--stack-probability is 0.0, but it must be above 0"),
        (("--stack-probability", "0.5", "--stack-max-tokens", "0"), "--stack-max-tokens is 0"),
        (("--stack-probability", "0.5", "--stack-from-epoch", "0"), "--stack-from-epoch is 0"),
        (
            ("--stack-probability", "0.5", "--stack-sentences", "3"),
            "--stack-sentences is 3, but it must be left out with --stack-probability",
        ),
        (
            ("--stack-max-tokens", "200"),
            "--stack-max-tokens is 200, but it must be left out without --stack-probability",
        ),
        (("--stack-from-epoch", "2"), "--stack-from-epoch is 2, but it must be left out without"),
        (("--truncate-source",), "--truncate-source does not work with stacked sentences"),
    ],
)
def test_options_that_make_no_sense(data_bin, tmp_path, options, message):
    arguments = train_arguments(data_bin, tmp_path / "run", "sinpos_transformer_tiny", 2)
    words = [str(word) for word in (*arguments, "--task", "stacked_translation", *options)]
    parsed = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), words)
    with pytest.raises(ValueError, match=re.escape(message)):
        setup_task(convert_namespace_to_omegaconf(parsed).task)


def test_batches_can_be_read_by_a_process_that_was_not_forked():
    """What is sent to it is the examples, and not how they are drawn."""
    dictionary = ToyTask().source_dictionary
    sides = [torch.tensor([5, 6, 2]), torch.tensor([7, 2])]
    pairs = LanguagePairDataset(sides, [3, 2], dictionary, sides, [3, 2], dictionary)

    def words(number, *junctions):
        return sides[number][:-1].tolist()

    joining = Joining(words, words, ([], []), 1.0, 9, 1, 1)
    mixed = MixedLengths(pairs, joining)
    sent = pickle.loads(pickle.dumps(mixed))
    assert len(sent) == len(mixed) == 1
    assert sent[0]["source"].tolist() == [5, 6, 7, 2]


def test_a_corpus_takes_little_more_than_its_tokens(monkeypatch):
    """Four bytes each; lists of them would take forty."""
    monkeypatch.setattr(mixed_lengths, "REMEMBERED", 0)
    dictionary, side = ToyTask().source_dictionary, torch.full((51,), 5)
    pairs = LanguagePairDataset(*([side] * 4000, [51] * 4000, dictionary) * 2)

    def words(*_):
        return list(range(1000, 1050))  # Python shares smaller numbers

    joining = Joining(words, words, ([], []), 0.5, 200, 1, 1)
    tracemalloc.start()
    mixed = MixedLengths(pairs, joining)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(len(mixed[i]["source"]) - 1 for i in range(len(mixed))) == 4000 * 50
    assert most < 12 * 2 * 4000 * 51


def test_translations_are_as_long_as_they_are_asked_to_be(tmp_path):
    task = object.__new__(StackedTranslationTask)
    task.cfg = OmegaConf.create({"eval_bleu": False})
    task.tgt_dict = ToyTask().target_dictionary
    task.datasets = {}
    model = build("sinpos_transformer_tiny")
    for given, expected in (
        ({}, (2, 200)),
        ({"max_len_a": 0, "max_len_b": 50}, (0, 50)),
        ({"max_len_a": 1.5, "max_len_b": 200}, (1.5, 200)),
    ):
        generator = task.build_generator([model], Namespace(beam=1, **given))
        assert (generator.max_len_a, generator.max_len_b) == expected
    task.build_generator([model], Namespace(beam=1, replace_unk=""))  # as fairseq-interactive
    task.datasets = {"test": Namespace(src=Sentences(2))}
    with pytest.raises(ValueError, match="--replace-unk does not work with stacked sentences"):
        task.build_generator([model], Namespace(beam=1, replace_unk=""))
