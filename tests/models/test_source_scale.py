"""The source scale: which one counts, and what it does."""

import logging

import pytest
import torch

from tests.models.test_loading import list_warnings, load, score
from tests.support import build, build_stock


class TestSourceScale:
    def with_scale(self, scale: float, system: str = "cape", **options):
        model = build(system, **options)
        model.encoder.source_scale.fill_(scale)
        return model

    def test_the_checkpoints_number_wins_over_a_counted_one(self, caplog):
        model, parent = self.with_scale(1.1), self.with_scale(1.2)
        caplog.clear()
        load(model, parent)
        assert float(model.encoder.source_scale) == pytest.approx(1.2)
        assert not list_warnings(caplog)  # nothing changed

    def test_a_given_number_wins_over_the_checkpoints(self, caplog):
        model = load(build("cape", source_scale="1.5"), self.with_scale(1.2))
        assert float(model.encoder.source_scale) == pytest.approx(1.5)
        assert sum("1.2" in r.getMessage() for r in caplog.records) == 1

    @pytest.mark.parametrize("stock", [False, True])
    def test_a_default_1_does_not_count(self, stock, caplog):
        """From a model with scale 1 by default, rope_cross counts; so it does from a stock one."""
        parent = build_stock() if stock else build("sinpos")
        model = load(self.with_scale(1.3, "rope_cross"), parent)
        assert float(model.encoder.source_scale) == pytest.approx(1.3)
        again = self.with_scale(1.3, "rope_cross")
        caplog.clear()
        load(again, model)
        assert not caplog.records

    def test_a_counted_scale_is_kept_by_an_encoding_without_one(self, caplog):
        parent = self.with_scale(1.3, "rope_cross")
        model = load(build("sinpos"), parent)
        assert float(model.encoder.source_scale) == pytest.approx(1.3)
        again = build("sinpos")
        caplog.clear()
        load(again, model)
        assert float(again.encoder.source_scale) == pytest.approx(1.3)
        assert not list_warnings(caplog)

    def test_auto_given_wins_over_the_checkpoints(self):
        model = build("cape", source_scale="auto", source_scale_counted=1.4)
        load(model, self.with_scale(1.2))
        assert float(model.encoder.source_scale) == pytest.approx(1.4)

    def test_a_given_1_is_inherited_by_all_descendants(self):
        model = build("cape", source_scale="1")
        for _ in range(2):  # the option is the first model's only
            model = load(self.with_scale(0.9), model)
            assert float(model.encoder.source_scale) == 1

    def test_the_log_has_the_checkpoints_number(self, caplog):
        with caplog.at_level(logging.INFO):
            load(self.with_scale(1.1), self.with_scale(1.2))
        assert sum("1.2000" in record.getMessage() for record in caplog.records) == 1

    def test_rounding_is_no_other_number(self, caplog):
        """--store-ema averages it in every update."""
        model, parent = self.with_scale(1.2), self.with_scale(1.2 + 1e-7)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            load(model, parent)
        assert not caplog.records

    def test_randomized_positions_have_1(self):
        model = load(build("sinpos-randpos"), self.with_scale(1.2, "sinpos"))
        assert float(model.encoder.source_scale) == 1

    def test_integer_positions_have_1(self):
        model = load(build("relpos"), self.with_scale(1.2))
        assert float(model.encoder.source_scale) == 1

    def test_auto_without_data_is_1_with_one_warning(self, caplog):
        assert float(build("cape").encoder.source_scale) == 1
        assert sum("source-scale" in r.getMessage() for r in caplog.records) == 1

    def test_it_multiplies_the_distance_from_the_first_token(self):
        model = build("sinpos", source_scale="1.25")
        numbers = torch.arange(4.0)[None]
        assert model.encoder.scale_positions(numbers).tolist() == [[0, 1.25, 2.5, 3.75]]
        assert torch.equal(model.decoder.scale_positions(numbers), numbers)

    def test_relative_encodings_see_scaled_distances(self):
        """A bias of ALiBi is its slope times the distance."""
        scaled, plain = build("alibi", source_scale="2"), build("alibi")
        plain.encoder.encoding.slopes *= 2
        torch.testing.assert_close(score(scaled), score(plain), atol=1e-5, rtol=0)

    def test_half_precision_keeps_it(self):
        model = build("sinpos", source_scale="1.0337").half()
        assert float(model.encoder.source_scale) == pytest.approx(1.0337)
        assert model.encoder.scale_positions(torch.tensor([1000.0])) == pytest.approx(1033.7)
