"""Beam search with reordered beams and mixed lengths, and mixed precision, for every encoding."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from cape_fairseq.models import encoder
from tests.support import ENCODINGS, EOS, PAD, ToyTask, batch, build

CROSSING = ("rope", {"rope_attention": "self+cross", "source_scale": "1.3"})


@pytest.mark.parametrize(("encoding", "options"), [*((e, {}) for e in ENCODINGS), CROSSING])
@pytest.mark.parametrize("left", [True, False])
def test_beam_search_scores_equal_the_parallel_pass(encoding, options, left):
    """Every score of every hypothesis, though beams were reordered and finished sentences left the
    batch."""
    lengths = set()
    for seed in (1, 2, 3):
        model = build(f"{encoding}_transformer_tiny", seed=seed, **options)
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


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(
    ("encoding", "options"), [("sinpos", {}), ("relpos", {}), ("floater", {}), CROSSING]
)
def test_hypotheses_of_a_sentence_share_its_keys(encoding, options, left, monkeypatch):
    """One copy of a sentence's keys and values gives what a copy for each hypothesis gives, with
    the weights."""
    model = build(f"{encoding}_transformer_tiny", seed=3, **options)
    with torch.no_grad():
        model.decoder.output_projection.weight[EOS] *= 3
    source = batch([9, 3, 6, 12], left)
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
    settings = {"beam_size": 3, "max_len_b": 15}
    copies, count, found = [], encoder.copies_of, []
    for shared in (lambda rows: copies.append(count(rows)) or copies[-1], lambda _: 1):
        monkeypatch.setattr(encoder, "copies_of", shared)
        generator = SequenceGenerator([model], ToyTask().target_dictionary, **settings)
        found.append(generator.generate([model], sample))
    assert set(copies) == {3}
    for one, other in zip(*([h for row in rows for h in row] for rows in found), strict=True):
        assert one["tokens"].tolist() == other["tokens"].tolist()
        for name in ("positional_scores", "attention"):
            assert (one[name] - other[name]).abs().max() < 1e-5


def test_copies_of_rows():
    for rows, copies in (([0, 0, 1, 1], 2), ([0, 1, 2], 1), ([0, 0, 1], 1), ([3, 3, 3], 3)):
        assert encoder.copies_of(torch.tensor(rows)) == copies


def test_rows_that_are_copies_are_not_copied_again():
    model = build("cape_transformer_tiny")
    source = batch([9, 3, 6], True)
    plain = model.encoder(source)
    twice = model.encoder.reorder_encoder_out(plain, torch.tensor([0, 0, 1, 1, 2, 2]))
    within = model.encoder.reorder_encoder_out(twice, torch.tensor([1, 0, 2, 2, 5, 4]))
    assert within is twice
    fewer = model.encoder.reorder_encoder_out(within, torch.tensor([1, 0, 5, 5]))
    for name in ("encoder_out", "encoder_padding_mask"):
        (one,), (other,) = plain[name], fewer[name]
        rows = 1 if name == "encoder_out" else 0
        assert torch.equal(one.index_select(rows, torch.tensor([0, 0, 2, 2])), other)


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
