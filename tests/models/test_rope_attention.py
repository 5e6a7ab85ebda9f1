"""``--rope-attention self+cross``: cross-attention turned by target and scaled source positions."""

import math
from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

from tests.support import PAD, batch, build, saved

ARCH, CROSSING = "rope_transformer_tiny", {"rope_attention": "self+cross"}
SCALE = 1.3


def real(tokens, row):
    return tokens[row].ne(PAD).nonzero().flatten().tolist()


def expected_weights(q, k, target, source):
    """Cross-attention of one head and row, a number at a time: q [T, D], k [S, D] of real tokens
    at these distances from the first."""
    scores = torch.empty(len(target), len(source))
    for t, s in torch.cartesian_prod(torch.arange(len(target)), torch.arange(len(source))).tolist():
        score = 0.0
        for pair in range(q.size(1) // 2):
            apart = (target[t] - SCALE * source[s]) * 10000 ** (-2 * pair / q.size(1))
            turn = complex(math.cos(apart), math.sin(apart))
            one, other = (complex(*x[2 * pair : 2 * pair + 2].tolist()) for x in (q[t], k[s]))
            score += (one * turn * other.conjugate()).real
        scores[t, s] = score / math.sqrt(q.size(1))
    return scores.softmax(-1)


@pytest.mark.parametrize("left", [True, False])
def test_cross_attention_sees_how_far_source_tokens_are(left):
    model = build(ARCH, seed=2, source_scale=str(SCALE), **CROSSING)
    attention, seen = model.decoder.layers[-1].encoder_attn, {}
    hook = attention.register_forward_pre_hook(lambda _, given: seen.update(q=given[0], k=given[1]))
    source, target = batch([6, 3], left), batch([5, 2], left=False, end=False)
    with torch.no_grad():
        found = model(source, None, target)[1]["attn"][0]
        q, k = attention.q_proj(seen["q"]), attention.k_proj(seen["k"])
    hook.remove()
    width = attention.head_dim
    for row in range(2):
        to, of = real(target, row), real(source, row)
        heads = [slice(h * width, (h + 1) * width) for h in range(attention.num_heads)]
        weights = [
            expected_weights(q[to, row, h], k[of, row, h], range(len(to)), range(len(of)))
            for h in heads
        ]
        expected = torch.stack(weights).mean(0)
        torch.testing.assert_close(found[row][to][:, of], expected, atol=1e-6, rtol=0)


def test_it_changes_nothing_else():
    """The same parameters as rope has, and other scores."""
    plain, crossing = build(ARCH, seed=2), build(ARCH, seed=2, **CROSSING)
    crossing.load_state_dict(plain.state_dict())
    source, target = batch([9, 4], True), batch([7, 5], False, end=False)
    states = [model.encoder(source)["encoder_out"][0] for model in (plain, crossing)]
    assert torch.equal(*states)
    scores = [model(source, None, target)[0] for model in (plain, crossing)]
    assert (scores[0] - scores[1]).abs().max() > 1e-3


def test_positions_of_a_pair_are_augmented_together(monkeypatch):
    """A stretch of both sides by the same factor, around the first token, stretches the distances
    between them, too."""
    options = {"position_augmentation": "cape", "cape_global_scale": 2.0, **CROSSING}
    model = build(ARCH, seed=2, dropout=0.0, **options).train()
    source, target = batch([9, 4], True), batch([7, 5], False, end=False)
    draws = model.encoder.positions.augmentation.draw(2, 9, 7, torch.Generator().manual_seed(1))
    seen, positions = [], model.decoder.self_attn_positions
    across = positions.across
    monkeypatch.setattr(positions, "across", lambda *given: seen.append(given) or across(*given))
    model.decoder(target, model.encoder(source, draw=draws.source), draw=draws.target)
    assert (draws.source.scale - 1).abs().min() > 1e-3
    assert torch.equal(draws.source.scale, draws.target.scale)
    for tokens, draw, found in zip((target, source), draws[::-1], *seen, strict=True):
        real = tokens.ne(PAD)
        counted = real.cumsum(1) - 1
        expected = PAD + 1 + (counted + draw.local_shift) * draw.scale
        torch.testing.assert_close(found[real], expected[real])


def test_the_preset():
    args = Namespace()
    ARCH_CONFIG_REGISTRY["rope_cross_transformer_tiny"](args)
    chosen = (args.position_encoding, args.rope_attention, args.source_scale)
    assert chosen == ("rope", "self+cross", "auto")
    given = Namespace(rope_attention="self")
    ARCH_CONFIG_REGISTRY["rope_cross_transformer"](given)
    assert (given.rope_attention, given.source_scale) == ("self", "1")
    other = Namespace(position_encoding="cape")
    ARCH_CONFIG_REGISTRY["rope_cross_transformer"](other)
    assert (other.position_encoding, other.rope_attention) == ("cape", "self")


def test_a_fine_tuned_model_keeps_it(tmp_path, caplog):
    saved(tmp_path / "parent.pt", ARCH, **CROSSING)
    options = {"finetune_from_model": tmp_path / "parent.pt"}
    assert build(ARCH, **options).args.rope_attention == "self+cross"
    # Its scale of 1 was chosen, and is not counted anew.
    assert build(ARCH, **options, source_scale=None).args.source_scale == 1
    caplog.clear()
    assert build(ARCH, rope_attention="self", **options).args.rope_attention == "self"
    assert "was trained with self+cross, so its positions will be others" in caplog.text
    restored = {"restore_file": str(tmp_path / "parent.pt")}  # with --reset-optimizer, for instance
    assert build(ARCH, **restored).args.rope_attention == "self+cross"


def test_from_floater_on_it(tmp_path):
    """A FLOATER of biases keeps its parent's attention; so does what goes on from it as rope."""
    floater = "floater_transformer_tiny"
    saved(tmp_path / "parent.pt", floater, floater_parent="rope", **CROSSING)
    child = build(ARCH, finetune_from_model=tmp_path / "parent.pt")
    assert child.args.rope_attention == "self+cross"


def test_an_encoder_without_positions_is_named():
    model = build(ARCH, **CROSSING)
    states = model.encoder(batch([4], True))
    states = {name: states[name] for name in ("encoder_out", "encoder_padding_mask")}
    with pytest.raises(ValueError, match="the encoder's output has none"):
        model.decoder(batch([3], False, end=False), states)
