"""The table of encodings: complete, and an error where a row says nothing."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from cape_fairseq.encodings import AUGMENTATIONS, ENCODINGS, Encoding
from cape_fairseq.encodings.common import OPTIONS, owners
from cape_fairseq.encodings.options import names
from cape_fairseq.positions.schedule import ShiftSchedule
from tests.support import PAD, batch, build

SOURCE, TARGET = batch([9, 3, 6], True), batch([7, 5, 2], False, end=False)


def test_an_encoding_without_an_implementation_is_an_error():
    with pytest.raises(TypeError, match="the encoding tenth has no implementation; give its row"):
        Encoding("tenth", "a name and nothing else")


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_is_not_nopos(name):
    """Whatever a row says, the model must differ from one without positions."""
    model, nopos = build(f"{name}_transformer_tiny", seed=3), build("nopos_transformer_tiny")
    nopos.load_state_dict(model.state_dict())
    scores = [m(SOURCE, None, TARGET)[0][TARGET.ne(PAD)] for m in (model, nopos)]
    assert torch.allclose(*scores, atol=1e-4) == (name == "nopos")


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_row_is_an_architecture_and_its_augmentations_exist(name):
    row = ENCODINGS[name]
    assert row.name == name
    assert f"{name}_transformer" in ARCH_MODEL_REGISTRY
    assert {row.augmentation, *row.augmentations} <= set(AUGMENTATIONS)
    assert row.why_not
    assert len(row.summary) > 3


def test_every_option_belongs_to_somebody_once():
    assert len(set(OPTIONS)) == len(OPTIONS)
    groups = [group for row in AUGMENTATIONS.values() for group in row.options]
    for option in names(*groups):
        assert owners(option)


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_a_row_calls_its_own_is_what_nopos_lacks(name):
    own = set(build(f"{name}_transformer_tiny").state_dict())
    plain = set(build("nopos_transformer_tiny").state_dict())
    assert bool(own - plain) == bool(ENCODINGS[name].parameters)


def test_options_reach_what_they_are_for():
    def augmentation(name, **given):
        return build(f"{name}_transformer_tiny", **given).encoder.positions.augmentation

    schedule = {"shift_probability": 0.25, "shift_near": 3.0, "shift_warmup": 9}
    assert augmentation("cape", **schedule).schedule == ShiftSchedule(9, 0.25, 3.0)
    assert augmentation("shape", **schedule).schedule == ShiftSchedule(9, 0.25, 3.0)
    assert augmentation("shape", shape_shared_shift=True).shared
    assert not augmentation("shape").shared
    fire = build("fire_transformer_tiny", fire_width=8).encoder.self_attn_positions
    assert 8 in {size for parameter in fire.parameters() for size in parameter.shape}
    options = {"floater_lr_scale": 4.0, "floater_update_interval": 3}
    flow = build("floater_transformer_tiny", floater_beyond="continue", **options).encoder.flow
    assert (float(flow.lr_scale), flow.update_interval, flow.hold) == (4.0, 3, False)
    assert build("floater_transformer_tiny").encoder.flow.hold


def test_half_precision_leaves_the_learning_rate_of_dynamics_alone():
    model = build("floater_transformer_tiny", floater_lr_scale=0.3).bfloat16()
    assert model.encoder.flow.lr_scale == torch.tensor(0.3)


@pytest.mark.parametrize("name", ["alibi", "t5", "fire", "kerple"])
def test_biases_lie_as_fused_attention_on_a_gpu_wants_them(name):
    """With neighbouring keys beside each other; it would silently be left out otherwise."""
    positions = torch.arange(2.0, 7.0).unsqueeze(0)
    biases = build(f"{name}_transformer_tiny").encoder.self_attn_positions
    for causal in (True, False):
        assert biases(positions, positions, None, causal)["mask"].stride(-1) == 1
