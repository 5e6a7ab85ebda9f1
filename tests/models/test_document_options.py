"""Models of documents: checkpoints, options, and what they reject."""

import pytest
import torch
from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.sequence_generator import SequenceGenerator

from tests.documents.support import (
    SEP,
    build_document_model,
    compute_scores,
    make_documents,
    make_inputs,
    pad,
)
from tests.support import EOS, SmallTask, build, build_stock, make_sample


@pytest.mark.parametrize("name", ["sinpos", "shape", "rope_cross", "stock"])
def test_a_sentence_model_becomes_a_document_model_without_training(name):
    parent = build_stock() if name == "stock" else build(name, share_all_embeddings=True)
    encoding = "sinpos" if name == "stock" else name
    model = build(encoding, seed=2, share_all_embeddings=True, sentence_context=0)
    model.load_state_dict(parent.state_dict(), strict=True)
    source, previous, _ = make_inputs(make_documents())
    scores = compute_scores(model, source, previous)
    for row, document in zip(scores, make_documents(), strict=True):
        alone = [
            compute_scores(parent, torch.tensor([[*s, EOS]]), torch.tensor([[EOS, *t]]))[0]
            for s, t in document
        ]
        expected = torch.cat(alone)
        torch.testing.assert_close(row[: len(expected)], expected, atol=1e-5, rtol=1e-5)


def test_target_context_is_at_most_the_sentence_context():
    from argparse import Namespace

    from fairseq.models import ARCH_CONFIG_REGISTRY

    configure = ARCH_CONFIG_REGISTRY["sinpos_transformer_tiny"]
    with pytest.raises(ValueError, match="target-context"):
        configure(Namespace(sentence_context=1, target_context=2))
    args = Namespace(sentence_context=3)
    configure(args)
    assert args.target_context == 3
    args.sentence_context = 0  # by --model-overrides
    configure(args)
    assert build("sinpos", **vars(args)).decoder.window.before == 0
    args.sentence_context = None
    assert build("sinpos", **vars(args)).decoder.window is None


def test_fairseqs_generator_rejects_a_document():
    model = build_document_model("rope_cross", 1)
    source, previous, _ = make_inputs(make_documents())
    generator = SequenceGenerator([model], SmallTask().target_dictionary)
    with pytest.raises(ValueError, match="--task stacked_translation"):
        generator.generate([model], {"net_input": {"src_tokens": source, "src_lengths": None}})
    sentence = {"net_input": {"src_tokens": torch.tensor([[5, 6, EOS]]), "src_lengths": None}}
    assert generator.generate([model], sentence)[0][0]["tokens"][-1] == EOS
    assert compute_scores(model, source, previous).isfinite().all()


def test_an_adaptive_softmax_trains_documents():
    options = {"adaptive_softmax_cutoff": "20,40", "share_all_embeddings": False}
    model = build_document_model("sinpos", 1, **options)
    source, previous, target = make_inputs(make_documents())
    labels = pad(target)
    sample = make_sample(source, previous, labels)
    found = AdaptiveLoss(SmallTask(), False)(model, sample)[0]
    sample["target"] = labels.masked_fill(labels == SEP, EOS)
    torch.testing.assert_close(found, AdaptiveLoss(SmallTask(), False)(model, sample)[0])
