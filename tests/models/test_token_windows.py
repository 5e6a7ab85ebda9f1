"""Windows of tokens in self- and cross-attention."""

import pytest
import torch
from torch.nn import functional as F

from cape_fairseq.modules import windows
from cape_fairseq.modules.attention import KEY_CACHE
from tests.models.support import (
    CROSS,
    SCALE,
    SOURCE,
    TARGET,
    build_windows,
    decode,
    decode_in_steps,
)
from tests.support import PAD, SYSTEMS, build, make_batch

PADDED = [(name, True) for name in SYSTEMS]
PADDED += [(name, False) for name in ("sinpos", "relpos", "t5", "rope_cross", "floater-rope_cross")]


class TestWindows:
    @pytest.mark.parametrize(("system", "left"), PADDED)
    def test_steps_blocks_and_single_rows_equal_the_parallel_pass(self, system, left, monkeypatch):
        model = build_windows(system, cross=4)
        source = make_batch(SOURCE, left)
        target = make_batch(TARGET, begin=True)
        real = target != PAD
        whole = decode(model, source, target)
        steps, state = decode_in_steps(model, source, target)
        torch.testing.assert_close(steps[real], whole[real], atol=1e-5, rtol=0)
        for states in state[KEY_CACHE].states.values():
            assert states.size(3) == 4  # N + 1
        for row, (s, t) in enumerate(zip(source, target, strict=True)):
            alone = decode(model, s[s != PAD][None], t[t != PAD][None])[0]
            torch.testing.assert_close(whole[row][t != PAD], alone, atol=1e-5, rtol=0)
        monkeypatch.setattr(windows, "MAX_LENGTH", 4)
        monkeypatch.setattr(windows, "BLOCK", 5)
        blocks = decode(model, source, target)
        torch.testing.assert_close(blocks[real], whole[real], atol=1e-5, rtol=0)

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_windows_of_the_whole_text_are_none(self, system):
        source, target = make_batch(SOURCE, left=True), make_batch(TARGET, begin=True)
        expected = decode(build(system), source, target)
        model = build_windows(system, reach=19, cross=40)
        if system in CROSS:
            model.encoder.source_scale.fill_(1.0)
        torch.testing.assert_close(decode(model, source, target), expected, atol=1e-5, rtol=0)

    @pytest.mark.parametrize("system", ["sinpos", "relpos", "alibi", "rope_cross"])
    def test_tokens_outside_of_the_windows_change_nothing(self, system):
        """Two layers of N = 3 reach 6 source tokens, and 3 of the targets of the first layer."""
        model = build_windows(system, cross=4)
        source, target = make_batch([30]), make_batch([30], begin=True)
        expected = decode(model, source, target)
        other = target.clone()
        other[0, 10] = 9 if target[0, 10] != 9 else 8
        changed = (decode(model, source, other) - expected).abs().amax(2)[0] > 1e-5
        assert changed.nonzero().flatten().tolist() == list(range(10, 17))
        if system == "rope_cross":
            other = source.clone()
            other[0, 20] = 9 if source[0, 20] != 9 else 8
            changed = (decode(model, other, target) - expected).abs().amax(2)[0] > 1e-5
            # Keys 14 to 26 change, at 18.2 to 33.8; two layers pass it on to 6 later tokens.
            assert changed.nonzero().flatten().tolist() == list(range(15, 30))

    @pytest.mark.parametrize(
        ("scale", "cross"), [(1.1, 11), (1.2, 3), (1.2, 12), (1.6, 8), (2.2, 11), (0.55, 11)]
    )
    def test_steps_see_keys_on_the_edge_of_the_window(self, scale, cross):
        """2 M / scale is whole, and scale a little more in single precision."""
        model = build_windows("rope_cross", reach=50, cross=cross)
        model.encoder.source_scale.fill_(scale)
        source, target = make_batch([60]), make_batch([40], begin=True)
        steps, _ = decode_in_steps(model, source, target)
        torch.testing.assert_close(steps, decode(model, source, target), atol=1e-5, rtol=0)

    def test_cross_attention_equals_a_slow_rewrite(self):
        model = build_windows("rope_cross", reach=50, cross=2, decoder_layers=1)
        source, target = make_batch([9]), make_batch([15], begin=True)
        seen = {}
        attention = model.decoder.layers[0].encoder_attn
        attention.register_forward_hook(lambda module, args, out: seen.update(args=args, out=out))
        decode(model, source, target)
        query, key, _ = seen["args"][:3]
        q, k, v = (
            layer(x)[:, 0].unflatten(-1, (4, 8)).double().detach()
            for layer, x in (
                (attention.q_proj, query),
                (attention.k_proj, key),
                (attention.v_proj, key),
            )
        )
        frequencies = 10000 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)

        def rotate(x, position):
            pairs = torch.view_as_complex(x.unflatten(-1, (4, 2)).contiguous())
            return torch.view_as_real(
                pairs * torch.polar(torch.ones(4).double(), position * frequencies)
            ).flatten(-2)

        rows = []
        for i in range(15):
            center = min(i, 8 * SCALE)
            visible = [j for j in range(9) if abs(center - SCALE * j) <= 2]
            scores = torch.stack(
                [(rotate(q[i], i) * rotate(k[j], SCALE * j)).sum(-1) for j in visible]
            )
            weights = (scores / 8**0.5).softmax(0)
            rows.append(
                sum(w[:, None] * v[j] for w, j in zip(weights, visible, strict=True)).flatten()
            )
        expected = attention.out_proj(torch.stack(rows).float())
        torch.testing.assert_close(seen["out"][0][:, 0], expected, atol=1e-5, rtol=0)

    @pytest.mark.parametrize("left", [False, True])
    def test_blocks_of_unequal_texts_are_narrow(self, left):
        """Sources are padded on the left and targets on the right."""
        lengths, target_lengths = [4000, 1000], [4000, 1000]
        source = make_batch(lengths, left) != PAD
        target = make_batch(target_lengths) != PAD
        positions, numbers = ((x.cumsum(1) - 1).float() for x in (source, target))
        window = windows.Window(20, 20)
        mask = windows.Mask([windows.Condition(window, numbers, positions)], ~target, ~source)
        blocks = mask.divide()
        assert max(block.keys.size(1) for block in blocks) <= 256 + 40
        visible = torch.zeros(2, 4000, 4000, dtype=torch.bool)
        for block in blocks:
            found = torch.zeros(2, block.mask.size(2), 4000, dtype=torch.bool)
            index = block.keys[:, None].expand(block.mask[:, 0].shape)
            visible[:, block.queries] = found.scatter(2, index, block.mask[:, 0])
        expected = (numbers[:, :, None] - positions[:, None]).abs() <= 20
        expected = expected & source[:, None]
        assert torch.equal(visible[target], expected[target])

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    @pytest.mark.parametrize("system", CROSS)
    def test_half_precision_is_close_to_float32(self, system, dtype):
        model = build_windows(system, cross=4, alignment_gain=0.1, alignment_end=1e9)
        source, target = make_batch(SOURCE, left=True), make_batch(TARGET, begin=True)
        real = target != PAD
        exact, _ = decode_in_steps(model, source, target)
        half, state = decode_in_steps(model.to(dtype), source, target)
        distance = (exact.log_softmax(-1) - half.float().log_softmax(-1))[real].abs().max()
        assert distance < (0.1 if dtype == torch.float16 else 0.5)
        assert state[KEY_CACHE].position.dtype == torch.float32


class TestTraining:
    @pytest.mark.parametrize("system", ["sinpos", "relpos", "t5", "rope_cross"])
    def test_blocks_have_the_gradients_of_the_whole_mask(self, system, monkeypatch):
        source, target = make_batch(SOURCE, left=True), make_batch(TARGET, begin=True)
        found = []
        for length in (512, 4):
            monkeypatch.setattr(windows, "MAX_LENGTH", length)
            monkeypatch.setattr(windows, "BLOCK", 5)
            model = build_windows(system, cross=4).train()
            scores = model(source, None, target)[0]
            F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=PAD).backward()
            found.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
        for name, gradient in found[0].items():
            torch.testing.assert_close(found[1][name], gradient, atol=1e-6, rtol=1e-4)
