"""The search of documents, against searches of their sentences and the parallel pass."""

from __future__ import annotations

import pytest
import torch
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator
from torch.nn import functional as F

from cape_fairseq.documents.search import DocumentGenerator
from tests.documents.support import (
    SEP,
    build_document_model,
    compute_scores,
    join,
    make_documents,
    make_inputs,
)
from tests.support import EOS, PAD, SmallTask, make_batch

DICTIONARY = SmallTask().target_dictionary
# Sentence context, target context, cross context.
CONTEXTS = [(0, 0, 0), (1, 1, 0), (2, 1, 0), (2, 0, 0), (1, 1, 1), (1, 0, 1)]


def make_generator(models, **options):
    return DocumentGenerator(models, DICTIONARY, **{"beam_size": 3, "max_len_b": 8, **options})


def make_sample(documents, **more):
    source, _, _ = make_inputs(documents, left=True)
    net_input = {"src_tokens": source, "src_lengths": (source != PAD).sum(1)}
    return {"net_input": net_input, **more}


def generate(models, documents, **options):
    return make_generator(models, **options).generate(models, make_sample(documents))


def search_alone(model, words, **options):
    """fairseq's hypotheses of a sentence."""
    options = {"beam_size": 3, "max_len_b": 8, "tokens_to_suppress": ("<s>",), **options}
    sample = {"net_input": {"src_tokens": torch.tensor([[*words, EOS]])}}
    return SequenceGenerator([model], DICTIONARY, **options).generate([model], sample)[0]


@pytest.mark.parametrize(("context", "target", "cross"), CONTEXTS)
@pytest.mark.parametrize("name", ["cape", "relpos", "rope_cross", "t5", "floater-rope_cross"])
def test_search_scores_as_the_parallel_pass(name, context, target, cross):
    model = build_document_model(name, context, cross, target)
    documents, reported = make_documents(), []
    found_in_all = generate([model], documents, report=reported.append)
    assert sum(reported) == sum(map(len, documents))
    for document, hypotheses in zip(documents, found_in_all, strict=True):
        for found in hypotheses:
            tokens = found["tokens"]
            assert (tokens == SEP).sum() == len(document) - 1
            assert tokens[-1] == EOS
            previous = torch.cat([torch.tensor([EOS]), tokens[:-1]]).unsqueeze(0)
            source = torch.tensor([join([s for s, _ in document])])
            scores = compute_scores(model, source, previous)
            labels = tokens.masked_fill(tokens == SEP, EOS).unsqueeze(1)
            expected = scores[0].gather(1, labels).squeeze(1)
            torch.testing.assert_close(found["positional_scores"], expected, atol=1e-5, rtol=0)
        assert len(hypotheses) == (1 if target else 3)


@pytest.mark.parametrize("limits", [{}, {"max_len_a": 0.5, "max_len_b": 1}])
@pytest.mark.parametrize("max_tokens", [None, 10])
@pytest.mark.parametrize("name", ["cape", "relpos", "rope_cross", "alibi", "floater-rope_cross"])
def test_without_context_the_search_is_that_of_each_sentence(name, max_tokens, limits):
    model, documents = build_document_model(name, 0), make_documents()
    found = generate([model], documents, max_tokens=max_tokens, **limits)
    for document, hypotheses in zip(documents, found, strict=True):
        alone = [search_alone(model, words, **limits) for words, _ in document]
        expected = [
            join([sentence[k]["tokens"].tolist()[:-1] for sentence in alone])
            for k in range(len(hypotheses))
        ]
        assert sorted(h["tokens"].tolist() for h in hypotheses) == sorted(expected)
        assert hypotheses[0]["tokens"].tolist() == expected[0]


def test_limits_are_rounded_as_fairseq_does():
    """1.15 * 100 is below 115 in double precision, and 115 in single precision. Beside a longer
    sentence, whose limit fairseq takes for both."""
    model = build_document_model("rope_cross", 0)
    words, longer = (make_batch([length])[0, :-1].tolist() for length in (100, 120))
    limits = {"max_len_a": 1.15, "max_len_b": 0, "min_len": 114, "beam_size": 1}
    found, _ = generate([model], [[(words, [5])], [(longer, [5])]], **limits)
    alone = search_alone(model, words, **limits)
    assert len(alone[0]["tokens"]) == 115  # with EOS
    assert torch.equal(found[0]["tokens"], alone[0]["tokens"])


