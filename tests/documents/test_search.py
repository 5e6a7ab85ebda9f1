"""The search of documents, against searches of their sentences and the parallel pass."""

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


def test_another_bos_is_an_error():
    model = build_document_model("rope_cross", 1)
    with pytest.raises(ValueError, match="bos_token"):
        make_generator([model]).generate([model], make_sample(make_documents()), bos_token=7)


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


def test_an_adaptive_softmax_searches_documents():
    options = {"adaptive_softmax_cutoff": "20,40", "share_all_embeddings": False}
    model = build_document_model("sinpos", 1, **options)
    for document, (found,) in zip(
        make_documents(), generate([model], make_documents()), strict=True
    ):
        assert (found["tokens"] == SEP).sum() == len(document) - 1


@pytest.mark.parametrize("limits", [{"min_len": 4}, {"max_len_a": 0, "max_len_b": 3}])
@pytest.mark.parametrize("target", [0, 1])
def test_a_prefix_of_every_sentence(target, limits):
    """The code of a language, in a batch and alone; a word fits after it."""
    model, documents = build_document_model("rope_cross", 1, target=target), make_documents()
    options = {"sentence_prefix": [33, 34], **limits}
    found = generate([model], documents, **options)
    for document, hypotheses in zip(documents, found, strict=True):
        (alone,) = generate([model], [document], **options)
        assert torch.equal(hypotheses[0]["tokens"], alone[0]["tokens"])
        words = " ".join(map(str, hypotheses[0]["tokens"].tolist())).split(f" {SEP} ")
        assert len(words) == len(document)
        assert all(sentence.startswith("33 34") for sentence in words)
        assert all(len(sentence.split()) > 2 for sentence in words)


@pytest.mark.parametrize("target", [0, 1])
def test_a_prefix_is_longer_than_the_limit_of_a_short_sentence(target):
    """A short sentence beside a longer one, whose limit fairseq takes for both."""
    model = build_document_model("rope_cross", 1, target=target)
    documents = [[(list(range(20, 20 + length)), [5])] for length in (1, 9)]
    limits = {"max_len_a": 1, "max_len_b": 0, "sentence_prefix": [33, 34, 35]}
    (short,), _ = (hypotheses[:1] for hypotheses in generate([model], documents, **limits))
    assert short["tokens"][:3].tolist() == [33, 34, 35]
    assert len(short["tokens"]) <= 5  # with a word and EOS


@pytest.mark.parametrize(
    "given",
    [
        {"prefix_tokens": torch.full((2, 1), 20)},
        {"constraints": torch.zeros(2, 2, dtype=torch.long)},
    ],
)
def test_prefixes_and_constraints_need_sentences(given):
    model = build_document_model("rope_cross", 1, target=0)
    with pytest.raises(ValueError, match="split"):
        make_generator([model]).generate([model], make_sample(make_documents()), **given)
