"""fairseq's own options for training and translating, on its Transformer and on ours in one run.

Whatever stock fairseq can do with an option, our model must do, too. A plain sinpos model must even
have the same losses and translations. (Left out is what fairseq itself cannot do here:
--num-batch-buckets with today's NumPy, --diverse-beam-groups where sentences end at different
lengths.) A part is in the suite; ``scripts/test.sh -m matrix`` runs every set of options with
every encoding.
"""

import re

import pytest
import torch

from tests.support import (
    ENCODINGS,
    fairseq_command,
    needs_stock_inference,
    run,
    train_arguments,
    train_losses,
)

TRAINING = {
    "plain": (),
    "learned positions": ("--encoder-learned-pos", "--decoder-learned-pos"),
    "no positions": ("--no-token-positional-embeddings",),
    "layer drop": ("--encoder-layerdrop", "0.3", "--decoder-layerdrop", "0.3"),
    "tied output": ("--share-decoder-input-output-embed",),
    "all tied": ("--share-all-embeddings",),
    "pre-norm": ("--encoder-normalize-before", "--decoder-normalize-before"),
    "norm of embeddings": ("--layernorm-embedding",),
    "unscaled embeddings": ("--no-scale-embedding",),
    "adaptive softmax": (
        *("--adaptive-softmax-cutoff", "50,100", "--criterion", "adaptive_loss"),
        *("--ddp-backend", "legacy_ddp"),
    ),
    "other output width": ("--decoder-output-dim", "16"),
    "other decoder width": ("--decoder-embed-dim", "16", "--decoder-output-dim", "16"),
    "no cross-attention": ("--no-cross-attention",),
    "cut sources": ("--truncate-source", "--max-source-positions", "6"),
    "right padding": ("--left-pad-source",),  # it is on, and the option turns it off
    "left padding": ("--left-pad-target",),
    "multiples": ("--required-seq-len-multiple", "8"),
    "activations again": ("--checkpoint-activations",),
    "quantization noise": ("--quant-noise-scalar", "0.3"),
    "accumulated batches": ("--update-freq", "2"),
    "moving average": ("--store-ema", "--ema-decay", "0.9"),
    "plain loss": ("--criterion", "cross_entropy"),
    "other activation": ("--activation-fn", "gelu", "--relu-dropout", "0.1"),
}
TRANSLATING = {
    "beam": ("--beam", "4"),
    "n best": ("--beam", "3", "--nbest", "2"),
    "diverse": ("--beam", "4", "--diversity-rate", "0.5"),
    "sampled": ("--sampling", "--beam", "2", "--nbest", "2", "--seed", "3"),
    "prefix": ("--prefix-size", "2", "--beam", "2"),
    "alignment": ("--print-alignment", "hard"),
    "penalties": ("--lenpen", "0.6", "--unkpen", "1", "--min-len", "3", "--beam", "2"),
    "no repeated pairs": ("--no-repeat-ngram-size", "2", "--beam", "2"),
    "scored references": ("--score-reference",),
    "dropout kept": ("--retain-dropout", "--seed", "3"),
    "length of the source": ("--match-source-len", "--beam", "2"),
}
IN_THE_SUITE = ("plain", "learned positions", "no positions", "layer drop", "adaptive softmax")


def outcome(data_bin, folder, arch, options) -> tuple[int, list[float], str]:
    arguments = train_arguments(data_bin, folder / arch, arch, 3)
    result = run(fairseq_command("train", *arguments, *options), check=False)
    printed = result.stdout + result.stderr
    return result.returncode, train_losses(printed), printed


def compare(data_bin, tmp_path, encoding: str, case: str) -> None:
    """Status with stock fairseq's, and for a plain sinpos model its losses.

    (A learned table is drawn at another moment, so that the other parameters differ.)
    """
    if case == "quantization noise" and not torch.cuda.is_available():
        pytest.skip("fairseq's needs a GPU")
    options = TRAINING[case]
    small = ("--encoder-attention-heads", "4", "--decoder-attention-heads", "4", "--seed", "7")
    status, losses, _ = outcome(data_bin, tmp_path, "transformer", (*small, *options))
    ours, found, printed = outcome(
        data_bin, tmp_path, f"{encoding}_transformer", (*small, *options)
    )
    assert status == 0
    assert ours == 0, printed[-2000:]
    assert len(found) == len(losses) == 3
    if encoding == "sinpos" and case != "learned positions":
        assert found == pytest.approx(losses, abs=2e-3)


@pytest.mark.parametrize("case", IN_THE_SUITE)
def test_training_as_fairseqs_transformer_does(case, data_bin, tmp_path):
    compare(data_bin, tmp_path, "sinpos", case)


@pytest.mark.matrix
@pytest.mark.parametrize("case", TRAINING)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_training_with_every_encoding(encoding, case, data_bin, tmp_path):
    if encoding != "sinpos" and case in ("learned positions", "no positions"):
        pytest.skip("these options choose an encoding")
    if encoding == "rope" and case == "other decoder width":
        pytest.skip("rope turns pairs of components, and a head of the decoder has four")
    compare(data_bin, tmp_path, encoding, case)


def translations(data_bin, path, options) -> list[str]:
    """What was translated and aligned; nothing where fairseq-generate fails."""
    command = ("generate", data_bin, "--path", path, "--cpu", "--max-len-b", 12, *options)
    result = run(fairseq_command(*command), check=False)
    lines = re.findall(r"^(?:[HA]-\d+\t.*)$", result.stdout, re.M)
    return lines if result.returncode == 0 else []


@pytest.fixture(scope="module")
def stock_model(data_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stock")
    assert outcome(data_bin, folder, "transformer", ())[0] == 0
    return folder / "transformer" / "checkpoint_last.pt"


def same_model(data_bin, tmp_path, stock_model, encoding: str):
    """Our model, started from the stock one and not moved."""
    start = ("--finetune-from-model", stock_model, "--lr", "1e-12")
    status, _, printed = outcome(data_bin, tmp_path, f"{encoding}_transformer", start)
    assert status == 0, printed[-2000:]
    return tmp_path / f"{encoding}_transformer" / "checkpoint_last.pt"


@pytest.mark.parametrize("case", ["beam", "prefix", "alignment"])
def test_translating_as_fairseqs_transformer_does(case, data_bin, tmp_path, stock_model):
    needs_stock_inference()
    ours = same_model(data_bin, tmp_path, stock_model, "sinpos")
    expected = translations(data_bin, stock_model, TRANSLATING[case])
    found = translations(data_bin, ours, TRANSLATING[case])
    assert [line.split("\t")[2:] for line in found] == [line.split("\t")[2:] for line in expected]
    assert expected


@pytest.mark.matrix
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_translating_with_every_encoding(encoding, data_bin, tmp_path, stock_model):
    ours = same_model(data_bin, tmp_path, stock_model, encoding)
    for name, options in TRANSLATING.items():
        expected = translations(data_bin, stock_model, options)
        found = translations(data_bin, ours, options)
        assert expected, name
        assert len(found) == len(expected), name
        if encoding == "sinpos" and name not in ("sampled", "dropout kept"):
            texts = ([line.split("\t")[2:] for line in lines] for lines in (found, expected))
            assert next(texts) == next(texts), name
