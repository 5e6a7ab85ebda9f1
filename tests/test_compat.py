"""Repairs of fairseq and fairseq's less-travelled options, by its commands."""

import contextlib
import functools
import re
import sys
from argparse import Namespace
from types import ModuleType, SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import build_model

from cape_fairseq.compat import reject_other_task
from cape_fairseq.inference.checkpoints import build_checkpoint
from cape_fairseq.patches import Patch, install, list_scripts
from tests.support import SMALL, SmallTask, build, build_stock, fairseq, make_batch, train

SOURCE, TARGET = make_batch([7, 5], left=True), make_batch([6, 6], begin=True)
ARCH = "sinpos_transformer_tiny"


def test_a_copy_that_fails_leaves_the_last_checkpoint(data_bin, tmp_path, monkeypatch):
    def fill_disk(source, destination):
        with open(source, "rb") as read, open(destination, "wb") as written:
            written.write(read.read(1000))
        raise OSError(28, "No space left on device")

    train(data_bin, tmp_path, updates=1)
    monkeypatch.setattr("shutil.copyfile", fill_disk)
    output = train(data_bin, tmp_path, updates=2, check=False)
    assert "No space left on device" in output
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 1
    assert not list(tmp_path.glob("*.tmp"))


class TestRetainedDropout:
    def measure(self, model, **options):
        """The largest difference of two passes in evaluation mode."""
        model.make_generation_fast_(need_attn=False, retain_dropout=True, **options)
        model.eval()
        with torch.no_grad():
            first, second = (model(SOURCE, None, TARGET)[0] for _ in range(2))
        return (first - second).abs().max().item()

    @pytest.mark.parametrize("make", [build_stock, lambda **options: build("sinpos", **options)])
    def test_attention_dropout_is_kept_as_in_stock_fairseq(self, make):
        assert self.measure(make(attention_dropout=0.5)) > 0.01

    @pytest.mark.parametrize(
        "name",
        [
            "TransformerEncoder",
            "TransformerDecoder",
            "TransformerEncoderLayerBase",
            "TransformerDecoderLayerBase",
            "MultiheadAttention",
        ],
    )
    def test_stock_names_select_modules(self, name):
        for fast in (False, True):
            options = {"dropout": 0.5, "attention_dropout": 0.5, "fast_dropout": fast}
            assert self.measure(build("sinpos", **options), retain_dropout_modules=[name]) > 0.01
            assert self.measure(build("sinpos", **options), retain_dropout_modules=["Other"]) == 0


def test_stock_calls_of_the_decoder_and_the_model():
    model, stock = build("sinpos", share_all_embeddings=True), build_stock()
    model.load_state_dict(stock.state_dict(), strict=True)
    arguments = (None, False, 0)  # the layer of the alignment
    (ours, own), (theirs, other) = (
        m.decoder.extract_features(TARGET, m.encoder(SOURCE), *arguments) for m in (model, stock)
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(own["attn"][0], other["attn"][0], atol=1e-5, rtol=0)
    assert model.args.arch == ARCH


PRE_NORM = ("--encoder-normalize-before", "--decoder-normalize-before")


@pytest.mark.parametrize("more", [PRE_NORM, ("--ema-fp32", *PRE_NORM)])
def test_exponential_moving_averages(data_bin, tmp_path, more):
    """The decay of 0.5 is short enough to be seen."""
    ema = ("--store-ema", "--ema-decay", 0.5, *more)
    train(data_bin, tmp_path, *ema, arch=ARCH, updates=3)
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    average = state["extra_state"]["ema"]
    assert average.keys() == state["model"].keys()
    name = "encoder.layers.0.fc1.weight"
    assert 0 < (average[name] - state["model"][name]).abs().max() < 0.1
    assert torch.equal(average["identity"], state["model"]["identity"])


def list_updates(folder) -> list[int]:
    """The updates of the checkpoints that --save-interval-updates has saved."""
    matches = [re.fullmatch(r"checkpoint_\d+_(\d+)\.pt", path.name) for path in folder.iterdir()]
    return sorted(int(match[1]) for match in matches if match)


def test_intervals_are_pruned_at_the_end_of_an_epoch_too(data_bin, tmp_path):
    more = ("--max-tokens", 8000, "--save-interval-updates", 1, "--keep-interval-updates", 2)
    train(data_bin, tmp_path, *more, arch=ARCH, updates=6)
    assert list_updates(tmp_path) == [5, 6]


def test_a_script_of_the_user_is_left_alone(tmp_path, monkeypatch):
    """Of the name of fairseq's, without its function."""
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "validate.py")
    monkeypatch.setitem(sys.modules, "__main__", script)

    assert script not in list_scripts("validate")
    script.__file__ = str(tmp_path / "fairseq_cli" / "validate.py")
    assert script in list_scripts("validate")


