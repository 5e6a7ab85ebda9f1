"""ADMIN: weighted residuals, initialized from a profile."""

from argparse import Namespace
from functools import partial

import pytest
import torch
from fairseq.models import build_model

from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.modules.admin import load_profile_batch
from cape_fairseq.modules.plan import AttentionPlan
from tests.support import PAD, SMALL, build, make_batch


@pytest.fixture
def task(cape_checkpoint, data_bin):
    return load_model(cape_checkpoint, data_bin)[1]


def test_residuals_are_weighted_by_channel():
    model = build("sinpos", residual_init="admin", is_profiled=True)
    layer = model.encoder.layers[0]
    x = torch.randn(3, 2, 32)
    with torch.no_grad():
        layer.self_attn_omega.uniform_(0.5, 2)
        layer.fc_omega.uniform_(0.5, 2)
        ours, _ = layer(x, AttentionPlan())
        y, _ = layer.self_attn(x, None, AttentionPlan())
        y = layer.self_attn_layer_norm(x * layer.self_attn_omega + y)
        z = layer.fc2(torch.relu(layer.fc1(y)))
        expected = layer.final_layer_norm(y * layer.fc_omega + z)
    torch.testing.assert_close(ours, expected)


def record_variances(terms, real, module, inputs, output):
    """Append the variance of a sub-layer's output; before the first, that of its input."""
    if not terms:
        terms.append(inputs[0][real].var())
    terms.append((output[0] if isinstance(output, tuple) else output)[real].var())


@pytest.mark.parametrize("arch", ["sinpos", "cape", "relpos"])
def test_omegas_are_the_square_roots_of_summed_variances(task, arch):
    """Measured again by hooks, sub-layer by sub-layer, with real tokens only."""
    torch.manual_seed(1)
    given = {**SMALL, "dropout": 0.0, "attention_dropout": 0.0, "residual_init": "admin"}
    args = Namespace(arch=f"{arch}_transformer_tiny", **given)
    model = build_model(args, task)
    assert args.is_profiled  # a stored model is not profiled again
    batch = load_profile_batch(task)
    tokens = model.encoder.prepend_bos(batch["src_tokens"])
    sides = {"encoder": tokens, "decoder": batch["prev_output_tokens"]}
    for name, side_tokens in sides.items():
        side, real = getattr(model, name), side_tokens.ne(PAD).t()
        cross = ["encoder_attn"] if name == "decoder" else []
        terms, omegas = [], []
        for layer in side.layers:
            for sublayer in ("self_attn", *cross, "fc"):
                omegas.append(getattr(layer, f"{sublayer}_omega"))
                module = layer.fc2 if sublayer == "fc" else getattr(layer, sublayer)
                module.register_forward_hook(partial(record_variances, terms, real))
        with torch.no_grad():
            model.eval()(batch["src_tokens"], None, batch["prev_output_tokens"])
        assert (omegas[0] == 1).all()
        for number, omega in enumerate(omegas[1:], 2):
            torch.testing.assert_close(omega[0], sum(terms[:number]).sqrt(), atol=1e-4, rtol=1e-4)


def test_profiling_leaves_the_random_numbers_alone(task):
    drawn = []
    given = {"arch": "sinpos_transformer_tiny", **SMALL, "residual_init": "admin"}
    for is_profiled in (False, True):
        torch.manual_seed(1)
        build_model(Namespace(**given, is_profiled=is_profiled), task)
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)


def test_layer_drop_skips_no_layer_and_nothing_counts_as_training(task):
    torch.manual_seed(1)
    drop = {"encoder_layerdrop": 0.9, "decoder_layerdrop": 0.9, "residual_init": "admin"}
    model = build_model(Namespace(arch="floater_transformer_tiny", **SMALL, **drop), task)
    for side in (model.encoder, model.decoder):
        assert all(layer.fc_omega.gt(1).all() for layer in side.layers._modules.values())
        assert side.encoding.length_counts.sum() == 0


def test_without_training_data_admin_is_an_error():
    with pytest.raises(ValueError, match="training data"):
        build("sinpos", residual_init="admin")


def test_gradients_reach_omegas():
    model = build("sinpos", residual_init="admin", is_profiled=True).train()
    model(make_batch([3]), None, make_batch([3], begin=True))[0].sum().backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if "omega" in n)
