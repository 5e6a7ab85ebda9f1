"""Windows of sentences: exact properties of every encoding, and document-level decoding."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch.nn.utils.rnn import pad_sequence

from cape_fairseq.modules import windows
from cape_fairseq.positions.base import number_tokens
from cape_fairseq.positions.sentences import find_sentences
from cape_fairseq.tasks.document_generator import DocumentGenerator
from tests.support import EOS, PAD, SYSTEMS, WORDS, SmallTask, build, build_stock

SEP = 0
NAMES = [name for name in SYSTEMS if "randpos" not in name and "mean" not in name]
WINDOWS = [(0, 0), (1, 0), (2, 0), (1, 1)]


def make_documents(seed=1):
    """Two documents of three and of two sentence pairs, int lists without EOS."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [[(5, 4), (3, 6), (7, 5)], [(4, 3), (6, 8)]]
    return [
        [tuple(torch.randint(4, WORDS, (n,), generator=generator).tolist() for n in pair)
         for pair in document]
        for document in lengths
    ]  # fmt: skip


def join(sentences):
    """Sentences with separators between them and EOS."""
    return [token for s in sentences[:-1] for token in (*s, SEP)] + [*sentences[-1], EOS]


def pad(rows, left=False):
    rows = [torch.tensor(row) for row in rows]
    if left:
        return pad_sequence([row.flip(0) for row in rows], True, PAD).flip(1)
    return pad_sequence(rows, True, PAD)


def build_document_model(name, context, cross=0, **options):
    """A model with windows; the separator has the vectors of EOS, as after a warm start."""
    model = build(name, sentence_context=context, sentence_cross_context=cross, **options)
    with torch.no_grad():
        for side in (model.encoder, model.decoder):
            side.embed_tokens.weight[SEP] = side.embed_tokens.weight[EOS]
        model.decoder.output_projection.weight[SEP] = model.decoder.output_projection.weight[EOS]
    return model


def make_inputs(documents, left=False):
    source = pad([join([s for s, _ in d]) for d in documents], left)
    target = [join([t for _, t in d]) for d in documents]
    return source, pad([[EOS, *row[:-1]] for row in target], left), target


def compute_scores(model, source, previous):
    with torch.no_grad():
        return model.get_normalized_probs(model(source, None, previous), log_probs=True)


def test_sentences_of_a_source_and_of_a_decoder_input():
    tokens = torch.tensor([[PAD, PAD, 5, 6, SEP, 7, SEP, 8, 9, EOS]])
    numbers = number_tokens(tokens == PAD)
    found = find_sentences(tokens, SEP, numbers)
    assert found.numbers[0, 2:].tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert found.offsets[0, 2:].tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    # As an input of the decoder, the separator opens the sentence of the next token.
    found = find_sentences(tokens, SEP, numbers, separator_opens=True)
    assert found.numbers[0, 2:].tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert found.offsets[0, 2:].tolist() == [0, 1, 0, 1, 0, 1, 2, 3]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_without_context_a_text_is_its_sentences_alone(name, left):
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


@pytest.mark.parametrize("name", NAMES)
def test_a_single_sentence_is_that_of_a_model_without_windows(name):
    source, target = torch.tensor([[5, 6, 7, 8, EOS]]), torch.tensor([[EOS, 9, 10]])
    plain = build(name, source_bos="off")(source, None, target)[0]
    for context, cross in WINDOWS[1:]:
        model = build(name, sentence_context=context, sentence_cross_context=cross)
        torch.testing.assert_close(model(source, None, target)[0], plain, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("context", "cross"), WINDOWS)
@pytest.mark.parametrize("name", NAMES)
def test_steps_and_blocks_equal_the_parallel_pass(name, context, cross, monkeypatch):
    model = build_document_model(name, context, cross)
    source, _, target = make_inputs(make_documents(), left=True)
    previous = pad([[EOS, *row[:-1]] for row in target])
    real = previous != PAD
    with torch.no_grad():
        expected = model(source, None, previous)[0]
        encoder_out, state = model.encoder(source), {}
        steps = [
            model.decoder(previous[:, : i + 1], encoder_out=encoder_out, incremental_state=state)[0]
            for i in range(previous.size(1))
        ]
        keys = [layer.self_attn._get_input_buffer(state)["prev_key"] for layer in
                model.decoder.layers]  # fmt: skip
        assert all((key.size(2) < previous.size(1)) == (context == 0) for key in keys)
        monkeypatch.setattr(windows, "MAX_LENGTH", 4)
        monkeypatch.setattr(windows, "BLOCK", 5)
        blocks = model(source, None, previous)[0]
    steps = torch.cat(steps, 1)[real]
    allowed = steps > -5e3  # an end of a sentence that is not allowed has a penalty
    assert allowed[:, 3:].all()
    assert not allowed[:, [SEP, EOS]].all(1).any()  # never both
    torch.testing.assert_close(steps[allowed], expected[real][allowed], atol=1e-5, rtol=0)
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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_blocks_are_narrow_in_batches_of_unequal_documents(left, causal):
    # Sentences of 25 tokens: 256 queries and the sentences around them have at most 331 keys.
    tokens = pad([join([[5] * 24] * n) for n in (160, 40)], left)
    padding = tokens == PAD
    numbers = find_sentences(tokens, SEP, number_tokens(padding)).numbers
    window = windows.Window(numbers, numbers, 1, causal=causal, padding=padding)
    blocks = window.build_mask(padding)
    assert len(blocks) == 16
    assert max(block.mask.size(-1) for block in blocks) <= 331
    visible = torch.zeros(2, 4000, 4000, dtype=torch.bool)
    for block in blocks:
        visible[:, block.queries, block.keys] = block.mask[:, 0]
    expected = windows.find_visible(numbers, numbers, 1, 0) & ~padding.unsqueeze(1)
    expected = expected.tril() if causal else expected
    assert torch.equal(visible[~padding], expected[~padding])


