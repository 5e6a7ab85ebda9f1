"""sinpos, abspos, cape, shape and randpos against NumPy and fairseq."""

import numpy as np
import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding

from cape_fairseq.positions.layout import count_tokens
from cape_fairseq.positions.randpos import RandomPositions, RandposConfig
from cape_fairseq.positions.shape import ShapeNoise
from cape_fairseq.positions.sinusoidal import sinusoid
from tests.support import PAD, build, build_encoding, make_batch

LENGTHS = [7, 4, 1]


def numpy_sinusoid(positions: np.ndarray, dim: int) -> np.ndarray:
    half = dim // 2
    frequencies = 10000.0 ** (-np.arange(half) / (half - 1))
    angles = positions[..., None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


@pytest.mark.parametrize("dim", [4, 16, 17])
def test_sinusoids_equal_fairseqs_table(dim):
    table = SinusoidalPositionalEmbedding.get_embedding(200, dim, PAD)
    positions = torch.arange(2.0, 200)
    torch.testing.assert_close(sinusoid(positions, dim), table[2:], atol=1e-6, rtol=0)


def test_vaswanis_sinusoids_are_those_of_the_notebook():
    """Section 3.5 of the paper; the notebook's dot product at a distance of 10."""
    positions = torch.arange(100.0)
    table = sinusoid(positions, 512, "vaswani")
    for k in (0, 1, 255):
        angles = positions * 10000 ** (-2 * k / 512)
        torch.testing.assert_close(table[:, k], angles.sin(), atol=1e-4, rtol=0)
        torch.testing.assert_close(table[:, 256 + k], angles.cos(), atol=1e-4, rtol=0)
    assert table[32] @ table[42] == pytest.approx(173.790, abs=1e-3)
    (first,) = build_encoding("sinpos", sinusoid="vaswani").embed(positions[None, :1])
    assert first[0, 0].tolist() == [0] * 8 + [1] * 8


def test_every_layer_adds_the_sinusoid_of_its_number():
    encoding = build_encoding("sinpos", layers=3, position_layers="all")
    layers = encoding.embed(torch.arange(5.0)[None])
    for number, embedded in enumerate(layers, 1):  # FLOATER, Eq. 7
        expected = numpy_sinusoid(np.arange(5) + 2.0, 16) + numpy_sinusoid(np.array(number), 16)
        np.testing.assert_allclose(embedded[0], expected, atol=1e-5)


def augment_cape(positions, mask, shift, local, scale, mean):
    """Equations 5 to 7 of CAPE, row by row."""
    rows = []
    for i in range(len(positions)):
        row = positions[i].copy()
        if mean:
            row = row - row[~mask[i]].mean()
        rows.append((row + shift[i] + local[i]) * scale[i])
    return np.stack(rows)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_cape_equals_the_papers_equations(left, mean):
    encoding = build_encoding("cape", cape_mean_normalize=mean, cape_global_scale=1.5)
    mask = make_batch(LENGTHS, left).eq(PAD)
    noise, _ = encoding.sample(3, 7, 5, torch.Generator().manual_seed(1))
    positions = count_tokens(mask).expand(3, -1) * 1.1
    statistic = encoding.compute_statistic(positions, mask)
    ours = encoding.augment(positions, mask, noise, statistic)
    shift, local, scale = (x.numpy() for x in noise)
    theirs = augment_cape(positions.numpy(), mask.numpy(), shift, local, scale, mean)
    np.testing.assert_allclose(ours.numpy()[~mask.numpy()], theirs[~mask.numpy()], atol=1e-5)


def test_cape_noise_is_shared_by_a_pair_and_has_its_limits():
    encoding = build_encoding("cape", cape_global_shift=3.0, cape_global_scale=2.0)
    source, target = encoding.sample(4000, 3, 2, torch.Generator().manual_seed(1))
    assert torch.equal(source[0], target[0])
    assert torch.equal(source[2], target[2])
    shift, local, scale = source
    assert shift.abs().max() <= 3 < shift.abs().max() + 0.01
    assert abs(shift.std() - 3 / 3**0.5) < 0.05  # of a uniform distribution
    assert local.shape == (4000, 3)
    assert 0.49 < local.abs().max() <= 0.5
    logs = scale.log() / np.log(2)
    assert logs.abs().max() <= 1
    assert abs(logs.std() - 1 / 3**0.5) < 0.02


def test_cape_subtracts_the_source_mean_on_the_target_side():
    encoding = build_encoding("cape", side="decoder", cape_mean_normalize=True)
    positions = torch.arange(4.0)[None]
    moved = encoding.augment(
        positions, torch.zeros(1, 4, dtype=torch.bool), None, torch.tensor([[7.0]])
    )
    assert moved.tolist() == [[-7, -6, -5, -4]]
    np.testing.assert_allclose(
        encoding.embed(moved)[0][0], numpy_sinusoid(np.arange(-7.0, -3), 16), atol=1e-5
    )


def test_shape_shifts_are_integers_from_0_to_k_on_each_side():
    encoding = build_encoding("shape", shape_max_shift=3)
    (source,), (target,) = encoding.sample(2000, 5, 5, torch.Generator().manual_seed(1))
    assert sorted(source.unique().tolist()) == [0, 1, 2, 3]
    assert 0.2 < (source == target).float().mean() < 0.3  # independent: 1/4
    mask = torch.zeros(2000, 5, dtype=torch.bool)
    moved = encoding.augment(count_tokens(mask), mask, ShapeNoise(source))
    assert torch.equal(moved, torch.arange(5.0) + source)


class TestRandpos:
    encoding = RandomPositions(RandposConfig(randpos_range=20))

    @pytest.mark.parametrize("left", [False, True])
    def test_positions_are_sorted_distinct_and_cover_the_range(self, left):
        mask = make_batch(LENGTHS, left).eq(PAD)
        seen = [[] for _ in LENGTHS]
        for seed in range(300):
            (noise, _) = self.encoding.sample(3, 7, 7, torch.Generator().manual_seed(seed))
            moved = self.encoding.augment(count_tokens(mask), mask, noise)
            for row, real, values in zip(moved, ~mask, seen, strict=True):
                assert (row[real].diff() > 0).all()
                values.extend(row[real].tolist())
        for values, length in zip(seen, LENGTHS, strict=True):  # of every length the whole range
            assert set(values) == set(range(20)), length
            assert abs(np.mean(values) - 9.5) < 1

    def test_evaluation_spaces_tokens_by_the_source_length(self):
        mask = torch.zeros(1, 4, dtype=torch.bool)
        moved = self.encoding.augment(count_tokens(mask), mask, None, torch.tensor([[4.0]]))
        assert moved.tolist() == [[0, 2, 4, 6]]  # floor(i * 20 / 10)
        moved = self.encoding.augment(count_tokens(mask), mask, None, torch.tensor([[30.0]]))
        assert moved.tolist() == [[0, 1, 2, 3]]

    def test_relative_encodings_see_spaced_positions_in_evaluation(self):
        """A bias of ALiBi is its slope times the distance."""
        source, target = make_batch([4]), make_batch([4], begin=True)
        spaced, plain = build("alibi-randpos", randpos_range=20), build("alibi")
        for side in (plain.encoder, plain.decoder):
            side.encoding.slopes *= 2  # 20 / (2 * (4 + 1))
        scores = [model(source, None, target)[0] for model in (spaced, plain)]
        torch.testing.assert_close(*scores, atol=1e-5, rtol=0)

    def test_longer_sentences_are_rejected(self):
        mask = torch.zeros(1, 21, dtype=torch.bool)
        noise, _ = self.encoding.sample(1, 21, 21, torch.Generator())
        with pytest.raises(ValueError, match="21"):
            self.encoding.augment(count_tokens(mask), mask, noise)
