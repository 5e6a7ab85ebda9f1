"""This package's attention against fairseq's: values, gradients, masks, decoding and precision."""

import pytest
import torch
from fairseq.modules import MultiheadAttention

from cape_fairseq.modules.attention import Attention
from cape_fairseq.positions.padding import visible_keys
from tests.support import PAD, batch

B, T, S, C, H = 3, 5, 7, 32, 4


def pair(dropout: float = 0.0, **kind) -> tuple[MultiheadAttention, Attention]:
    torch.manual_seed(0)
    theirs = MultiheadAttention(C, H, dropout=dropout, **kind)
    ours = Attention(C, H, dropout=dropout, **kind)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def future(length: int) -> torch.Tensor:
    return torch.full((length, length), float("-inf")).triu(1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("padding", [None, "left", "right"])
def test_self_attention_equals_fairseqs(training, padding):
    theirs, ours = (m.train(training) for m in pair(self_attention=True))
    mask = None if padding is None else batch([T, 2, 4], padding == "left").eq(PAD)
    real = torch.ones(B, T, dtype=torch.bool) if mask is None else ~mask
    gradients, outputs = [], []
    for module, arguments in ((theirs, {"key": 0, "value": 0, "need_weights": False}), (ours, {})):
        x = torch.randn(T, B, C, generator=torch.Generator().manual_seed(1)).requires_grad_()
        if arguments:
            arguments.update(key=x, value=x)
        arguments = arguments | (
            {"key_padding_mask": mask} if arguments else {"mask": visible_keys(mask, T, False)}
        )
        y = module(x, **arguments)[0]
        y.transpose(0, 1)[real].square().sum().backward()
        outputs.append(y.transpose(0, 1)[real])
        gradients.append([x.grad, *(p.grad for p in module.parameters())])
    assert (outputs[0] - outputs[1]).abs().max() < 1e-5
    for a, b in zip(*gradients, strict=True):
        assert (a - b).abs().max() < 1e-4


@pytest.mark.parametrize("padding", [None, "right"])
def test_causal_attention_equals_fairseqs(padding):
    theirs, ours = pair(self_attention=True)
    mask = None if padding is None else batch([T, 2, 4], False).eq(PAD)
    x = torch.randn(T, B, C)
    expected = theirs(x, x, x, key_padding_mask=mask, attn_mask=future(T), need_weights=False)[0]
    actual = ours(x, mask=visible_keys(mask, T, True), causal=True)[0]
    real = torch.ones(B, T, dtype=torch.bool) if mask is None else ~mask
    assert (actual - expected).transpose(0, 1)[real].abs().max() < 1e-5


@pytest.mark.parametrize("padding", [None, "left", "right"])
def test_cross_attention_and_its_weights_equal_fairseqs(padding):
    theirs, ours = pair(encoder_decoder_attention=True)
    mask = None if padding is None else batch([S, 3, 5], padding == "left").eq(PAD)
    x, source = torch.randn(T, B, C), torch.randn(S, B, C)
    expected, weights = theirs(
        x, source, source, key_padding_mask=mask, static_kv=True, need_head_weights=True
    )
    actual, our_weights = ours(x, source, visible_keys(mask, T, False), need_weights=True)
    assert (actual - expected).abs().max() < 1e-5
    assert (our_weights - weights).abs().max() < 1e-6
    without, nothing = ours(x, source, visible_keys(mask, T, False))
    assert nothing is None
    assert (without - expected).abs().max() < 1e-5


def test_dropout_acts_in_training_only_and_keeps_the_mean():
    _, ours = pair(dropout=0.5, self_attention=True)
    x = torch.randn(T, B, C)
    expected = ours.eval()(x)[0]
    assert torch.equal(ours(x)[0], expected)
    ours.train()
    for weights in (True, False):
        mean = torch.stack([ours(x, need_weights=weights)[0] for _ in range(4000)]).mean(0)
        assert 0.001 < (mean - expected).abs().max() < 0.05


def test_queries_at_left_padding_stay_finite():
    """A query that sees no key would be NaN, and 0 x NaN in the next layer would spread it."""
    _, ours = pair(self_attention=True)
    mask = visible_keys(batch([T, 1, 2], True).eq(PAD), T, True)
    for weights in (True, False):
        assert ours(torch.randn(T, B, C), mask=mask, need_weights=weights)[0].isfinite().all()


def test_visible_keys():
    mask = torch.tensor([[True, False, False]])
    assert visible_keys(None, 3, True) is None
    assert visible_keys(mask, 3, False).tolist() == [[[[False, True, True]]]]
    assert visible_keys(mask, 1, True)[0, 0].tolist() == [[False, True, True]]
    assert visible_keys(torch.tensor([[True, True]]), 1, True)[0, 0].tolist() == [[False, True]]
    assert visible_keys(mask, 3, True)[0, 0].tolist() == [
        [True, False, False],
        [False, True, False],
        [False, True, True],
    ]


def test_steps_and_reordered_beams_equal_the_parallel_pass():
    _, attention = pair(self_attention=True)
    _, cross = pair(encoder_decoder_attention=True)
    # Three beams of one sentence: fairseq leaves the source's keys where they are among beams.
    x, source = torch.randn(T, B, C), torch.randn(S, 1, C).expand(S, B, C)
    order = torch.tensor([2, 0, 0])
    state: dict = {}
    for step in range(T):
        if step == 3:  # the beams of a search change places
            for module in (attention, cross):
                module.reorder_incremental_state(state, order)
            x, source = x.index_select(1, order), source.index_select(1, order)
        here = x[step : step + 1]
        parallel = attention(x[: step + 1], causal=True)[0][-1:]
        assert (attention(here, incremental_state=state)[0] - parallel).abs().max() < 1e-5
        # Once cached, the encoder's output is not projected again.
        given = source if step == 0 else torch.full_like(source, float("nan"))
        assert (
            cross(here, given, incremental_state=state)[0] - cross(here, source)[0]
        ).abs().max() < 1e-5


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.02), (torch.float16, 0.003)])
@pytest.mark.parametrize("weights", [True, False])
def test_low_precision_is_close_to_float32(dtype, tolerance, weights):
    _, ours = pair(self_attention=True)
    mask = visible_keys(batch([T, 2, 4], True).eq(PAD), T, True)
    x = torch.randn(T, B, C)
    expected = ours(x, mask=mask, need_weights=weights)[0]
    low = ours.to(dtype)(x.to(dtype), mask=mask, need_weights=weights)[0]
    assert low.dtype == dtype
    assert (low.float() - expected).abs().max() < tolerance * expected.abs().max() + tolerance


def test_cudnn_is_not_asked_for_attention():
    """It prepares each new shape, and batches of text have thousands."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
