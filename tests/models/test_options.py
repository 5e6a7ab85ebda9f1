"""Options that make no sense are refused when the model is built, by name and value."""

import logging
from argparse import Namespace

import pytest
from fairseq.models import build_model

from cape_fairseq.encodings.options import names
from cape_fairseq.models.config import OWN_GROUPS, PositionalTransformerConfig
from cape_fairseq.positions import CAPE, keyed_generator
from tests.support import PAD, ToyTask, batch, build

SINPOS_ALL = {"position_encoding": "sinpos", "position_layers": "all"}
RELPOS_FIRST = {"position_encoding": "relpos", "relpos_layers": "first"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"cape_global_shift": -1.0},
            "--cape-global-shift is -1.0, but it must be a finite number of at least 0",
        ),
        ({"cape_global_shift": float("inf")}, "--cape-global-shift is inf"),
        ({"cape_global_shift": float("nan")}, "--cape-global-shift is nan"),
        ({"cape_local_shift": -0.1}, "--cape-local-shift is -0.1"),
        (
            {"cape_local_shift": 0.6},
            "--cape-local-shift is 0.6, but it must be at most 0.5.*--cape-allow-reordering",
        ),
        (
            {"cape_global_scale": 0.9},
            "--cape-global-scale is 0.9, but it must be a finite number of at least 1",
        ),
        (
            {"position_encoding": "shape", "shape_max_shift": -1},
            "--shape-max-shift is -1, but it must be an integer of at least 0",
        ),
        ({"source_scale": "0"}, "--source-scale is 0, but it must be a number above 0, or auto"),
        ({"source_scale": "-2"}, "--source-scale is -2"),
        ({"source_scale": "many"}, "--source-scale is many"),
        ({"source_scale": "nan"}, "--source-scale is nan"),
        (
            {"source_scale": "auto"},
            "--source-scale auto needs a translation task with data",
        ),
        ({"source_scale": 0}, "--source-scale is 0, but it must be a number above 0"),
        (
            {"position_encoding": "abspos", "source_scale": "1.3"},
            "--source-scale is 1.3, but it must be 1 with abspos",
        ),
        ({"source_bos": "yes"}, "--source-bos is yes, but it must be on or off"),
        (
            {"position_encoding": "sinus"},
            "--position-encoding is sinus, but it must be sinpos or abspos",
        ),
        (
            {"encoder_learned_pos": True, "decoder_learned_pos": True},
            "--encoder-learned-pos asks for abspos, but the architecture has cape",
        ),
        (
            {"position_encoding": "sinpos", "encoder_learned_pos": True},
            "--encoder-learned-pos and --decoder-learned-pos must be given together",
        ),
        (
            {"no_token_positional_embeddings": True},
            "--no-token-positional-embeddings asks for nopos, but the architecture has cape",
        ),
        ({"cross_self_attention": True}, "--cross-self-attention"),
        ({"position_layers": "some"}, "--position-layers is some, but it must be input or all"),
        (
            {"position_encoding": "relpos", "relpos_max_distance": 0},
            "--relpos-max-distance is 0, but it must be an integer of at least 1",
        ),
        (
            {"position_encoding": "relpos", "relpos_layers": "last"},
            "--relpos-layers is last, but it must be all or first",
        ),
        (
            {"position_encoding": "relpos", "relpos_terms": "values"},
            r"--relpos-terms is values, but it must be keys or keys\+values",
        ),
        (
            {"position_augmentation": "shape"},
            "--position-augmentation is shape, but it must be cape with",
        ),
        (
            {"position_encoding": "rope", "position_augmentation": "shape"},
            "--position-augmentation is shape, but it must be none or cape or randpos: rope sees "
            "only",
        ),
        (
            {
                "position_encoding": "alibi",
                "position_augmentation": "cape",
                "cape_global_shift": 5.0,
            },
            "--cape-global-shift is 5.0, but it must be 0: alibi sees only differences",
        ),
        (
            {
                "position_encoding": "rope",
                "position_augmentation": "cape",
                "cape_mean_normalize": True,
            },
            "--cape-mean-normalize is set, but it must be left out: rope sees only differences",
        ),
        (
            {"position_encoding": "rope", "position_augmentation": "cape", "cape_local_shift": 0.0},
            "--cape-local-shift is 0, but it must be above 0",
        ),
        (
            {"position_encoding": "sinpos", "position_augmentation": "cape"},
            "is cape, but it must be none or randpos: .* --position-encoding cape or shape",
        ),
        (
            {"position_encoding": "nopos", "position_augmentation": "shape"},
            "it must be none: there are no positions",
        ),
        (
            {"position_encoding": "relpos", "position_augmentation": "cape"},
            "none: relpos has whole distances",
        ),
        (
            {"position_encoding": "relpos", "source_scale": "1.2"},
            "--source-scale is 1.2, but it must be 1 with relpos",
        ),
        (
            {"position_encoding": "alibi", "position_layers": "all"},
            "--position-layers is all, but it must be input with alibi: it adds nothing",
        ),
        (
            {
                "position_encoding": "sinpos",
                "position_layers": "all",
                "encoder_layers_to_keep": "0,2",
            },
            "--encoder-layers-to-keep is 0,2, but it must be left out: sinusoids of every block",
        ),
        (
            {
                "position_encoding": "relpos",
                "relpos_layers": "first",
                "decoder_layers_to_keep": "1",
            },
            "--decoder-layers-to-keep is 1, but it must be with 0: relative positions are in",
        ),
        (
            {"position_encoding": "floater", "floater_step": 0.0},
            "--floater-step is 0.0, but it must be a number above 0",
        ),
        (
            {"position_encoding": "floater", "floater_solver": "rk5"},
            "--floater-solver is rk5, but it must be euler or",
        ),
        (
            {"position_encoding": "floater", "floater_solver_steps": 0.3},
            "--floater-solver-steps is 0.3, but it must be a whole number, or 1 / a whole",
        ),
        (
            {"position_encoding": "shape", "shape_max_shift": float("inf")},
            "--shape-max-shift is inf, but it must be an integer of at least 0",
        ),
        (
            {"position_encoding": "sinpos", "encoder_embed_dim": 2, "encoder_attention_heads": 1},
            "--encoder-embed-dim is 2, but it must be at least 4",
        ),
        (
            {
                "position_encoding": "floater",
                "floater_form": "additive",
                "floater_decoder_dynamics": "two",
            },
            "--floater-decoder-dynamics is two, but it must be one where biases of a cross-",
        ),
        (
            {
                "position_encoding": "floater",
                "floater_dynamics": "rnn-scalar",
                "floater_slope": "bounded",
            },
            "--floater-slope is bounded, but it must be free with --floater-dynamics other than",
        ),
        (
            {"position_encoding": "floater", "floater_refresh": 0},
            "--floater-refresh is 0, but it must be an integer of at least 1",
        ),
        (
            {"position_encoding": "floater", "floater_freeze": "transformer", "floater_refresh": 2},
            "--floater-refresh is 2, but it must be 1 with --floater-freeze transformer",
        ),
        (
            {
                "position_encoding": "floater",
                "floater_form": "additive",
                "position_layers": "all",
            },
            "--position-layers is all, but it must be input with FLOATER on nothing: its "
            "blocks are chosen with --floater-layers",
        ),
        (
            {
                "position_encoding": "floater",
                "floater_parent": "rope",
                "position_layers": "all",
            },
            "--position-layers is all, but it must be input with FLOATER on rope: it adds nothing",
        ),
        (
            {"position_encoding": "floater", "source_scale": "1.2"},
            "--source-scale is 1.2, but it must be 1 with floater",
        ),
        (
            {"position_encoding": "rope", "decoder_attention_heads": 128},
            r"is 128, but it must be an even multiple of --decoder-attention-heads \(128\)",
        ),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build("cape_transformer_tiny", **options)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"arch": "positional_transformer", "cape_global_shift": 50.0},
            "--cape-global-shift is given, but it means nothing with --position-encoding sinpos; "
            "it is an option of cape, rope with --position-augmentation cape, ",
        ),
        ({"arch": "sinpos_transformer_tiny", "cape_global_shift": 7.0}, "--cape-global-shift is"),
        (
            {"arch": "cape_transformer_tiny", "shape_max_shift": 7},
            "--shape-max-shift is given, .*-encoding cape; it is an option of shape, abspos with",
        ),
        ({"arch": "shape_transformer_tiny", "cape_mean_normalize": True}, "--cape-mean-normalize"),
        ({"arch": "rope_transformer_tiny", "cape_local_shift": 0.3}, "--cape-local-shift is given"),
        ({"arch": "cape_transformer_tiny", "floater_freeze": "transformer"}, "option of floater"),
        ({"arch": "sinpos_transformer_tiny", "t5_buckets": 8}, "it is an option of t5"),
        (
            {
                "arch": "positional_transformer",
                "position_encoding": "sinpos",
                "position_augmentation": "none",
                "position_layers": "input",
                "source_bos": "off",
                "cape_global_shift": 50.0,
            },
            "--cape-global-shift is given",
        ),
    ],
)
def test_options_of_another_encoding_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        build_model(Namespace(source_scale="1", **options), ToyTask())


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
    asked = Namespace(arch="sinpos_transformer_tiny", share_all_embeddings=True)
    with pytest.raises(ValueError, match="share-all-embeddings requires a joined dictionary"):
        build_model(asked, TwoDictionaries())


def test_a_model_knows_its_options():
    assert build("sinpos_transformer_tiny").args.arch == "sinpos_transformer_tiny"
