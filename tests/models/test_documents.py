"""Windows of sentences: exact properties of every encoding."""

import itertools
import math

import pytest
import torch
from fairseq.criterions import label_smoothed_cross_entropy

from cape_fairseq.criterions import chunked
from cape_fairseq.modules import windows
from cape_fairseq.positions.layout import find_layout
from tests.documents.support import (
    NAMES,
    SEP,
    WINDOW_NAMES,
    build_document_model,
    compute_scores,
    join,
    make_documents,
    make_inputs,
    pad,
)
from tests.models.support import decode, decode_in_steps
from tests.support import EOS, PAD, SmallTask, build, make_sample

WINDOWS = [(0, 0), (1, 0), (2, 0), (1, 1)]  # sentence context, cross context
# Sentence context, target context, cross context.
CONTEXTS = [(0, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0), (1, 1, 1), (1, 0, 1)]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_without_context_a_document_is_its_sentences_alone(name, left):
    model, documents = build_document_model(name, 0), make_documents()
    source, previous, _ = make_inputs(documents, left)
    scores = compute_scores(model, source, previous)
    for row, document in zip(scores, documents, strict=True):
        alone = [
            compute_scores(model, torch.tensor([[*s, EOS]]), torch.tensor([[EOS, *t]]))[0]
            for s, t in document
        ]
        expected = torch.cat(alone)
        found = row[-len(expected) :] if left else row[: len(expected)]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def cut_noise(noise, first, length):
    """The noise of some tokens: one shift for the document, one local shift for each token."""
    if noise is None:
        return None
    parts = [part[:, first : first + length] if part.size(1) > 1 else part for part in noise]
    return type(noise)(*parts)


def widen_noise(noise, widen):
    """The noise of a padded document."""
    if noise is None:
        return None
    parts = [torch.nn.functional.pad(x, widen) if x.size(1) > 1 else x for x in noise]
    return type(noise)(*parts)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", NAMES)
def test_without_context_a_document_trains_as_its_sentences(name, side):
    """Loss and gradients with the same noise, and with padding."""
    model = build_document_model(name, 0).train()
    (document,) = make_documents()[:1]
    source, previous, target = make_inputs([document])
    torch.manual_seed(7)
    source_noise, target_noise = model.sample_noise(source, previous)
    width = 2

    def compute_loss(source, previous, labels, source_noise, target_noise):
        out = model.decoder(previous, model.encoder(source, noise=source_noise), noise=target_noise)
        labels = model.get_targets({"target": torch.tensor([labels])}, out)
        return torch.nn.functional.cross_entropy(
            out[0][0], labels[0], reduction="sum", ignore_index=PAD
        )

    widen = (width, 0) if side == "left" else (0, width)
    wide = [torch.nn.functional.pad(x, widen, value=PAD) for x in (source, previous)]
    noise = [widen_noise(x, widen) for x in (source_noise, target_noise)]
    padding = [PAD] * width
    labels = [*padding, *target[0]] if side == "left" else [*target[0], *padding]
    whole = compute_loss(*wide, labels, *noise)
    alone, source_start, target_start = 0.0, 0, 0
    for words, translation in document:
        alone = alone + compute_loss(
            torch.tensor([[*words, EOS]]),
            torch.tensor([[EOS, *translation]]),
            [*translation, EOS],
            cut_noise(source_noise, source_start, len(words) + 1),
            cut_noise(target_noise, target_start, len(translation) + 1),
        )
        source_start += len(words) + 1
        target_start += len(translation) + 1
    torch.testing.assert_close(whole, alone, atol=1e-4, rtol=1e-6)
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = [torch.autograd.grad(x, parameters, allow_unused=True) for x in (whole, alone)]
    for one, other in zip(*gradients, strict=True):
        if one is not None:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_the_label_of_a_separator_is_eos_in_both_criterions():
    model, task = build_document_model("rope_cross", 1), SmallTask()
    source, previous, target = make_inputs(make_documents())
    labels = pad(target)
    sample = make_sample(source, previous, labels)
    scores = compute_scores(model, source, previous)
    as_eos = labels.masked_fill(labels == SEP, EOS)
    expected = -scores.gather(2, as_eos.unsqueeze(2)).squeeze(2)[labels != PAD].sum()
    for module in (label_smoothed_cross_entropy, chunked):
        criterion = module.LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
        _, _, logs = criterion(model, sample)
        torch.testing.assert_close(logs["nll_loss"], expected, atol=1e-3, rtol=1e-5)
    assert (sample["target"] == SEP).any()  # scores of the reference leave separators out


