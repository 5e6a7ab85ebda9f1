"""FLOATER in the model: a strict superset of the plain Transformer, each trajectory in its
place."""

import pytest
import torch

from cape_fairseq.positions.batch import Source as StackSource
from tests.support import SMALL, batch, build

SOURCE, TARGET = batch([9, 3, 6], True), batch([7, 5, 2], False, end=False)
REAL = TARGET.ne(1)


def still(model):
    """The model with dynamics that move nothing."""
    model.train()  # what was solved before is out of date
    for stack in (model.encoder, model.decoder):
        for parameter in stack.flow.dynamics.parameters():
            torch.nn.init.zeros_(parameter)
    return model.eval()


@pytest.mark.parametrize("old", ["transformer", "sinpos", "shape", "cape"])
def test_without_motion_it_is_the_model_it_came_from(old):
    arch = old if old == "transformer" else f"{old}_transformer_tiny"
    options = {} if old == "transformer" else {"source_bos": "on" if old == "cape" else "off"}
    source = build(arch, seed=3, **options)
    model = build(
        "floater_transformer_tiny",
        **{key: value for key, value in options.items() if key == "source_bos"},
    )
    model.load_state_dict(source.state_dict(), strict=True)
    expected = source(SOURCE, None, TARGET)[0]
    close = model(SOURCE, None, TARGET)[0]
    # The default moves a little.
    assert 1e-6 < (close - expected)[REAL].abs().max() < 0.1 * expected.abs().max()
    equal = still(model)(SOURCE, None, TARGET)[0]
    assert (equal - expected)[REAL].abs().max() < 1e-6 * expected.abs().max()


@pytest.mark.parametrize("dynamics", ["ode", "rnn-scalar", "rnn2-scalar", "rnn-vector"])
def test_a_long_text_hardly_moves_from_the_model_it_came_from_either(dynamics):
    source = build("sinpos_transformer_tiny", seed=3)
    model = build("floater_transformer_tiny", floater_dynamics=dynamics)
    model.load_state_dict(source.state_dict(), strict=True)
    for length in (30, 100, 300):
        tokens, target = batch([length], True), batch([length], False)
        expected, found = (m(tokens, None, target)[0].log_softmax(-1) for m in (source, model))
        divergence = (expected.exp() * (expected - found)).sum(-1).mean()
        assert divergence < 1e-3


@pytest.mark.parametrize("form", ["bias", "additive"])
def test_thousands_of_tokens_translate(form):
    """Step by step as in parallel, 4,000 tokens into 1,000; far more than are solved at first."""
    model = build("floater_transformer_tiny", floater_form=form, floater_init_scale=0.3, **SMALL)
    source, target = batch([4000], True), batch([1000], False)
    encoder_out, state = model.encoder(source), {}
    parallel = model.decoder(target, encoder_out)[0]
    for step in range(1000):
        scores, _ = model.decoder(target[:, : step + 1], encoder_out, state)
        assert (scores[:, 0] - parallel[:, step]).abs().max() < 1e-5 * parallel.abs().max()


@pytest.mark.parametrize("layers", ["all", "input"])
def test_every_trajectory_is_a_bias_of_its_own_projection(layers):
    """Without motion a trajectory is a constant, which the projection's own bias can hold as
    well."""
    model = still(build("floater_transformer_tiny", floater_layers=layers))
    plain = build("sinpos_transformer_tiny")
    plain.load_state_dict(model.state_dict(), strict=True)
    names = {
        "encoder": ["self_attn.q", "self_attn.k", "self_attn.v"],
        "decoder": [
            "self_attn.q",
            "self_attn.k",
            "self_attn.v",
            "encoder_attn.q",
            "encoder_attn.k",
            "encoder_attn.v",
        ],
    }
    for side, projections in names.items():
        flow = getattr(model, side).flow
        torch.nn.init.normal_(flow.initial)
        flow.from_start.fill_(False)
        blocks = flow.initial.detach().view(-1, len(projections), 128)
        assert len(blocks) == (3 if layers == "all" else 1)
        for block, vectors in enumerate(blocks):
            for projection, vector in zip(projections, vectors, strict=True):
                plain.get_parameter(f"{side}.layers.{block}.{projection}_proj.bias").data += vector
    difference = model(SOURCE, None, TARGET)[0] - plain(SOURCE, None, TARGET)[0]
    assert difference[REAL].abs().max() < 1e-4


def test_positions_make_the_difference_along_both_sides():
    """The biases of a token are those of its own place, counted from its sentence's first token."""
    model = build("floater_transformer_tiny", floater_init_scale=2.0)
    places, flow = [], model.decoder.flow
    for name, length in (("query_bias", 7), ("cross_key_bias", 9)):
        begun = model.decoder.positions.begin(TARGET, source=StackSource(SOURCE.eq(1)), causal=True)
        got = begun.attention(2)[name]
        state = flow.names.index(name) + len(flow.names)
        expected = flow.solve(9)[:, state]
        if name == "query_bias":
            assert torch.allclose(got[:, 0], expected[:length], atol=1e-6)
        else:
            assert torch.allclose(got[:, 0], expected, atol=1e-6)  # the row without padding
            # Three tokens, padded on the left.
            assert torch.allclose(got[-3:, 1], expected[:3], atol=1e-6)
        places.append(got)
    assert places[0].shape == (7, 1, 128)
    assert places[1].shape == (9, 3, 128)


