"""Texts longer than those of training: fairseq's commands and ``cape-fairseq translate``."""

import math
import re

import pytest
import torch

from cape_fairseq import load
from cape_fairseq.errors import UserError
from cape_fairseq.inference.checkpoints import load_model, read_train_length
from cape_fairseq.inference.long_text import LongTextOptions, LongTextPolicy
from cape_fairseq.models.config import WindowOptions
from cape_fairseq.models.token_windows import Alignment, TokenWindows
from cape_fairseq.options import list_fields
from cape_fairseq.tasks.text_search import TextGenerator
from tests.models.support import decode_in_steps
from tests.support import EOS, PAD, build, fairseq, make_batch, train

WINDOWS = {"attention_window": 5, "cross_attention_window": 4}
ALIGNED = {**WINDOWS, "alignment_gain": 0.2}


@pytest.fixture(scope="module")
def checkpoint(data_bin, tmp_path_factory):
    """A very small rope_cross."""
    folder = tmp_path_factory.mktemp("rope_cross")
    train(data_bin, folder, arch="rope_cross_transformer_tiny", updates=30)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def old_checkpoint(checkpoint):
    """The same, as former versions wrote it: without options of windows and a training length, and
    with a look-ahead that validation measured."""
    state = torch.load(checkpoint, weights_only=True)
    for item in list_fields(WindowOptions):
        delattr(state["cfg"]["model"], item.name)
    for name in ("counts", "longest"):
        del state["model"][f"encoder.training_lengths.{name}"]
    state["model"]["decoder.look_ahead"] = torch.tensor([3, 2])
    path = checkpoint.parent / "old.pt"
    torch.save(state, path)
    return path


def generate(data_bin, path, windows, *more, **options):
    """What fairseq-generate prints of the test set."""
    overrides = ("--model-overrides", repr(windows)) if windows else ()
    arguments = ("--path", path, "--cpu", "--beam", 2, "--max-len-b", 10, *overrides, *more)
    return fairseq("generate", data_bin, *arguments, **options)


def read_rows(output, kind):
    """The rows of a kind by number, as lists of fields."""
    rows = [line.split("\t") for line in output.splitlines() if line.startswith(f"{kind}-")]
    return {int(row[0][2:]): row[1:] for row in rows}


def set_windows(model, **given):
    """Give a model windows."""
    names = [item.name for item in list_fields(WindowOptions)]
    values = type("Options", (), {name: given.get(name) for name in names})
    model.set_token_windows(TokenWindows.of(values))


def score_in_steps(model, source, target):
    """Log-probabilities of a target, one decoding step a token, float [T]."""
    previous = torch.cat([target[-1:], target[:-1]])[None]
    steps, _ = decode_in_steps(model, source[None], previous, delays_end=False)
    return steps[0].log_softmax(1).gather(1, target[:, None])[:, 0]


class TestGenerate:
    def test_overrides_give_and_take_windows_away(self, data_bin, checkpoint, old_checkpoint):
        free = generate(data_bin, checkpoint, None)
        narrow = generate(data_bin, checkpoint, ALIGNED)
        assert read_rows(free, "H") != read_rows(narrow, "H")
        assert read_rows(generate(data_bin, old_checkpoint, ALIGNED), "H") == read_rows(narrow, "H")
        state = torch.load(checkpoint, weights_only=True)
        vars(state["cfg"]["model"]).update(ALIGNED)
        path = checkpoint.parent / "narrow.pt"
        torch.save(state, path)
        assert read_rows(generate(data_bin, path, None), "H") == read_rows(narrow, "H")
        none = dict.fromkeys(ALIGNED)
        assert read_rows(generate(data_bin, path, none), "H") == read_rows(free, "H")

    def test_names_without_an_option_are_a_warning(self, data_bin, checkpoint):
        for name, count in (("atention_window", 1), ("attention-window", 1), ("max_tokens", 0)):
            output = generate(data_bin, checkpoint, {name: 20})
            warnings = re.findall(r"WARNING.*--model-overrides.*", output)
            assert len(warnings) == count
            assert all(name in line for line in warnings)

    @pytest.mark.parametrize("task", ["translation", "stacked_translation"])
    def test_references_are_scored_in_steps(self, data_bin, checkpoint, task):
        stacks = ("--stack-junction", "none", "--stack-sentences", 3)
        more = ("--task", task, *(stacks if task == "stacked_translation" else ()))
        found = generate(data_bin, checkpoint, ALIGNED, *more, "--score-reference")
        model, pairs, *_ = load_model(checkpoint, data_bin)
        set_windows(model, **ALIGNED)
        rows = {kind: read_rows(found, kind) for kind in "SHP"}
        for number in list(rows["P"])[:3]:
            source = pairs.source_dictionary.encode_line(
                rows["S"][number][0], add_if_not_exist=False
            ).long()
            target = pairs.target_dictionary.encode_line(
                rows["H"][number][1], add_if_not_exist=False
            ).long()
            scores = torch.tensor([float(x) for x in rows["P"][number][0].split()])
            expected = score_in_steps(model, source, target) / math.log(2)
            torch.testing.assert_close(scores, expected, atol=1e-3, rtol=0)

    def test_forced_decoding_equals_scoring(self, data_bin, checkpoint):
        """But for EOS, which only a search delays."""
        scored = generate(data_bin, checkpoint, ALIGNED, "--score-reference")
        more = ("--prefix-size", 100, "--beam", 1, "--max-len-b", 200)
        forced = generate(data_bin, checkpoint, {**ALIGNED, "alignment_end": 1e9}, *more)
        one, other = read_rows(scored, "P"), read_rows(forced, "P")
        for number, (row,) in one.items():
            values, forced_values = (
                [float(x) for x in text.split()] for text in (row, other[number][0])
            )
            assert values[:-1] == pytest.approx(forced_values[: len(values) - 1], abs=2e-3)

    def test_ensembles_have_positions_of_their_own(self, data_bin, checkpoint):
        alone = generate(data_bin, checkpoint, ALIGNED)
        twice = generate(data_bin, f"{checkpoint}:{checkpoint}", ALIGNED)
        assert [x[1] for x in read_rows(twice, "H").values()] == [
            x[1] for x in read_rows(alone, "H").values()
        ]


