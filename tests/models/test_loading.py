"""Warm start, and the formats of checkpoints."""

import functools
import json
import logging

import pytest
import torch

from cape_fairseq.models.checkpoint import Identity, hash_words, read_dimensions
from tests.support import ENCODINGS, SYSTEMS, build, build_stock, make_batch

SOURCE, TARGET = make_batch([7, 3], left=True), make_batch([6, 6], begin=True)


def score(model):
    with torch.no_grad():
        return model.eval()(SOURCE, None, TARGET)[0].log_softmax(-1)


def load(model, other):
    """Load the parameters of another model, as fairseq's trainer does."""
    model.load_state_dict(other.state_dict(), strict=True)
    return model


@functools.cache
def build_parent(system):
    """A model that many others start from, and its scores."""
    model = build(system)
    return model, score(model)


def list_warnings(caplog):
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


class TestWarmStart:
    @pytest.mark.parametrize("system", SYSTEMS)
    def test_a_checkpoint_resumes_without_a_message(self, system, caplog):
        first, second = build(system), build(system, seed=2)
        caplog.clear()
        torch.testing.assert_close(score(load(second, first)), score(first))
        assert not caplog.records

    @pytest.mark.parametrize("target", [n for n in ENCODINGS if n != "floater"])
    @pytest.mark.parametrize("source", ["sinpos", "abspos", "cape", "relpos", "floater"])
    def test_any_encoding_starts_from_any(self, source, target, caplog):
        (parent, expected), model = build_parent(source), build(target, seed=2)
        caplog.clear()
        load(model, parent)
        found = score(model)
        is_same = torch.allclose(found, expected, atol=1e-5)
        if source != target:  # shape and sinpos, for instance, are the same without noise
            assert len(list_warnings(caplog)) == 1 or (is_same and not list_warnings(caplog))
        shared = [
            n for n, _ in parent.named_parameters() if ".positions." not in n and "kernel" not in n
        ]
        for name in shared:
            assert torch.equal(model.state_dict()[name], parent.state_dict()[name]), name
        assert found.isfinite().all()

    @pytest.mark.parametrize(
        "base", [s for s in SYSTEMS if "floater" not in s and "randpos" not in s]
    )
    def test_floater_starts_from_every_encoding_without_a_change(self, base):
        """Source scale, source BOS and noise of the base are kept."""
        options = {**SYSTEMS[base], "floater_base_encoding": base.partition("-")[0]}
        parent = build(base)
        if parent.encoder.encoding.real_valued:
            parent.encoder.source_scale.fill_(1.3)
        model = build("floater", seed=2, **options)
        for side in (model.encoder, model.decoder):
            torch.nn.init.zeros_(side.encoding.dynamics.outer.weight)
        load(model, parent)
        torch.testing.assert_close(score(model), score(parent), atol=2e-5, rtol=1e-4)
        model.train(), parent.train()
        torch.manual_seed(3)
        noise = model.sample_noise(SOURCE, TARGET)
        torch.manual_seed(3)
        for one, other in zip(noise, parent.sample_noise(SOURCE, TARGET), strict=True):
            assert (one is None) == (other is None)
            assert one is None or all(map(torch.equal, one, other))

    @pytest.mark.parametrize("learned", [False, True])
    @pytest.mark.parametrize("target", ["sinpos", "cape", "rope_cross", "relpos", "abspos"])
    def test_stock_checkpoints_load(self, target, learned):
        stock = build_stock(encoder_learned_pos=learned, decoder_learned_pos=learned)
        model = load(build(target, seed=2), stock)
        same = target == ("abspos" if learned else "sinpos")
        assert torch.allclose(score(model), score(stock), atol=1e-5) == same

    def test_the_inference_path_of_fairseq_0_12_2_is_left_out(self):
        state = build_stock().state_dict()
        state["encoder.layers.0.in_proj_weight"] = torch.zeros(3)
        build("sinpos").load_state_dict(state, strict=True)

    @pytest.mark.parametrize(
        ("system", "option", "value"),
        [
            ("rope", "rope_base", 500.0),
            ("t5", "t5_max_distance", 64),
            ("relpos", "relpos_max_distance", 5),
            ("floater", "floater_nonlinearity", "relu"),
            ("floater", "floater_base_encoding", "alibi"),
        ],
    )
    def test_options_that_change_the_meaning_of_parameters_are_errors(self, system, option, value):
        with pytest.raises(ValueError, match=option.replace("_", "-")):
            load(build(system, **{option: value}), build(system))

    def test_floater_needs_the_base_encoding_of_the_checkpoint(self):
        with pytest.raises(ValueError, match="floater-base-encoding cape"):
            load(build("floater"), build("cape"))

    def test_other_differences_fail(self):
        state = build("cape").state_dict()
        del state["encoder.layers.0.fc1.weight"]
        with pytest.raises(RuntimeError, match="fc1"):
            build("sinpos").load_state_dict(state, strict=True)

    def test_residual_weights_of_a_checkpoint_need_admin(self):
        parent = build("sinpos", residual_init="admin", is_profiled=True)
        with pytest.raises(ValueError, match="--residual-init admin"):
            load(build("sinpos"), parent)

    def test_tables_of_another_length_are_an_error(self):
        with pytest.raises(ValueError, match="--max-target-positions 40"):
            load(build("abspos"), build("abspos", max_target_positions=40))
        floater = build("floater", floater_base_encoding="abspos")
        with pytest.raises(ValueError, match="--max-target-positions 40"):
            load(floater, build("abspos", max_target_positions=40))
        with pytest.raises(ValueError, match="--max-source-positions"):  # a BOS has a row
            load(build("abspos", source_bos="on"), build("abspos"))

    def test_an_adaptive_softmax_with_shared_embeddings(self):
        """fairseq adds an output projection to such checkpoints, which the model lacks."""
        options = {"share_all_embeddings": True, "adaptive_softmax_cutoff": "20,40"}
        model, parent = build("cape", **options), build("cape", seed=2, **options)
        model.load_state_dict(parent.state_dict(), strict=True)
        for key, value in parent.state_dict().items():
            assert torch.equal(model.state_dict()[key], value)

    def test_missing_residual_weights_are_1(self):
        model = build("sinpos", residual_init="admin", is_profiled=True)
        for name, parameter in model.named_parameters():
            if "omega" in name:
                torch.nn.init.constant_(parameter, 3.0)
        parent = build("sinpos", seed=2)
        torch.testing.assert_close(score(load(model, parent)), score(parent))