@pytest.mark.parametrize("name", WINDOW_NAMES)
def test_a_single_sentence_is_that_of_a_model_without_windows(name):
    source, target = torch.tensor([[5, 6, 7, 8, EOS]]), torch.tensor([[EOS, 9, 10]])
    plain = build(name, source_bos="off")(source, None, target)[0]
    for context, cross in WINDOWS[1:]:
        model = build_document_model(name, context, cross)
        torch.testing.assert_close(model(source, None, target)[0], plain, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("context", "target", "cross"), CONTEXTS)
@pytest.mark.parametrize("name", WINDOW_NAMES)
def test_steps_and_blocks_equal_the_parallel_pass(name, context, target, cross, monkeypatch):
    model = build_document_model(name, context, cross, target)
    source, _, labels = make_inputs(make_documents(), left=True)
    previous = pad([[EOS, *row[:-1]] for row in labels])
    real = previous != PAD
    expected = decode(model, source, previous)
    steps, _ = decode_in_steps(model, source, previous)
    torch.testing.assert_close(steps[real], expected[real], atol=1e-5, rtol=0)
    monkeypatch.setattr(windows, "MAX_LENGTH", 4)
    monkeypatch.setattr(windows, "BLOCK", 5)
    blocks = decode(model, source, previous)
    torch.testing.assert_close(blocks[real], expected[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("context", "cross"), WINDOWS)
@pytest.mark.parametrize("name", ["rope_cross", "sinpos", "floater-rope_cross"])
def test_padding_on_either_side_gives_the_same_scores(name, context, cross):
    model, found = build_document_model(name, context, cross), []
    for left in (False, True):
        source, previous, target = make_inputs(make_documents(), left)
        scores = compute_scores(model, source, previous)
        found.append([row[s != PAD] for row, s in zip(scores, previous, strict=True)])
        assert [len(row) for row in found[-1]] == [len(row) for row in target]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", ["sinpos", "relpos", "rope_cross", "t5"])
def test_blocks_of_padding_only_change_nothing(name, left, monkeypatch):
    model = build_document_model(name, 1)
    source, previous, _ = make_inputs(make_documents()[:1])
    expected = compute_scores(model, source, previous)
    monkeypatch.setattr(windows, "MAX_LENGTH", 4)
    monkeypatch.setattr(windows, "BLOCK", 5)
    width = 13
    widen = (width, 0) if left else (0, width)
    wide = [torch.nn.functional.pad(x, widen, value=PAD) for x in (source, previous)]
    found = compute_scores(model, *wide)
    found = found[:, width:] if left else found[:, :-width]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_blocks_are_narrow_in_batches_of_unequal_documents(left, causal):
    # Sentences of 25 tokens: 256 queries and the sentences around them have at most 331 keys.
    tokens = pad([join([[5] * 24] * n) for n in (160, 40)], left)
    layout = find_layout(tokens, PAD, SEP)
    sentence, padding = layout.sentence, layout.padding
    conditions = [windows.Condition(windows.Window(1), sentence, sentence)]
    if causal:
        conditions.append(windows.Condition(windows.Window(math.inf), layout.column, layout.column))
    mask = windows.Mask(conditions, padding, padding, has_own_keys=True)
    blocks = mask.divide()
    assert len(blocks) == 16
    assert max(block.mask.size(-1) for block in blocks) <= 331
    visible = torch.zeros(2, 4000, 4000, dtype=torch.bool)
    for block in blocks:
        visible[:, block.queries, block.keys] = block.mask[:, 0]
    distance = sentence.unsqueeze(2) - sentence.unsqueeze(1)
    expected = (distance >= 0) & (distance <= 1) & ~padding.unsqueeze(1)
    expected = expected.tril() if causal else expected
    assert torch.equal(visible[~padding], expected[~padding])


@pytest.mark.parametrize(("target", "reach"), [(1, 3), (0, 2)])
@pytest.mark.parametrize("name", ["sinpos", "relpos", "rope_cross", "alibi", "floater"])
def test_what_is_outside_of_the_windows_changes_nothing(name, target, reach):
    # With 2 layers on each side, N = 1 and M = 0, a sentence depends on (2 - 1) N_t + 2 N earlier
    # source sentences and on 2 N_t target sentences.
    model = build_document_model(name, 1, target=target)
    pairs = [make_documents(seed) for seed in range(4)]
    sentences = list(itertools.chain.from_iterable(itertools.chain.from_iterable(pairs)))[:6]
    other = [11] * 9, [12] * 7
    found = {}
    for changed in (None, 5 - reach - 1, 5 - reach):
        document = [other if i == changed else pair for i, pair in enumerate(sentences)]
        source, previous, _ = make_inputs([document])
        found[changed] = compute_scores(model, source, previous)[0, -len(document[-1][1]) :]
    torch.testing.assert_close(found[5 - reach - 1], found[None], atol=1e-5, rtol=0)
    assert not torch.allclose(found[5 - reach], found[None], atol=1e-4)


@pytest.mark.parametrize("name", ["nopos", "relpos", "rope", "rope_cross", "alibi", "t5"])
def test_a_decoder_that_sees_all_sentences_reads_one(name):
    """Positions count through the text where both sides of each pair are equally long: then the
    scores are those of the sentence model, which reads </s> for the separator."""
    windows = build_document_model(name, 9, 9, encoder_layers=0)
    sentence = build(name, encoder_layers=0)
    words = [[5, 6, 7, 8], [9, 10], [11, 12, 13]]
    source = torch.tensor([join(words)])
    previous = torch.tensor([[EOS, *join([row[::-1] for row in words])[:-1]]])
    expected = compute_scores(
        sentence, source.masked_fill(source == SEP, EOS), previous.masked_fill(previous == SEP, EOS)
    )
    found = compute_scores(windows, source, previous)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_without_target_context_earlier_translations_are_not_seen():
    model = build_document_model("rope_cross", 1, target=0)
    (document,) = make_documents()[:1]
    other = [(document[0][0], [12] * 7), *document[1:]]
    found = []
    for pairs in (document, other):
        source, previous, _ = make_inputs([pairs])
        found.append(compute_scores(model, source, previous)[0, -len(pairs[-1][1]) :])
    torch.testing.assert_close(*found, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["t5", "kerple", "fire", "floater", "relpos"])
@pytest.mark.parametrize("context", [None, 0])
def test_checkpointed_activations_give_the_same_gradients(name, context):
    source, previous, target = make_inputs(make_documents())
    if context is None:
        source, previous = (x.masked_fill(x == SEP, 5) for x in (source, previous))
    labels = pad(target).masked_fill(pad(target) == SEP, EOS)
    found = []
    for checkpointed in (False, True):
        model = build(name, sentence_context=context, checkpoint_activations=checkpointed).train()
        scores = model(source, None, previous)[0]
        loss = torch.nn.functional.cross_entropy(
            scores.flatten(0, 1), labels.flatten(), ignore_index=PAD
        )
        loss.backward()
        found.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-6, rtol=1e-4)


def test_floater_counts_the_lengths_of_sentences():
    model = build_document_model("floater", 1).train()
    source, previous, _ = make_inputs(make_documents(), left=True)
    model(source, None, previous)
    encoder, decoder = model.encoder.encoding, model.decoder.encoding
    assert encoder.length_counts[0].nonzero().flatten().tolist() == [4, 5, 6, 7, 8]
    assert encoder.length_counts[0].sum() == 5
    assert torch.equal(decoder.length_counts[1], encoder.length_counts[0])
    assert decoder.length_counts[0].nonzero().flatten().tolist() == [4, 5, 6, 7, 9]
