"""Every encoding: steps equal the parallel pass, batches equal single sentences."""

import pytest
import torch

from tests.models.support import decode, decode_in_steps
from tests.support import PAD, SYSTEMS, build, make_batch

SOURCE, TARGET = [9, 5, 2], [6, 8, 3]
# One layer and head for sentences of 4,000 tokens, whose matrices of attention are large.
LONG = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 1,
    "decoder_attention_heads": 1,
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_steps_equal_the_parallel_pass(system):
    model = build(system)
    source, target = make_batch(SOURCE, left=True), make_batch([8, 8, 8], begin=True)
    steps, _ = decode_in_steps(model, source, target)
    torch.testing.assert_close(steps, decode(model, source, target), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("system", [s for s in SYSTEMS if s.startswith("floater")])
def test_many_steps_equal_the_parallel_pass(system):
    """Beyond the vectors that FLOATER solves at first."""
    model, source = build(system), make_batch([4])
    target = make_batch([200], begin=True)
    steps, _ = decode_in_steps(model, source, target)
    torch.testing.assert_close(steps, decode(model, source, target), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("system", SYSTEMS)
def test_reordered_hypotheses_keep_their_source(system):
    """As in beam search: rows change places within a sentence, then a sentence ends."""
    model = build(system)
    source, target = make_batch(SOURCE[:2], left=True), make_batch([6] * 4, begin=True)
    beams = torch.tensor([0, 0, 1, 1])
    with torch.no_grad():
        encoder_out = model.encoder.reorder_encoder_out(model.encoder(source), beams)
        model.decoder.set_beam_size(2)
        state = {}
        model.decoder(target[:, :1], encoder_out, state)
        model.decoder(target[:, :2], encoder_out, state)
        for order in (torch.tensor([1, 0, 3, 2]), torch.tensor([3, 2])):
            target, beams = target[order], beams[order]
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
            model.decoder.reorder_incremental_state_scripting(state, order)
            step = 3 if len(order) == 4 else 4
            scores, _ = model.decoder(target[:, :step], encoder_out, state)
            expected = decode(model, source[beams], target[:, :step])[:, -1]
            torch.testing.assert_close(scores[:, 0], expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("system", SYSTEMS)
def test_batches_equal_single_sentences(system, left):
    model = build(system)
    source, target = make_batch(SOURCE, left), make_batch(TARGET, left, begin=True)
    together = decode(model, source, target)
    for row, (s, t) in enumerate(zip(source, target, strict=True)):
        alone = decode(model, s[s.ne(PAD)][None], t[t.ne(PAD)][None])[0]
        torch.testing.assert_close(together[row][t.ne(PAD)], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("system", ["sinpos", "relpos", "rope_cross"])
def test_padding_before_a_single_sentence_changes_nothing(system):
    """As --left-pad-target True with --required-seq-len-multiple makes it."""
    model = build(system)
    source, target = make_batch([5]), make_batch([4], begin=True)
    padding = torch.full((1, 4), PAD)
    padded = decode(model, torch.cat([padding, source], 1), torch.cat([padding, target], 1))
    torch.testing.assert_close(padded[:, 4:], decode(model, source, target), atol=2e-5, rtol=1e-4)


def test_a_step_beyond_a_learned_table_is_an_error():
    model = build("abspos", max_target_positions=5)
    state = {}
    with torch.no_grad():
        encoder_out = model.encoder(make_batch([3]))
        tokens = make_batch([6], begin=True)
        for end in range(1, 6):
            model.decoder(tokens[:, :end], encoder_out, incremental_state=state)
        with pytest.raises(ValueError, match="--max-target-positions"):
            model.decoder(tokens, encoder_out, incremental_state=state)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("system", SYSTEMS)
def test_half_precision_is_close_to_float32(system, dtype):
    model = build(system)
    source, target = make_batch(SOURCE, left=True), make_batch(TARGET, begin=True)
    exact = decode(model, source, target).log_softmax(-1)
    half = decode(model.to(dtype), source, target).float().log_softmax(-1)
    real = target.ne(PAD)
    assert (exact - half)[real].abs().max() < (0.1 if dtype == torch.float16 else 0.5)


@pytest.mark.parametrize("system", [s for s in SYSTEMS if "abspos" not in s])
def test_1300_tokens_are_finite(system):
    model = build(system, **LONG, max_source_positions=1301, max_target_positions=1300)
    source, target = make_batch([1300]), make_batch([1300], begin=True)
    assert decode(model, source, target).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_large_floater_biases_are_finite_in_half_precision(dtype):
    model = build("floater", **LONG)
    with torch.no_grad():
        for side in (model.encoder, model.decoder):
            side.encoding.dynamics.outer.bias.fill_(300.0)  # a path of 12,000 at 400 tokens
    source, target = make_batch([400]), make_batch([400], begin=True)
    assert decode(model.to(dtype), source, target).isfinite().all()


@pytest.mark.parametrize("system", ["cape", "relpos", "rope_cross", "floater-cape"])
def test_autocast_computes_gradients(system):
    found = []
    for options in ({}, {"autocast": "bf16"}):
        model = build(system, **options).train()
        torch.manual_seed(1)
        scores, _ = model(make_batch(SOURCE), None, make_batch(TARGET, begin=True))
        scores.float().log_softmax(-1)[..., 5].sum().backward()
        found.append(model.encoder.layers[0].fc1.weight.grad)
    assert (found[0] - found[1]).norm() < 0.1 * found[0].norm()