@pytest.mark.parametrize(
    ("trained", "given", "expected"),
    [  # N, M and E for a training length of 50
        ({}, {}, (25, 20, 10)),
        ({"attention_window": 6, "cross_attention_window": 5}, {}, (6, 5, 2.5)),
        ({"cross_attention_window": 5}, {"alignment_end": 4.0}, (25, 5, 4)),
        ({"attention_window": 6}, {"attention_window": 9}, (9, 20, 10)),
        ({}, {"training_length": 1}, (1, 1, 0.5)),
    ],
)
def test_windows_are_given_or_those_of_training_or_the_default(trained, given, expected):
    model = build("rope_cross", **trained)
    model.encoder.training_lengths.longest.fill_(50)
    windows = LongTextPolicy.of(model, LongTextOptions(**given)).windows
    gain = min(4 / given.get("training_length", 50), 0.1)
    assert windows == TokenWindows(expected[0], expected[1], Alignment(gain), expected[2])


@pytest.mark.parametrize(
    "options", [{"no_cross_attention": True}, {"adaptive_softmax_cutoff": "20,40"}]
)
def test_models_that_cannot_have_the_rules_translate_as_they_are(options):
    model = build("rope_cross", **options)
    model.encoder.training_lengths.longest.fill_(50)
    assert LongTextPolicy.of(model, LongTextOptions()).options is None
    with pytest.raises(UserError):
        LongTextPolicy.of(model, LongTextOptions(alignment_gain=0.1))


def test_outputs_end_at_the_limit_of_their_own_source():
    """Random weights translate without an end."""
    model = build("rope_cross")
    with torch.no_grad():
        model.decoder.output_projection.weight[EOS] = 0
    task_dictionary = model.decoder.dictionary
    generator = TextGenerator([model], task_dictionary, beam_size=3, max_len_a=2, max_len_b=3)
    rows = make_batch([9, 3, 5], left=True)

    def search(tokens):
        lengths = tokens.ne(PAD).sum(1)
        found = generator.generate(
            [model], {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
        )
        return [hypotheses[0]["tokens"].tolist() for hypotheses in found]

    together = search(rows)
    alone = [search(row[row != PAD][None])[0] for row in rows]
    assert together == alone
    assert [len(row) for row in together] == [22, 10, 14]


class TestTranslate:
    def test_long_lines_are_translated_in_one_pass(self, data_bin, checkpoint):
        assert read_train_length(checkpoint) > 5
        line = "the old man buys a book " * 20
        options = {"attention_window": 6, "cross_attention_window": 5, "alignment_gain": 0.1}
        translator = load(checkpoint, data=data_bin, tokenizer="space", **options)
        (found,) = translator.translate([line], split=False, beam=2)
        model = translator.hub.models[0]
        assert model.decoder.token_windows == TokenWindows()
        set_windows(model, **options)
        tokens = translator.text.encode_source(line).tokens
        (expected,) = translator.hub.generate([tokens], beam=2)
        assert found == translator.text.decode(expected[0]["tokens"])
        set_windows(model)
        short = "the old man buys a book ."
        plain = load(checkpoint, data=data_bin, tokenizer="space")
        assert translator.translate([short, line], split=False)[0] == plain.translate([short])[0]

    def test_without_a_training_length_long_lines_are_cut(self, data_bin, old_checkpoint, caplog):
        translator = load(old_checkpoint, data=data_bin, tokenizer="space")
        parts = translator.text.split_paragraph("the " * 1000, False)
        assert [len(part.split()) for part in parts] == [250] * 4
        (record,) = [x for x in caplog.records if "cut" in x.getMessage()]
        assert "--training-length" in record.getMessage()
        with pytest.raises(UserError, match=r"--alignment-gain.*--training-length"):
            load(old_checkpoint, data=data_bin, tokenizer="space", alignment_gain=1.0)
        translator = load(old_checkpoint, data=data_bin, tokenizer="space", training_length=30)
        assert translator.text.split_paragraph("the " * 1000, False) == [("the " * 1000).strip()]
