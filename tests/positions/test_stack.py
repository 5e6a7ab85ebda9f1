"""From tokens to augmented positions, written out."""

import pytest
import torch

from cape_fairseq.positions import CAPE, SHAPE, Draw, RandomPositions, SinusoidalEncoding, sinusoid
from cape_fairseq.positions.batch import Source
from cape_fairseq.positions.learned import LearnedEncoding
from cape_fairseq.positions.source_bos import SourceBOS
from cape_fairseq.positions.stack import StackPositions
from tests.support import EOS, PAD, batch


@pytest.mark.parametrize("left", [True, False])
def test_scale_then_centre_then_shifts_then_stretch(left):
    tokens = batch([3, 3], left)
    positions = StackPositions(PAD, CAPE(mean_normalize=True), scale=1.5)
    assert positions.plain(tokens.eq(PAD)).tolist() == [[2.0, 3.5, 5.0]] * 2
    draw = Draw(
        torch.tensor([[1.0], [-4.0]]),
        torch.tensor([[0.5, 0.0, -0.5]] * 2),
        torch.tensor([[2.0], [1.0]]),
    )
    begun = positions.begin(tokens, draw)
    assert begun.positions.tolist() == [[0.0, 2.0, 4.0], [-5.0, -4.0, -3.0]]
    assert begun.reference.tolist() == [[3.5]] * 2


@pytest.mark.parametrize("left", [True, False])
def test_the_reference_of_the_source_centres_the_target(left):
    """The mean is over real tokens, and it is handed on."""
    source = StackPositions(PAD, CAPE(mean_normalize=True)).begin(batch([4, 2], left))
    assert source.reference.tolist() == [[3.5], [2.5]]
    target = StackPositions(PAD, CAPE(mean_normalize=True), opens=False)
    begun = target.begin(batch([3, 3], left), source=Source(source.padding.mask, source.reference))
    assert begun.positions.tolist() == [[-1.5, -0.5, 0.5], [-0.5, 0.5, 1.5]]


@pytest.mark.parametrize("left", [True, False])
def test_begin_of_sentence_is_a_source_s(left):
    tokens = batch([3, 2], left)
    encoder = StackPositions(PAD, bos=SourceBOS(0, PAD)).begin(tokens)
    assert encoder.tokens.shape == (2, 4)
    assert (encoder.tokens == 0).sum() == 2
    decoder = StackPositions(PAD, bos=SourceBOS(0, PAD), opens=False).begin(tokens)
    assert torch.equal(decoder.tokens, tokens)


def test_encodings_enter_at_their_blocks():
    tokens = batch([3], False)
    stack = StackPositions(PAD, encodings=[SinusoidalEncoding(8, block) for block in (1, 2)])
    begun, x = stack.begin(tokens), torch.zeros(3, 1, 8)
    for block in (1, 2):
        expected = sinusoid(torch.tensor([2.0, 3.0, 4.0]), 8) + sinusoid(torch.tensor(block), 8)
        assert torch.allclose(begun.enter(x, block)[:, 0], expected)
    assert torch.equal(begun.enter(x, 3), x)


def test_only_the_last_token_is_new_in_incremental_decoding():
    tokens = batch([3], False)
    stack = StackPositions(PAD, encodings=[SinusoidalEncoding(8)])
    begun = stack.begin(tokens, causal=True, last_only=True)
    assert torch.allclose(
        begun.enter(torch.zeros(1, 1, 8), 1)[0, 0], sinusoid(torch.tensor(4.0), 8)
    )


def test_masks_are_made_where_padding_asks_for_them():
    stack = StackPositions(PAD)
    left, right = batch([3, 1], True), batch([3, 1], False)
    assert stack.begin(batch([3, 3], True)).attention(1) == {"causal": False, "mask": None}
    assert stack.begin(right, causal=True).attention(1)["mask"] is None  # nobody sees it
    assert stack.begin(right).attention(1)["mask"].tolist() == [
        [[[True] * 3]],
        [[[True, False, False]]],
    ]
    assert stack.begin(left, causal=True).attention(1)["mask"][1, 0].tolist() == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


def test_a_table_has_room_for_a_sentence_and_its_shift():
    table = LearnedEncoding(10, 8, PAD)
    stack = StackPositions(PAD, SHAPE(4), encodings=[table])
    assert (stack.longest(True), stack.longest(False)) == (6, 10)
    shift = Draw(torch.tensor([[4.0]]))
    assert table(stack.begin(batch([6], False), shift).positions).isfinite().all()
    with pytest.raises(ValueError, match=r"7 tokens, but .* end at 10 and shifts take 4 of them"):
        stack.begin(batch([7], False), shift)
    stack.begin(batch([10], False))  # translation shifts nothing


def test_an_augmentation_that_respaces_gives_attention_its_own_positions():
    seen = []

    class Spy(torch.nn.Module):
        indices = False

        def forward(self, queries, keys, mask, causal):
            seen.append(keys)
            return {"mask": mask}

    tokens = torch.tensor([[5, 6, 7, EOS]])
    StackPositions(PAD, RandomPositions(100), attention=Spy()).begin(tokens)
    StackPositions(PAD, attention=Spy()).begin(tokens)
    assert seen[0].tolist() == [[2.0, 12.0, 22.0, 32.0]]  # a stride of 100 / (2 * 5)
    assert seen[1].tolist() == [[2.0, 3.0, 4.0, 5.0]]


def test_a_stretch_leaves_the_first_token_where_it_is():
    positions = StackPositions(PAD, CAPE(0.0, 0.0, 2.0))
    tokens = torch.tensor([[PAD, 5, 6, 7], [4, 5, 6, 7]])
    found = positions.begin(tokens, Draw(scale=torch.tensor([[2.0], [2.0]]))).positions
    assert found[0, 1:].tolist() == [2, 4, 6]
    assert found[1].tolist() == [2, 4, 6, 8]