def test_the_additive_form_has_no_other_positions():
    model = build("floater_transformer_tiny", floater_form="additive")
    assert model.encoder.embed_positions is None
    for stack in (model.encoder, model.decoder):
        assert stack.flow.initial.shape == (3, 128)
        torch.nn.init.zeros_(stack.flow.initial)
    nopos = build("nopos_transformer_tiny")
    nopos.load_state_dict(model.state_dict())
    expected = nopos(SOURCE, None, TARGET)[0]
    assert (model(SOURCE, None, TARGET)[0] - expected)[REAL].abs().max() > 1e-3
    assert (still(model)(SOURCE, None, TARGET)[0] - expected)[REAL].abs().max() < 1e-5
    assert (
        build(
            "floater_transformer_tiny", floater_form="additive", floater_layers="input"
        ).encoder.flow.blocks
        == 1
    )


@pytest.mark.parametrize(
    "options",
    [
        {"floater_form": "additive"},
        {"floater_layers": "input"},
        {"floater_dynamics": "rnn-vector"},
        {"floater_solver": "dopri5"},
        {"floater_gradient": "adjoint"},
        {"source_bos": "on"},
        {"floater_decoder_dynamics": "two"},
        {
            "floater_form": "additive",
            "encoder_normalize_before": True,
            "decoder_normalize_before": True,
        },
    ],
)
def test_steps_equal_the_parallel_pass_in_every_form(options):
    model = build("floater_transformer_tiny", floater_init_scale=1.0, **options)
    for left in (True, False):
        target = batch([7, 5, 2], left, end=False)
        parallel = model(SOURCE, None, target)[0]
        encoder_out, state = model.encoder(SOURCE), {}
        for step in range(7):
            scores, _ = model.decoder(target[:, : step + 1], encoder_out, state)
            rows = target[:, step].ne(1)
            assert (scores[rows, 0] - parallel[rows, step]).abs().max() < 1e-5


def test_two_dynamics_that_are_equal_are_one():
    """What runs along the source has its own h, which may be the same."""
    one = build("floater_transformer_tiny", floater_init_scale=2.0)
    two = build("floater_transformer_tiny", floater_decoder_dynamics="two", seed=2)
    assert two.encoder.flow.source is None
    state = one.state_dict()
    blocks = state["decoder.flow.initial"].view(3, 6, 128)
    state["decoder.flow.initial"] = blocks[:, :4].flatten(0, 1)
    state["decoder.flow.source.initial"] = blocks[:, 4:].flatten(0, 1)
    for name in [name for name in state if name.startswith("decoder.flow.dynamics.")]:
        state[name.replace("flow.", "flow.source.")] = state[name].clone()
    for name in ("lr_scale", "from_start"):
        state[f"decoder.flow.source.{name}"] = state[f"decoder.flow.{name}"]
    for part in ("flow", "flow.source"):
        for name, value in two.decoder.get_submodule(f"{part}.seen").state_dict().items():
            state[f"decoder.{part}.seen.{name}"] = value
    state["decoder.flow.names_a_block"] = torch.tensor(4)
    state["decoder.flow.source.names_a_block"] = torch.tensor(2)
    two.load_state_dict(state, strict=True)
    expected, found = (model(SOURCE, None, TARGET)[0] for model in (one, two))
    assert (found - expected)[REAL].abs().max() < 1e-5
    torch.nn.init.zeros_(two.train().eval().decoder.flow.source.dynamics.maps[1].weight)
    assert (two(SOURCE, None, TARGET)[0] - expected)[REAL].abs().max() > 1e-4


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, "autocast"])
def test_half_precision_far_beyond_training(kind):
    """4,000 tokens after a training on 40, with dynamics that would have gone far: in float16
    within 1e-2 of float32, and in bfloat16, whose scores are rounded to one in 256, hardly further
    than plain sinusoids are."""
    model = build("floater_transformer_tiny", floater_init_scale=1.0, **SMALL)
    plain = build("sinpos_transformer_tiny", **SMALL)
    model.train()(batch([40], True), None, batch([40], False))
    difference, of_sinpos = rounded(model, kind), rounded(plain, kind)
    assert difference.isfinite().all()
    assert difference.mean() < 1e-2
    assert difference.max() < (1e-2 if kind == torch.float16 else 1.5 * of_sinpos.max())


@torch.no_grad()
def rounded(model, kind):
    """How far log-probabilities of a long text are from float32's."""
    model.eval()
    source, target = batch([4000], True), batch([4000], False)
    exact = model(source, None, target)[0].log_softmax(-1)
    if kind == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            found = model(source, None, target)[0]
    else:
        found = model.to(kind)(source, None, target)[0]
    return (found.float().log_softmax(-1) - exact).abs()


def test_the_copy_is_its_parent():
    """KL divergence of next tokens after the warm start, 40 tokens."""
    parent, model = build("sinpos_transformer_tiny", seed=3), build("floater_transformer_tiny")
    model.load_state_dict(parent.state_dict(), strict=True)
    tokens, target = batch([40, 33], True), batch([40, 30], False)
    with torch.no_grad():
        expected, found = (m(tokens, None, target)[0].log_softmax(-1) for m in (parent, model))
    divergence = (expected.exp() * (expected - found)).sum(-1)[target.ne(1)].mean()
    assert divergence < 1e-6
    starts = model.decoder.flow.initial
    assert len({tuple(row.tolist()) for row in starts}) == len(starts)


def test_forms_of_equal_shapes_are_not_taken_for_another(caplog):
    additive = build("floater_transformer_tiny", 3, floater_form="additive", decoder_layers=6)
    model = build("floater_transformer_tiny", 4, floater_layers="input", decoder_layers=6)
    shapes = [
        {k: x.shape for k, x in m.state_dict().items() if ".flow." in k and ".seen." not in k}
        for m in (additive, model)
    ]
    assert shapes[0] == shapes[1]
    before = model.encoder.flow.initial.clone()
    model.load_state_dict(additive.state_dict())
    assert torch.equal(model.encoder.flow.initial, before)
    assert "another form of FLOATER" in caplog.text