def test_autocast_searches_in_bfloat16(monkeypatch):
    """Also the keys of earlier sentences."""
    model = build_document_model("rope_cross", 1, autocast="bf16")
    attend, dtypes = F.scaled_dot_product_attention, set()

    def record(query, key, value, *args, **kwargs):
        dtypes.update((query.dtype, key.dtype, value.dtype))
        return attend(query, key, value, *args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", record)
    generate([model], make_documents())
    assert dtypes == {torch.bfloat16}


@pytest.mark.parametrize("options", [{"max_len_a": 0.5, "max_len_b": 1}, {"min_len": 4}])
@pytest.mark.parametrize("target", [0, 1])
def test_a_batch_gives_what_each_document_gives_alone(target, options):
    model, documents = build_document_model("rope_cross", 1, target=target), make_documents()
    batch = generate([model], documents, **options)
    for document, hypotheses in zip(documents, batch, strict=True):
        (alone,) = generate([model], [document], **options)
        for one, other in zip(hypotheses, alone, strict=True):
            assert torch.equal(one["tokens"], other["tokens"])
            torch.testing.assert_close(one["score"], other["score"], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("targets", "crosses"), [((0, 0), (0, 0)), ((1, 1), (0, 0)), ((0, 1), (0, 0)), ((1, 1), (0, 1))]
)
def test_an_ensemble_averages_probabilities(targets, crosses):
    models = [
        build_document_model("rope_cross", 1, cross, target=target, seed=seed)
        for seed, (target, cross) in enumerate(zip(targets, crosses, strict=True))
    ]
    documents = make_documents()
    for document, hypotheses in zip(documents, generate(models, documents), strict=True):
        tokens = hypotheses[0]["tokens"]
        previous = torch.cat([torch.tensor([EOS]), tokens[:-1]]).unsqueeze(0)
        source = torch.tensor([join([s for s, _ in document])])
        scores = [compute_scores(model, source, previous).exp() for model in models]
        labels = tokens.masked_fill(tokens == SEP, EOS).unsqueeze(1)
        expected = (sum(scores) / 2).log()[0].gather(1, labels).squeeze(1)
        torch.testing.assert_close(hypotheses[0]["positional_scores"], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("target", [0, 1])
def test_a_prefix_is_given_to_the_first_sentences(target):
    model = build_document_model("rope_cross", 1, target=target)
    prefix = torch.tensor([[20, 21, SEP, 22], [30, PAD, PAD, PAD]])
    found = make_generator([model]).generate([model], make_sample(make_documents()), prefix)
    assert found[0][0]["tokens"][:4].tolist() == [20, 21, SEP, 22]
    assert found[1][0]["tokens"][0] == 30
    counts = [(hypotheses[0]["tokens"] == SEP).sum().item() for hypotheses in found]
    assert counts == [2, 1]


@pytest.mark.parametrize("target", [0, 1])
def test_a_prefix_of_one_document_changes_no_other(target):
    """Also with a shortest length, which fairseq does not ask of rows with a prefix."""
    model = build_document_model("rope_cross", 1, target=target)
    prefix = torch.tensor([[20, 21], [PAD, PAD]])
    found = make_generator([model], min_len=4).generate(
        [model], make_sample(make_documents()), prefix
    )
    (alone,) = generate([model], make_documents()[1:], min_len=4)
    assert torch.equal(found[1][0]["tokens"], alone[0]["tokens"])
    assert found[0][0]["tokens"][:2].tolist() == [20, 21]


@pytest.mark.parametrize(
    "options", [{"min_len": 6}, {"tokens_to_suppress": ("w3", "w9")}, {"match_source_len": True}]
)
@pytest.mark.parametrize("target", [0, 1])
def test_a_longer_prefix_of_another_document_changes_nothing(target, options):
    """fairseq asks for shortest lengths and suppresses tokens behind the longest prefix only."""
    model = build_document_model("rope_cross", 1, target=target, seed=5)
    with torch.no_grad():  # so that sentences would end early, or say what is suppressed
        model.decoder.output_projection.weight[[EOS, 7, 13]] *= 3
    prefix = torch.tensor([[20, PAD, PAD, PAD], [30, 31, 32, 33]])
    documents = [[(list(range(20, 20 + n)), [5])] for n in (5, 9)]
    options = {"max_len_b": 9, **options}
    found = make_generator([model], **options).generate([model], make_sample(documents), prefix)
    (alone,) = make_generator([model], **options).generate(
        [model], make_sample(documents[:1]), prefix[:1, :1]
    )
    assert torch.equal(found[0][0]["tokens"], alone[0]["tokens"])
    torch.testing.assert_close(found[0][0]["score"], alone[0]["score"])


def test_another_bos_is_an_error():
    model = build_document_model("rope_cross", 1)
    with pytest.raises(ValueError, match="bos_token"):
        make_generator([model]).generate([model], make_sample(make_documents()), bos_token=7)


@pytest.mark.parametrize("target", [0, 1])
def test_a_prefix_is_cut_at_the_longest_length(target):
    model = build_document_model("rope_cross", 1, target=target)
    limits = {"max_len_a": 0, "max_len_b": 3}
    prefix = torch.tensor([list(range(20, 28)), [PAD] * 8])
    found = make_generator([model], **limits).generate(
        [model], make_sample(make_documents()), prefix
    )
    assert found[0][0]["tokens"][:4].tolist() == [20, 21, 22, SEP]


@pytest.mark.parametrize("target", [0, 1])
def test_a_prefix_is_cut_at_the_limit_of_its_own_source(target):
    """A short source ends behind its prefix, a longer one goes on."""
    model = build_document_model("rope_cross", 1, target=target)
    documents = [[(list(range(20, 20 + length)), [5])] for length in (3, 7)]
    prefix = torch.tensor([[5] * 6, [6] * 6])
    limits = {"max_len_a": 1, "max_len_b": 0, "beam_size": 4}
    found = make_generator([model], **limits).generate([model], make_sample(documents), prefix)
    assert found[0][0]["tokens"].tolist() == [5] * 4 + [EOS]
    tokens = found[1][0]["tokens"]
    assert tokens[:6].tolist() == [6] * 6
    assert tokens[-1] == EOS
    (alone,) = make_generator([model], **limits).generate(
        [model], make_sample(documents[1:]), prefix[1:]
    )
    assert torch.equal(tokens, alone[0]["tokens"])


def test_the_first_hypothesis_has_the_best_of_every_sentence():
    """Also where others score higher together, since long sentences count more."""

    def make(token, score, length):
        scores = torch.full((length,), score)
        tokens = torch.tensor([token] * (length - 1) + [EOS])
        return {"tokens": tokens, "score": scores.mean(), "positional_scores": scores}

    sentences = [[make(20, -1.0, 2), make(30, -1.1, 10)], [make(21, -3.0, 2), make(31, -3.1, 1)]]
    generator = make_generator([build_document_model("sinpos", 1, target=0)])
    first, second = generator.join_sentences(sentences)
    assert first["tokens"].tolist() == join([[20], [21]])
    assert second["score"] > first["score"]


@pytest.mark.parametrize("target", [0, 1])
def test_a_prefix_of_every_sentence(target):
    """The code of a language; a prefix of the first sentence alone replaces it there."""
    model = build_document_model("rope_cross", 1, target=target)
    generator = make_generator([model], sentence_prefix=[33])
    found = generator.generate([model], make_sample(make_documents()), torch.tensor([[20], [PAD]]))
    tokens = [hypotheses[0]["tokens"].tolist() for hypotheses in found]
    assert tokens[0][0] == 20
    assert tokens[1][0] == 33
    for row in tokens:
        assert [row[i + 1] for i, token in enumerate(row) if token == SEP] == [33] * row.count(SEP)


def test_an_empty_sentence_in_a_prefix_is_an_error():
    model = build_document_model("rope_cross", 1)
    prefix = torch.tensor([[20, SEP, SEP, 22], [30, PAD, PAD, PAD]])
    with pytest.raises(ValueError, match="empty sentence"):
        make_generator([model]).generate([model], make_sample(make_documents()), prefix)


@pytest.mark.parametrize("target", [0, 1])
def test_allowed_tokens_depend_on_the_sample_and_the_sentence(target):
    """A function of ids and of the tokens of the current sentence, also when rows have finished."""
    seen = set()

    def allow(number, tokens):
        seen.add(number)
        assert SEP not in tokens.tolist()
        return [EOS] if len(tokens) > 2 else [40 + number]

    model = build_document_model("rope_cross", 1, target=target)
    strategy = search.PrefixConstrainedBeamSearch(DICTIONARY, allow)  # other beams would be void
    documents = make_documents()[::-1]  # the first document ends first
    sample = make_sample(documents, id=torch.tensor([7, 4]))
    found = make_generator([model], beam_size=1, search_strategy=strategy).generate([model], sample)
    assert seen == {7, 4}
    assert found[0][0]["tokens"].tolist() == join([[47, 47]] * 2)
    assert found[1][0]["tokens"].tolist() == join([[44, 44]] * 3)


def test_constraints_need_single_sentences():
    model = build_document_model("rope_cross", 1, target=0)
    constraints = torch.zeros(2, 2, dtype=torch.long)
    with pytest.raises(ValueError, match="one sentence"):
        make_generator([model]).generate([model], make_sample(make_documents()), None, constraints)


def test_an_adaptive_softmax_searches_documents():
    options = {"adaptive_softmax_cutoff": "20,40", "share_all_embeddings": False}
    model = build_document_model("sinpos", 1, **options)
    for document, (found,) in zip(
        make_documents(), generate([model], make_documents()), strict=True
    ):
        assert (found["tokens"] == SEP).sum() == len(document) - 1
