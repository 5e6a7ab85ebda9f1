"""Beam search with reordered beams and mixed lengths, and mixed precision, for every encoding."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from tests.support import ENCODINGS, EOS, PAD, ToyTask, batch, build


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("left", [True, False])
def test_beam_search_scores_equal_the_parallel_pass(encoding, left):
    """Every score of every hypothesis, though beams were reordered and finished sentences left the
    batch."""
    lengths = set()
    for seed in (1, 2, 3):
        model = build(f"{encoding}_transformer_tiny", seed=seed)
        with torch.no_grad():  # sentences end at different lengths
            model.decoder.output_projection.weight[EOS] *= 3
        source = batch([9, 3, 6, 12, 5, 7, 4, 8], left)
        generator = SequenceGenerator(
            [model], ToyTask().target_dictionary, beam_size=3, max_len_b=15
        )
        found = generator.generate(
            [model], {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
        )
        for row, hypotheses in enumerate(found):
            for hypothesis in hypotheses:
                tokens = hypothesis["tokens"]
                lengths.add(len(tokens))
                prefix = torch.cat([tokens.new_tensor([EOS]), tokens[:-1]]).unsqueeze(0)
                scores = model(source[row : row + 1], None, prefix)[0].log_softmax(-1)[0]
                expected = scores.gather(1, tokens.unsqueeze(1)).squeeze(1)
                assert (hypothesis["positional_scores"] - expected).abs().max() < 1e-4
    assert len(lengths) > 1


def test_the_hint_that_hypotheses_share_keys_changes_nothing():
    model = build("sinpos_transformer_tiny")
    source = batch([9, 3, 6], True)
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
    found = []
    for hint in (False, True):
        if hint:
            model.decoder.set_beam_size(3)
        generator = SequenceGenerator(
            [model], ToyTask().target_dictionary, beam_size=3, max_len_b=9
        )
        found.append(generator.generate([model], sample))
    for plain, hinted in zip(*found, strict=True):
        assert [h["tokens"].tolist() for h in plain] == [h["tokens"].tolist() for h in hinted]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_autocast(encoding):
    """Mixed precision, forward and backward: float32 parameters, half-precision matrix products."""
    model = build(f"{encoding}_transformer_tiny", dropout=0.0).train()
    source, target = batch([30, 9], True), batch([20, 5], False, end=False)
    results = []
    for active in (False, True):
        model.zero_grad()
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16, enabled=active):
            scores = model(source, None, target)[0]
        scores[target.ne(PAD)].float().square().mean().backward()
        results.append((scores.float(), [p.grad for p in model.parameters() if p.grad is not None]))
    (exact, gradients), (low, low_gradients) = results
    assert (low - exact)[target.ne(PAD)].abs().max() < 0.15 * exact.abs().max()
    assert not torch.equal(low, exact)
    for one, other in zip(gradients, low_gradients, strict=True):
        assert other.dtype == torch.float32
        assert (one - other).norm() < 0.3 * one.norm() + 1e-3
