"""Without augmentation, absolute encodings are fairseq's own Transformer."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import build_model

from cape_fairseq.modules.masks import drop_bos
from tests.support import PAD, SmallTask, build, build_stock, make_batch

ABSOLUTE = {
    "sinpos": {},
    "cape": {
        "cape_global_shift": 0.0,
        "cape_local_shift": 0.0,
        "source_scale": "1",
        "source_bos": "off",
    },
    "shape": {"shape_max_shift": 0},
    "abspos": {},
    "nopos": {},
    "floater": {},
}
STOCK = {
    "abspos": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "nopos": {"no_token_positional_embeddings": True},
}


def pair(system: str, **shared):
    """Our model and fairseq's, with fairseq's weights; FLOATER without its biases."""
    stock = build_stock(**STOCK.get(system, {}), **shared)
    ours = build(system, seed=2, **ABSOLUTE[system], **shared)
    for name, parameter in ours.named_parameters():
        if ".dynamics." in name:
            torch.nn.init.zeros_(parameter)
    ours.load_state_dict(stock.state_dict(), strict=True)
    return ours, stock


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("system", ABSOLUTE)
def test_scores_and_gradients_equal_fairseqs(system, left):
    source, target = make_batch([7, 3], left), make_batch([6, 4], begin=True)
    found = []
    for model in pair(system):
        model.train()
        scores, _ = model(source, None, target)
        real = target.ne(PAD)
        scores.log_softmax(-1)[..., 7][real].sum().backward()
        gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        found.append((scores[real], gradients))
    (ours, our_gradients), (theirs, their_gradients) = found
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)
    largest = max(gradient.abs().max() for gradient in their_gradients.values())
    for name, gradient in their_gradients.items():
        if "embed_positions" in name:
            name = f"{name.partition('.')[0]}.positions.tables.0"
        assert (our_gradients[name] - gradient).abs().max() < 1e-5 * largest, name


@pytest.mark.parametrize(
    "shared",
    [
        {"encoder_normalize_before": True, "decoder_normalize_before": True},
        {"layernorm_embedding": True, "no_scale_embedding": True},
        {"activation_fn": "gelu", "decoder_output_dim": 16, "share_all_embeddings": False},
    ],
    ids=["pre-norm", "embedding-norm", "output-dim"],
)
def test_fairseqs_options_mean_the_same(shared):
    source, target = make_batch([7, 3], left=True), make_batch([6, 4], begin=True)
    with torch.no_grad():
        ours, theirs = (model(source, None, target)[0] for model in pair("sinpos", **shared))
    torch.testing.assert_close(ours[target.ne(PAD)], theirs[target.ne(PAD)], atol=2e-6, rtol=1e-5)


def test_alignments_equal_fairseqs():
    source, target = make_batch([7, 3], left=True), make_batch([6, 4], begin=True)
    options = {"alignment_layer": 0}
    with torch.no_grad():
        found = [m(source, None, target, **options)[1]["attn"][0] for m in pair("sinpos")]
    real = target.ne(PAD)
    torch.testing.assert_close(found[0][real], found[1][real], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("layer", [0, 1])
def test_weights_of_a_layer_beside_those_of_an_alignment(layer):
    """In a step the alignment needs those of the last layer, too."""
    source, target = make_batch([7, 3], left=True), make_batch([6, 4], begin=True)[:, :1]
    aligned, model = build("rope_cross", alignment_gain=0.1), build("rope_cross")
    with torch.no_grad():
        found, expected = (
            m.decoder(target, m.encoder(source), {}, alignment_layer=layer)[1]["attn"][0]
            for m in (aligned, model)
        )
    assert found.shape == (2, 1, 7)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("system", ["sinpos", "rope_cross"])
def test_without_cross_attention_there_are_no_weights(system):
    source, target = make_batch([7, 3], left=True), make_batch([6, 4], begin=True)
    model = build(system, no_cross_attention=True)
    model.train()(source, None, target)
    model.eval()
    with torch.no_grad():
        assert model(source, None, target)[1]["attn"] == [None]
        encoder_out, state = model.encoder(source), {}
        for length in (1, 2):
            _, extra = model.decoder(target[:, :length], encoder_out, state)
            assert extra["attn"] == [None]


def test_alignments_leave_the_source_bos_out():
    source, target = make_batch([7, 3], left=True), make_batch([6, 4], begin=True)
    with torch.no_grad():
        model = build("cape")
        attention = model(source, None, target, alignment_layer=1)[1]["attn"][0]
        assert model(source, None, target)[1]["attn"] == [None]  # nobody asks for it
    assert attention.shape == (2, 6, 7)
    assert (attention[1, :, :4] == 0).all()  # padding
    assert (attention.sum(-1) < 1).all()  # the BOS has a share


def test_the_source_bos_is_the_first_real_column():
    values = torch.arange(4).expand(2, 1, 4)
    padding = torch.tensor([[False] * 4, [True, True, False, False]])
    assert drop_bos(values, padding).tolist() == [[[1, 2, 3]], [[0, 1, 3]]]


def test_shared_embeddings_need_one_dictionary():
    task = SmallTask()
    joined = build_model(Namespace(arch="sinpos_transformer_tiny"), task)
    assert joined.encoder.embed_tokens is joined.decoder.embed_tokens
    task.target_dictionary = Dictionary()
    separate = build_model(Namespace(arch="sinpos_transformer_tiny"), task)
    assert separate.encoder.embed_tokens is not separate.decoder.embed_tokens
