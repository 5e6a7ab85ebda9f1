"""The source scale: which one counts, and what it does."""

import pytest
import torch

from tests.models.test_loading import list_warnings, load, score
from tests.support import build, build_stock


class TestSourceScale:
    @pytest.mark.parametrize(
        ("child", "given", "parent", "stored", "expected"),
        [
            ("cape", {}, "cape", 1.2, 1.2),
            ("cape", {"source_scale": "1.5"}, "cape", 1.2, 1.5),
            ("cape", {"source_scale": "auto", "source_scale_counted": 1.4}, "cape", 1.2, 1.4),
            ("rope_cross", {"source_scale_counted": 1.3}, "sinpos", None, 1.3),
            ("rope_cross", {"source_scale_counted": 1.3}, "stock", None, 1.3),
            ("sinpos", {}, "rope_cross", 1.3, 1.3),  # an encoding without one keeps it
            ("sinpos-randpos", {}, "sinpos", 1.2, 1.0),
            ("relpos", {}, "cape", 1.2, 1.0),  # integer positions
        ],
    )
    def test_which_one_counts(self, child, given, parent, stored, expected, caplog):
        """Of a model that then loads a child of its own, there is no message."""
        parent = build_stock() if parent == "stock" else build(parent)
        if stored is not None:
            parent.encoder.source_scale.fill_(stored)
        model = load(build(child, **given), parent)
        assert float(model.encoder.source_scale) == pytest.approx(expected)
        again = build(child, **given)
        caplog.clear()
        load(again, model)
        assert float(again.encoder.source_scale) == pytest.approx(expected)
        assert not list_warnings(caplog)

    def test_a_given_1_is_inherited_by_all_descendants(self):
        model = build("cape", source_scale="1")
        for _ in range(2):  # the option is the first model's only
            child = build("cape")
            child.encoder.source_scale.fill_(0.9)
            model = load(child, model)
            assert float(model.encoder.source_scale) == 1

    def test_it_multiplies_the_distance_from_the_first_token(self):
        model = build("sinpos", source_scale="1.25")
        numbers = torch.arange(4.0)[None]
        assert model.encoder.scale_positions(numbers).tolist() == [[0, 1.25, 2.5, 3.75]]
        assert torch.equal(model.decoder.scale_positions(numbers), numbers)
        model = build("sinpos", source_scale="1.0337").half()
        assert model.encoder.scale_positions(torch.tensor([1000.0])) == pytest.approx(1033.7)

    def test_relative_encodings_see_scaled_distances(self):
        """A bias of ALiBi is its slope times the distance."""
        scaled, plain = build("alibi", source_scale="2"), build("alibi")
        plain.encoder.encoding.slopes *= 2
        torch.testing.assert_close(score(scaled), score(plain), atol=1e-5, rtol=0)