def test_patches_are_installed_once():
    """Also among others of the same function."""
    owner = SimpleNamespace(name=lambda: 1)

    def add(function):
        return functools.wraps(function)(lambda: function() + 1)

    def double(function):
        return functools.wraps(function)(lambda: 2 * function())

    for _ in range(2):
        install([Patch(owner, "name", add), Patch(owner, "name", double)])
    assert owner.name() == 4


@pytest.mark.parametrize("more", [(), ("--score-reference",)])
def test_alignments_are_printed(data_bin, cape_checkpoint, more):
    """A source token for each target token."""
    options = ("--path", cape_checkpoint, "--cpu", "--beam", 2, "--print-alignment", "hard")
    output = fairseq("generate", data_bin, *options, *more)
    sources = dict(re.findall(r"^S-(\d+)\t(.*)", output, re.M))
    words = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)", output, re.M))
    found = dict(re.findall(r"^A-(\d+)\t(.*)", output, re.M))
    assert found.keys() == sources.keys()
    for number, line in found.items():
        pairs = [tuple(map(int, pair.split("-"))) for pair in line.split()]
        targets = [target for _, target in pairs]
        assert targets == list(range(len(words[number].split())))
        assert all(source <= len(sources[number].split()) for source, _ in pairs)


def test_alignments_cannot_be_learned_from(data_bin, tmp_path):
    output = train(data_bin, tmp_path, "--load-alignments", arch=ARCH, check=False)
    assert "ValueError: --load-alignments" in output


def test_validation_of_stacks_is_an_error_that_names_what_works(data_bin, cape_checkpoint):
    options = ("--path", cape_checkpoint, "--cpu", "--batch-size", 8)
    output = fairseq("validate", data_bin, *options, "--task", "stacked_translation", check=False)
    assert "fairseq-generate" in output.strip().splitlines()[-1]


def test_a_checkpoint_of_a_task_without_a_dataclass_is_validated(tmp_path):
    task = "translation_multi_simple_epoch"
    arguments = ["data", "--task", task, "--arch", "transformer", "--lang-pairs", "en-de"]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    torch.save(build_checkpoint(args, {}), tmp_path / "x.pt")
    cfg = Namespace(common_eval=Namespace(path=str(tmp_path / "x.pt")))
    validate = reject_other_task(lambda cfg, override_args: "validated")
    assert validate(cfg, Namespace(task=task)) == "validated"
    with pytest.raises(ValueError, match=task):
        validate(cfg, Namespace(task="translation"))


@pytest.mark.parametrize(
    ("words", "message"),
    [("abcdef", None), ("abdcef", r"10 words.*10.*order"), ("abcde", r"9 words.*10")],
)
def test_a_checkpoint_needs_its_dictionary(words, message):
    """Frequencies do not count."""
    models = []
    for symbols in ("abcdefa", words):
        task = SmallTask()
        task.source_dictionary = task.target_dictionary = Dictionary()
        for symbol in symbols:
            task.source_dictionary.add_symbol(symbol)
        models.append(build_model(Namespace(arch=ARCH, **SMALL), task))
    parent, model = models
    with pytest.raises(ValueError, match=message) if message else contextlib.nullcontext():
        model.load_state_dict(parent.state_dict(), strict=True)


def test_a_task_without_a_dataclass_resumes_inside_of_an_epoch(data_bin, tmp_path):
    languages = ("--langs", "en,de", "--lang-pairs", "en-de")
    task = ("--task", "translation_multi_simple_epoch", *languages, "--batch-size", 8)
    for updates in (3, 5):
        output = train(data_bin, tmp_path, *task, arch=ARCH, updates=updates)
    assert "done training" in output
