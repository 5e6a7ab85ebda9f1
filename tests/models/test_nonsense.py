"""Options that make no sense are refused, by a sentence that says what does."""

from argparse import Namespace

import pytest
from fairseq.models import build_model

from tests.support import ToyTask, build


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
        (
            {"shift_probability": 1.5},
            "--shift-probability is 1.5, but it must be at most 1: it is a share",
        ),
        (
            {"shift_near": 3.0},
            "--shift-near is 3.0, but it must be 0 without --shift-probability",
        ),
        (
            {"shift_near": 6.0, "shift_probability": 0.3},
            "--shift-near is 6.0, but it must be at most 5, the largest shift",
        ),
        (
            {"position_encoding": "shape", "shift_near": 0.9, "shift_probability": 0.3},
            "--shift-near is 0.9, but it must be a whole number, as SHAPE's shifts are",
        ),
        (
            {"cape_global_shift": 0.0, "shift_warmup": 100},
            "--shift-warmup is 100, but it must be 0 where the largest shift is 0",
        ),
        (
            {
                "position_encoding": "rope",
                "position_augmentation": "cape",
                "cape_global_shift": 0.0,
                "shift_probability": 0.5,
            },
            "--shift-probability is 0.5, but it must be 1 with rope, whose positions are not",
        ),
        (
            {
                "position_encoding": "rope",
                "position_augmentation": "cape",
                "cape_global_shift": 0.0,
                "shift_warmup": 5,
            },
            "--shift-warmup is 5, but it must be 0 with rope, whose positions are not shifted",
        ),
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
            "--position-augmentation is shape, but it must be none or cape or randpos with "
            "--position-encoding rope: rope sees "
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
            {
                "position_encoding": "rope",
                "position_augmentation": "randpos",
                "rope_attention": "self+cross",
            },
            r"--rope-attention is self\+cross, but it must be self with --position-augmentation",
        ),
        (
            {
                "position_encoding": "rope",
                "rope_attention": "self+cross",
                "no_cross_attention": True,
            },
            r"--rope-attention is self\+cross, but it must be self with --no-cross-attention",
        ),
        (
            {"position_encoding": "rope", "position_augmentation": "cape", "cape_local_shift": 0.0},
            "--cape-local-shift is 0, but it must be above 0",
        ),
        (
            {"position_encoding": "sinpos", "position_augmentation": "cape"},
            "is cape, but it must be none or randpos with .* --position-encoding cape or shape",
        ),
        (
            {"position_encoding": "nopos", "position_augmentation": "shape"},
            "it must be none with --position-encoding nopos: there are no positions",
        ),
        (
            {"position_encoding": "relpos", "position_augmentation": "cape"},
            "none with --position-encoding relpos: relpos has whole distances",
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
            {
                "position_encoding": "floater",
                "floater_layers": "input",
                "encoder_layers_to_keep": "1",
            },
            "--encoder-layers-to-keep is 1, but it must be with 0: FLOATER's biases are in",
        ),
        (
            {
                "position_encoding": "fire",
                "position_augmentation": "cape",
                "cape_global_shift": 5.0,
            },
            "--cape-global-shift is 5.0, but it must be 0: fire counts the tokens of a sentence",
        ),
        ({"base_layers": 1}, "--base-layers is set, but it must be left out: layers of experts"),
        (
            {"position_encoding": "floater", "floater_step": 0.0},
            "--floater-step is 0.0, but it must be a number above 0",
        ),
        (
            {"position_encoding": "floater", "floater_solver": "rk5"},
            "--floater-solver is rk5, but it must be euler or",
        ),
        (
            {
                "position_encoding": "floater",
                "floater_solver": "dopri5",
                "floater_solver_steps": 2.0,
            },
            "--floater-solver-steps is given, but it means nothing with the other options",
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
            {
                "position_encoding": "floater",
                "floater_dynamics": "rnn-vector",
                "floater_solver": "dopri5",
            },
            "--floater-solver is given, but it means nothing with the other options of floater",
        ),
        (
            {
                "position_encoding": "floater",
                "floater_freeze": "dynamics",
                "floater_lr_scale": 0.1,
            },
            "--floater-lr-scale is given, but it means nothing with the other options of floater",
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
