"""Options: values that are not allowed, defaults, and what the training log says."""

import math
from argparse import Namespace

import pytest
from fairseq.models import ARCH_CONFIG_REGISTRY

from tests.support import ENCODINGS, build


class TestOptions:
    @pytest.mark.parametrize(
        ("system", "options", "words"),
        [
            ("sinpos", {"randpos_range": 5}, "randpos"),
            ("abspos", {"source_scale": "auto"}, "source-scale"),
            ("sinpos", {"source_scale": "fast"}, "fast"),
            ("rope", {"position_layers": "all"}, "position-layers"),
            ("cape", {"position_augmentation": "randpos"}, "randpos"),
            ("sinpos-randpos", {"source_scale": "1.2"}, "source-scale"),
            ("cape", {"cape_global_scale": 0.5}, "global-scale"),
            ("rope", {"encoder_attention_heads": 32}, "even"),
            ("floater", {"floater_base_encoding": "floater"}, "floater-base-encoding"),
            ("floater", {"floater_form": "additive", "floater_base_encoding": "rope"}, "base"),
            ("floater", {"floater_share": "both", "decoder_embed_dim": 64}, "floater-share"),
            ("sinpos", {"encoder_xformers_att_config": "{}"}, "xformers"),
            ("sinpos", {"residual_init": "admin", "encoder_normalize_before": True}, "normalize"),
            ("sinpos", {"cape_global_shift": 0.0}, "cape"),  # zero is a value, too
            ("rope", {"rope_training_length": 100}, "rope-training-length"),
            ("floater", {"floater_base_encoding": "t5", "t5_buckets": 7}, "t5-buckets"),
            ("floater", {"floater_dynamics": "rnn-scalar", "floater_solver": "midpoint"}, "solver"),
            ("floater", {"floater_solver": "euler"}, "solver"),
            ("floater", {"floater_solver_steps": 1.5}, "steps"),
            ("rope", {"cross_attention_window": 4}, "cross-attention-window"),
            ("sinpos", {"alignment_gain": 0.1}, "alignment-gain"),
            ("rope_cross", {"attention_window": 0}, "attention-window"),
            ("rope_cross", {"attention_window": 2.5}, "attention-window"),
            ("rope_cross", {"attention_window": True}, "attention-window"),
            ("rope_cross", {"alignment_gain": 1.1}, "alignment-gain"),
            ("rope_cross", {"alignment_end": math.nan}, "alignment-end"),
            ("rope_cross", {"attention_window": "20"}, "attention-window"),
            ("rope_cross", {"alignment_end": 1.0, "no_cross_attention": True}, "alignment-end"),
            ("rope_cross", {"alignment_gain": 0.1, "no_cross_attention": True}, "alignment-gain"),
        ],
    )
    def test_options_that_do_not_fit_are_errors(self, system, options, words):
        with pytest.raises(ValueError, match=words):
            build(system, **options)

    @pytest.mark.parametrize("name", ENCODINGS)
    def test_every_size_builds_from_stored_options(self, name):
        sizes = [arch for arch in ARCH_CONFIG_REGISTRY if arch.startswith(f"{name}_transformer")]
        assert len(sizes) == 9
        for arch in sizes:
            args = Namespace(arch=arch)
            ARCH_CONFIG_REGISTRY[arch](args)
            before = dict(vars(args))
            ARCH_CONFIG_REGISTRY[arch](args)  # as fairseq does when it loads a checkpoint
            assert vars(args) == before
            assert args.position_encoding == name