class TestFormats:
    def make_former(self, system):
        """The state of version 1.2.0.dev0: position options, and a hash for each word."""
        parent = build(system)
        state, identity = parent.state_dict(), Identity.of(parent)
        del state["identity"]
        text = json.dumps({**identity.options, "base": identity.base})
        state["encoder.position_options"] = torch.tensor(list(text.encode()))
        for side in ("encoder", "decoder"):
            dictionary = getattr(parent, side).dictionary
            state[f"{side}.words"] = hash_words(dictionary)
        return parent, state

    @pytest.mark.parametrize("system", ["cape-mean", "floater-rope_cross"])
    def test_the_former_one_loads_without_a_message(self, system, caplog):
        parent, state = self.make_former(system)
        model = build(system, seed=2)
        caplog.clear()
        model.load_state_dict(state, strict=True)
        torch.testing.assert_close(score(model), score(parent))
        assert not caplog.records

    def test_models_of_documents_are_errors(self):
        """Of version 1.1 or 1.2.0.dev0."""
        model = build("rope_cross")
        state, identity = model.state_dict(), Identity.of(model)
        former = {"target_context": None, "sentence_cross_context": 0}
        for context, is_allowed in ((None, True), (0, False), (1, False)):
            options = {**identity.options, **former, "sentence_context": context}
            state["identity"] = identity._replace(options=options).encode()
            if is_allowed:
                model.load_state_dict(state, strict=True)
            else:
                with pytest.raises(ValueError, match=r"version 1\.1"):
                    model.load_state_dict(state, strict=True)

    def test_sides_of_hydra_do_not_replace_options(self):
        stored = {"encoder_embed_dim": 512, "encoder": {"embed_dim": 64, "layers": 2}}
        found = read_dimensions(stored)
        assert found["encoder_embed_dim"] == 512
        assert found["encoder_layers"] == 2

    def test_an_older_and_a_later_one_are_errors(self):
        model, (_, state) = build("cape"), self.make_former("cape")
        del state["encoder.words"]
        with pytest.raises(ValueError, match="older"):
            model.load_state_dict(state, strict=True)
        state = build("cape").state_dict()
        text = bytes(state["identity"].tolist()).replace(b'"format": 1', b'"format": 99')
        text = text.replace(b'{"source": [', b'{"source": [1, ')  # more than now
        state["identity"] = torch.tensor(list(text))
        with pytest.raises(ValueError, match="later version"):
            model.load_state_dict(state, strict=True)
