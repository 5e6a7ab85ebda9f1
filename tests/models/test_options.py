"""Options that make no sense are refused when the model is built, by name and value."""

import logging
from argparse import Namespace

import pytest
from fairseq.models import build_model

from cape_fairseq.encodings.common import warn_of_reordering
from cape_fairseq.encodings.options import names
from cape_fairseq.models.config import OWN_GROUPS, PositionalTransformerConfig
from cape_fairseq.positions import CAPE, keyed_generator
from tests.support import PAD, ToyTask, batch, build

SINPOS_ALL = {"position_encoding": "sinpos", "position_layers": "all"}
RELPOS_FIRST = {"position_encoding": "relpos", "relpos_layers": "first"}


def test_larger_local_shifts_need_an_explicit_word():
    model = build("cape_transformer_tiny", cape_local_shift=0.9, cape_allow_reordering=True)
    assert model.encoder.positions.augmentation.local_shift == 0.9


def test_a_built_model_leaves_every_option_resolved():
    """What a checkpoint stores says all: no None, no auto, numbers as numbers."""
    args = Namespace(arch="cape_transformer_tiny", source_scale="1.25")
    build_model(args, ToyTask())
    assert args.source_scale == 1.25
    assert args.source_bos == "on"
    assert (args.cape_global_shift, args.cape_local_shift, args.cape_global_scale) == (
        5.0,
        0.5,
        1.0,
    )
    assert args.cape_mean_normalize is False
    assert args.shape_max_shift == 500
    build_model(args, ToyTask())  # as when a checkpoint is loaded


@pytest.mark.parametrize(
    ("value", "expected"), [(True, "on"), (False, "off"), ("off", "off"), (None, "on")]
)
def test_on_and_off_may_come_as_booleans_from_yaml(value, expected):
    assert build("cape_transformer_tiny", source_bos=value).cfg.source_bos == expected


def test_cape_has_no_global_shift_by_default_where_it_means_nothing():
    model = build("rope_transformer_tiny", position_augmentation="cape")
    assert model.encoder.positions.augmentation == CAPE(global_shift=0.0, local_shift=0.5)


def test_whole_numbers_may_come_as_floats_from_yaml():
    model = build("relpos_transformer_tiny", relpos_max_distance=9.0)
    assert model.encoder.layers[0].self_attn.relative_keys.shape == (19, 32)


def test_options_win_over_the_preset():
    assert (
        build("cape_transformer_tiny", position_encoding="shape").cfg.position_encoding == "shape"
    )
    assert build("sinpos_transformer_tiny", encoder_layers=1).encoder.num_layers == 1


def test_a_checkpoint_with_such_an_option_still_loads():
    """Version 0.1.0 stored them without a word."""
    args = Namespace(arch="sinpos_transformer_tiny")
    build_model(args, ToyTask())
    args.cape_global_shift = 50.0
    assert build_model(args, ToyTask()).cfg.cape_global_shift == 50.0


@pytest.mark.parametrize("field", sorted({*names(*OWN_GROUPS)}))
def test_every_option_says_what_it_is(field):
    option = PositionalTransformerConfig.__dataclass_fields__[field]
    assert len(option.metadata["help"]) > 10


@pytest.mark.parametrize(
    ("given", "encoding"),
    [
        ({"encoder_learned_pos": True, "decoder_learned_pos": True}, "abspos"),
        ({"no_token_positional_embeddings": True}, "nopos"),
    ],
)
def test_fairseqs_own_options_mean_what_they_mean_there(given, encoding):
    """An existing command only changes its --arch."""
    model = build("sinpos_transformer_tiny", **given)
    assert model.cfg.position_encoding == encoding
    stock = build("transformer", **given)
    model.load_state_dict(stock.state_dict(), strict=True)
    source, target = batch([5, 3], True), batch([4, 2], False, end=False)
    real = target.ne(PAD)
    difference = model(source, None, target)[0][real] - stock(source, None, target)[0][real]
    assert difference.abs().max() < 1e-5


def test_local_shifts_that_can_swap_neighbours_are_named_with_their_share(caplog):
    """alpha 0.7: P(d > 0.7) of the triangular density on [-1, 1] is 0.3^2 / 2 = 4.5 %."""
    warn_of_reordering.cache_clear()
    with caplog.at_level(logging.WARNING):
        for scale in ("1.2", "0.7", "0.7"):
            model = build("cape_transformer_tiny", source_scale=scale)
            model.draw(batch([3], True), batch([3], False))
    assert caplog.text.count("4.50 % of neighbouring source tokens change places") == 1
    assert "a shift of 0.35 would keep" in caplog.text
    draw = CAPE(0.0, 0.5).draw(20_000, 2, 1, keyed_generator(1)).source.local_shift
    swapped = (0.7 + draw[:, 1] - draw[:, 0] < 0).float().mean().item()
    assert swapped == pytest.approx(0.045, abs=0.005)


class TwoDictionaries(ToyTask):
    """Source and target words are not the same."""

    def __init__(self) -> None:
        super().__init__()
        self.target_dictionary = ToyTask(30).target_dictionary


def test_tiny_shares_embeddings_only_where_the_dictionary_is_joined():
    args = Namespace(arch="sinpos_transformer_tiny")
    apart = build_model(args, TwoDictionaries())
    assert apart.encoder.embed_tokens.weight.shape != apart.decoder.embed_tokens.weight.shape
    joined = build("sinpos_transformer_tiny")
    assert joined.encoder.embed_tokens is joined.decoder.embed_tokens
    narrow = build("sinpos_transformer_tiny", decoder_embed_dim=64)
    assert narrow.decoder.embed_tokens.weight.size(1) == 64
    asked = Namespace(arch="sinpos_transformer_tiny", share_all_embeddings=True)
    with pytest.raises(ValueError, match="share-all-embeddings requires a joined dictionary"):
        build_model(asked, TwoDictionaries())


def test_a_model_knows_its_options():
    assert build("sinpos_transformer_tiny").args.arch == "sinpos_transformer_tiny"