@pytest.mark.parametrize("name", ["sinpos", "relpos", "rope_cross", "alibi", "fire", "floater"])
def test_what_is_outside_of_the_windows_changes_nothing(name):
    # With 2 layers on each side, N = 1 and M = 0, a sentence depends on 3 source sentences before
    # it and on 2 target sentences.
    model = build_document_model(name, 1)
    sentences = [
        pair for seed in range(4) for document in make_documents(seed) for pair in document
    ]
    others = [([11] * 9, [12] * 7), *sentences[1:]]
    found = []
    for document in (sentences[:6], others[:6]):
        source, previous, _ = make_inputs([document])
        found.append(compute_scores(model, source, previous)[0, -len(document[-1][1]) :])
    torch.testing.assert_close(*found, atol=1e-5, rtol=0)
    changed = [*sentences[:4], ([11] * 9, [12] * 7), sentences[5]]
    source, previous, _ = make_inputs([changed])
    other = compute_scores(model, source, previous)[0, -len(changed[-1][1]) :]
    assert not torch.allclose(found[0], other, atol=1e-4)


@pytest.mark.parametrize(("context", "cross"), WINDOWS)
@pytest.mark.parametrize("name", ["cape", "relpos", "rope_cross", "t5", "floater-rope_cross"])
def test_committed_search_scores_as_the_parallel_pass(name, context, cross):
    model = build_document_model(name, context, cross)
    documents = make_documents()
    source, _, _ = make_inputs(documents, left=True)
    sample = {"net_input": {"src_tokens": source, "src_lengths": None}}
    dictionary = SmallTask().target_dictionary
    generator = DocumentGenerator([model], dictionary, beam_size=3, max_len_b=8)
    for document, (found,) in zip(documents, generator.generate([model], sample), strict=True):
        tokens = found["tokens"]
        assert (tokens == SEP).sum() == len(document) - 1
        assert tokens[-1] == EOS
        previous = torch.cat([torch.tensor([EOS]), tokens[:-1]]).unsqueeze(0)
        scores = compute_scores(model, torch.tensor([join([s for s, _ in document])]), previous)
        expected = scores[0].gather(1, tokens.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(found["positional_scores"], expected, atol=1e-5, rtol=0)


def test_without_context_committed_search_is_the_search_of_each_sentence():
    model, documents = build_document_model("rope_cross", 0), make_documents()
    source, _, _ = make_inputs(documents)
    sample = {"net_input": {"src_tokens": source, "src_lengths": None}}
    dictionary = SmallTask().target_dictionary
    found = DocumentGenerator([model], dictionary, beam_size=3, max_len_b=8).generate(
        [model], sample
    )
    alone = SequenceGenerator([model], dictionary, beam_size=3, max_len_b=8,
                              tokens_to_suppress=("<s>",))  # fmt: skip
    for document, (hypothesis,) in zip(documents, found, strict=True):
        expected = []
        for words, _ in document:
            sample = {"net_input": {"src_tokens": torch.tensor([[*words, EOS]])}}
            expected.append(alone.generate([model], sample)[0][0]["tokens"].tolist()[:-1])
        assert hypothesis["tokens"].tolist() == join(expected)


@pytest.mark.parametrize("factor", [30, 0])  # sentences of a word or two, or endless ones
def test_joint_search_has_as_many_separators_as_the_source(factor):
    model = build_document_model("rope_cross", 1)
    with torch.no_grad():
        for token in (SEP, EOS):
            model.decoder.output_projection.weight[token] *= factor
    documents = make_documents()
    source, _, _ = make_inputs(documents)
    generator = DocumentGenerator([model], SmallTask().target_dictionary, beam_size=3,
                                  document_search="joint", max_len_a=2)  # fmt: skip
    lengths = (source != PAD).sum(1)
    sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
    for document, hypotheses in zip(documents, generator.generate([model], sample), strict=True):
        for found in hypotheses:
            text = found["tokens"].tolist()
            assert text.count(SEP) == len(document) - 1
            assert all(
                {a, b}.isdisjoint((SEP, EOS)) or {a, b} - {SEP, EOS} for a, b in pairwise(text)
            )


@pytest.mark.parametrize("name", ["sinpos", "cape", "shape", "rope_cross", "stock"])
def test_a_sentence_model_becomes_a_document_model(name):
    parent = build_stock() if name == "stock" else build(name, share_all_embeddings=True)
    state = parent.state_dict()
    encoding = "sinpos" if name == "stock" else name
    model = build(encoding, seed=2, share_all_embeddings=True, sentence_context=1)
    state = {key: value.clone() for key, value in state.items()}
    model.upgrade_state_dict(state)
    model.load_state_dict(state)
    for weight in (model.encoder.embed_tokens.weight, model.decoder.output_projection.weight):
        assert torch.equal(weight[SEP], weight[EOS])
    source, target = torch.tensor([[5, 6, 7, EOS]]), torch.tensor([[EOS, 9, 10]])
    if name != "cape":  # whose sentence model has a source BOS
        expected = parent(source, None, target)[0]
        found = model(source, None, target)[0]
        torch.testing.assert_close(found[..., 3:], expected[..., 3:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"source_bos": "on"},
        {"position_augmentation": "randpos"},
        {"sentence_context": None, "sentence_cross_context": 1},
        {"sentence_context": -1},
    ],
)
def test_options_that_do_not_fit_are_rejected(options):
    with pytest.raises(ValueError, match="sentence"):
        build("sinpos", **{"sentence_context": 1, **options})
