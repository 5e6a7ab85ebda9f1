"""What is done for long text in translation, against the formulas, and in whole models."""

import math

import pytest
import torch

from cape_fairseq.modules.attention import Attention
from cape_fairseq.positions import CAPE
from cape_fairseq.positions.batch import Source
from cape_fairseq.positions.long_text import LongText
from cape_fairseq.positions.source_bos import SourceBOS
from cape_fairseq.positions.stack import StackPositions
from tests.support import PAD, batch, build


@pytest.mark.parametrize("left", [True, False])
def test_positions_are_pressed_into_the_range_of_training(left):
    stack = StackPositions(PAD, long_text=LongText(interpolate=4))
    tokens = batch([8, 3], left)
    positions, real = stack.begin(tokens).positions, tokens.ne(PAD)
    assert positions[0][real[0]].tolist() == [2 + i / 2 for i in range(8)]
    assert positions[1][real[1]].tolist() == [2.0, 3.0, 4.0]


def test_the_source_s_length_counts_for_the_target():
    stack = StackPositions(PAD, opens=False, long_text=LongText(interpolate=4))
    source = Source(batch([8], True).eq(PAD))
    found = stack.begin(batch([3], False), source=source, causal=True).positions
    assert found.tolist() == [[2.0, 2.5, 3.0]]


def test_offset():
    stack = StackPositions(PAD, bos=SourceBOS(None, PAD), long_text=LongText(offset=250.0))
    assert stack.begin(batch([2], True)).positions.tolist() == [[252.0, 253.0]]


@pytest.mark.parametrize(("seen", "factor"), [(1, 1.0), (10, 1.0), (100, 2.0), (50, None)])
def test_sharpness_is_a_ratio_of_logarithms(seen, factor):
    expected = math.log(seen) / math.log(10) if factor is None else factor
    assert LongText(10).sharpness(torch.tensor(float(seen))).item() == pytest.approx(expected)


def test_scores_of_long_texts_alone_are_multiplied():
    """As if the queries were: for 6 source tokens log 6 / log 4, for 3 nothing."""
    plain = build("sinpos_transformer_tiny", encoder_layers=1)
    sharp = build("sinpos_transformer_tiny", encoder_layers=1, sharpen_attention_from=4)
    long, short = batch([6], True), batch([3], True)
    assert torch.equal(
        plain.encoder(short)["encoder_out"][0], sharp.encoder(short)["encoder_out"][0]
    )
    found = sharp.encoder(long)["encoder_out"][0]
    with torch.no_grad():
        q = plain.encoder.layers[0].self_attn.q_proj
        q.weight *= math.log(6) / math.log(4)
        q.bias *= math.log(6) / math.log(4)
    assert torch.allclose(found, plain.encoder(long)["encoder_out"][0], atol=1e-6)


def test_biases_of_scores_are_multiplied_with_them():
    """softmax of s * (q . k + b), written out."""
    attention = Attention(8, 2, self_attention=True).eval()
    x, biases = torch.randn(5, 1, 8), torch.randn(1, 2, 5, 5)
    q, k, v = (
        attention.split_heads(layer(x))
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    sharp = torch.linspace(1, 2, 5).view(1, 1, 5, 1)
    weights = (sharp * (q @ k.transpose(2, 3) / 2 + biases)).softmax(-1)
    expected = (weights @ v).permute(2, 0, 1, 3).reshape(5, 1, 8)
    for spelled_out in (False, True):
        found = attention(x, mask=biases, query_scale=sharp, need_weights=spelled_out)[0]
        torch.testing.assert_close(found, attention.out_proj(expected))


def test_positions_around_the_middle_are_pressed_towards_it():
    stack = StackPositions(PAD, CAPE(mean_normalize=True), long_text=LongText(interpolate=4))
    assert stack.begin(batch([8], True)).positions.tolist() == [[i / 2 - 1.75 for i in range(8)]]


LONG = {"sharpen_attention_from": 3, "interpolate_positions_from": 4}


@pytest.mark.parametrize("encoding", ["sinpos", "cape", "rope", "fire"])
@pytest.mark.parametrize("left", [True, False])
def test_steps_equal_the_parallel_pass_and_rows_their_batch(encoding, left):
    model = build(f"{encoding}_transformer_tiny", **LONG)
    source, target = batch([9, 3, 6], left), batch([7, 5, 2], left, end=False)
    parallel = model(source, None, target)[0]
    encoder_out, state = model.encoder(source), {}
    for step in range(7):
        scores, _ = model.decoder(target[:, : step + 1], encoder_out, state)
        rows = target[:, step].ne(PAD)
        assert (scores[rows, 0] - parallel[rows, step]).abs().max() < 1e-5
    for row in range(3):
        kept, prefix = source[row].ne(PAD), target[row].ne(PAD)
        alone = model(source[row : row + 1, kept], None, target[row : row + 1, prefix])[0][0]
        assert (parallel[row, prefix] - alone).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position_encoding": "relpos", "position_offset": 3.0}, "it must be 0 with relpos"),
        ({"position_encoding": "rope", "position_offset": 3.0}, "be 0: rope sees only diff"),
        ({"position_encoding": "fire", "position_offset": 3.0}, "be 0: fire counts the tokens"),
        ({"position_encoding": "t5", "interpolate_positions_from": 9}, "it must be 0 with t5"),
        ({"sharpen_attention_from": 1}, "it must be 0 or at least 2"),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build("sinpos_transformer_tiny", **options)
