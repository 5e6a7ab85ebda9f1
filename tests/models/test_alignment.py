"""Target positions that follow the alignment, and the rule of the end."""

import math

import pytest
import torch

from cape_fairseq.modules.attention import KEY_CACHE
from cape_fairseq.tasks.text_search import TextGenerator
from tests.models.support import (
    CROSS,
    SCALE,
    SOURCE,
    TARGET,
    build_windows,
    decode,
    decode_in_steps,
)
from tests.support import EOS, PAD, make_batch


def follow_slowly(model, source, target, gain):
    """Positions of one text's tokens by the formula, from the weights of the last layer."""
    keys = SCALE * torch.arange(source.size(1)).double()
    found = []
    last = model.decoder.layers[-1].encoder_attn
    last.register_forward_hook(lambda module, args, out: found.append(out[1]))
    position, positions = 0.0, []
    with torch.no_grad():
        encoder_out, state = model.encoder(source), {}
        for i in range(target.size(1)):
            positions.append(position)
            model.decoder(target[:, : i + 1], encoder_out, state)
            assert math.isclose(
                float(encoder_out["source_state"].last), float(keys[-1]), rel_tol=1e-6
            )
            weights = found[-1][0, :, 0].double().mean(0)
            centroid = float((weights * keys).sum())
            follows = position < float(keys[-1])
            position = position + 1 + follows * gain * (centroid - position)
            position = max(position, 0.0)
            assert abs(float(state[KEY_CACHE].position) - position) < 1e-4
    return positions


class TestAlignment:
    @pytest.mark.parametrize("system", CROSS)
    def test_positions_follow_the_formula(self, system):
        model = build_windows(system, reach=4, alignment_gain=0.1)
        source, target = make_batch([10]), make_batch([40], begin=True)
        positions = follow_slowly(model, source, target, 0.1)
        assert max(abs(p - i) for i, p in enumerate(positions)) > 1
        assert positions[-1] > 9 * SCALE  # the target overruns its source

    def test_no_gain_is_the_number_of_the_token(self):
        source, target = make_batch(SOURCE, left=True), make_batch(TARGET, begin=True)
        steps, state = decode_in_steps(
            build_windows("rope_cross", cross=4, alignment_gain=0.0), source, target
        )
        assert state[KEY_CACHE].position is None
        whole = decode(build_windows("rope_cross", cross=4), source, target)
        real = target != PAD
        torch.testing.assert_close(steps[real], whole[real], atol=1e-5, rtol=0)

    @pytest.mark.parametrize("cross", [None, 4])
    def test_batches_equal_single_texts(self, cross):
        model = build_windows("rope_cross", cross=cross, alignment_gain=0.2)
        source, target = make_batch(SOURCE, left=True), make_batch(TARGET, begin=True)
        together, _ = decode_in_steps(model, source, target)
        padded = make_batch(TARGET, left=True, begin=True)
        shifted, _ = decode_in_steps(model, make_batch(SOURCE), padded)
        for row, (s, t) in enumerate(zip(source, target, strict=True)):
            real = t != PAD
            alone, _ = decode_in_steps(model, s[s != PAD][None], t[real][None])
            torch.testing.assert_close(together[row][real], alone[0], atol=1e-5, rtol=0)
            torch.testing.assert_close(
                shifted[row][padded[row] != PAD], alone[0], atol=1e-5, rtol=0
            )

    def test_positions_follow_the_hypotheses(self):
        """As in beam search: rows change places within a text, then a text ends."""
        model = build_windows("rope_cross", cross=4, alignment_gain=0.5)
        source = make_batch([12, 9], left=True)
        target = make_batch([8] * 4, begin=True)
        target[:, 1:4] = torch.randint(4, 60, (4, 3), generator=torch.Generator().manual_seed(3))
        rows = torch.tensor([0, 0, 1, 1])
        with torch.no_grad():
            encoder_out = model.encoder.reorder_encoder_out(model.encoder(source), rows)
            state = {}
            for i in range(4):
                model.decoder(target[:, : i + 1], encoder_out, state)
            for order in (torch.tensor([1, 0, 2, 2]), torch.tensor([3, 2])):
                target, rows = target[order], rows[order]
                encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
                model.decoder.reorder_incremental_state_scripting(state, order)
                length = 5 if len(order) == 4 else 6
                scores, _ = model.decoder(target[:, :length], encoder_out, state)
                for row in range(len(order)):
                    s = source[rows[row]]
                    alone, other = decode_in_steps(
                        model, s[s != PAD][None], target[row : row + 1, :length]
                    )
                    torch.testing.assert_close(scores[row, 0], alone[0, -1], atol=1e-5, rtol=0)
                    torch.testing.assert_close(
                        state[KEY_CACHE].position[row],
                        other[KEY_CACHE].position[0],
                        atol=1e-4,
                        rtol=0,
                    )

    @pytest.mark.parametrize("length", [1, 3, 60])
    def test_any_source_has_finite_scores(self, length):
        model = build_windows("rope_cross", cross=1, alignment_gain=1.0)
        scores, state = decode_in_steps(model, make_batch([length]), make_batch([40], begin=True))
        assert scores.isfinite().all()
        assert 0 <= float(state[KEY_CACHE].position) <= 80


class TestEnd:
    def mark_early(self, positions):
        """Where a text may not end, by the formula, for a source of 10 tokens and E = 3."""
        last = 9 * SCALE
        return [last - p > 3 and i < 1.5 * last for i, p in enumerate(positions)]

    @pytest.mark.parametrize("gain", [None, 0.1])
    def test_eos_waits_for_the_end_of_the_source(self, gain):
        """With an alignment and without one, where the position is the number of the token."""
        model = build_windows("rope_cross", reach=4, alignment_gain=gain, alignment_end=3.0)
        free = build_windows("rope_cross", reach=4, alignment_gain=gain, alignment_end=1e9)
        source, target = make_batch([10]), make_batch([30], begin=True)
        scores, _ = decode_in_steps(model, source, target)
        expected, _ = decode_in_steps(free, source, target)
        difference = expected - scores
        positions = range(30) if gain is None else follow_slowly(free, source, target, gain)
        is_early = self.mark_early(positions)
        assert any(is_early)
        torch.testing.assert_close(
            difference[0, :, EOS], 1e4 * torch.tensor(is_early).float(), atol=1e-2, rtol=0
        )
        difference[:, :, EOS] = 0
        assert not difference.any()

    def test_the_search_keeps_the_scores_of_the_model(self):
        """Those of other words are not raised, and EOS at the longest length is no cost."""
        model = build_windows("rope_cross", reach=4, alignment_end=3.0)
        with torch.no_grad():
            model.decoder.output_projection.weight[EOS] *= 3  # EOS would come early
        source = make_batch([10])
        net_input = {"src_tokens": source, "src_lengths": torch.tensor([10])}
        for longest in (30, 4):
            generator = TextGenerator(
                [model], model.decoder.dictionary, beam_size=2, max_len_b=longest
            )
            (found,) = generator.generate([model], {"net_input": net_input})
            for hypothesis in found:
                tokens = hypothesis["tokens"]
                length = len(tokens)
                assert length == 5 if longest == 4 else not self.mark_early(range(length))[-1]
                previous = torch.cat([tokens[-1:], tokens[:-1]])[None]
                scores, _ = decode_in_steps(model, source, previous, delays_end=False)
                expected = scores[0].log_softmax(1).gather(1, tokens[:, None])[:, 0]
                torch.testing.assert_close(
                    hypothesis["positional_scores"], expected, atol=1e-4, rtol=0
                )
