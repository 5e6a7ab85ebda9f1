"""Windows of tokens and alignment: options of inference for texts longer than those of training.

Token i of a side sees tokens at most N away in self-attention. In cross-attention a query at
position p sees source tokens at most M away, by scaled positions. With a gain, p follows the
alignment in step-by-step decoding; see :class:`Alignment`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.windows import Window
from cape_fairseq.options import format_flag, require

EOS_PENALTY = 1e4  # finite: fairseq must be able to force EOS at the longest length
LONGEST_RATIO = 1.5  # to the scaled source: longer outputs may always end


class Alignment(NamedTuple):
    """A target position that follows the cross-attention.

    After each token p becomes p + 1 + g (c - p - o): c is the centroid, the mean source position
    under the weights of the last layer's cross-attention.
    """

    gain: float  # g
    offset: float  # o, the mean of c - p where p is right
    end: float | None  # distance to the last source token from which the text may end

    def advance(self, position: Tensor, weights: Tensor, source: Tensor, last: Tensor) -> Tensor:
        """Return the positions of the next tokens, [B, 1].

        Args:
            position: of these tokens, float32 [B, 1].
            weights: of the cross-attention, [B, H, 1, W].
            source: positions of the keys that have weights, [B, W].
            last: position of the last source token, [B, 1].
        """
        # The mean of differences: in half precision a mean of large positions would be wrong.
        weights = weights[:, :, 0].float().mean(1)
        ahead = (weights * (source - position)).sum(1, keepdim=True)
        moved = position + 1 + self.gain * (ahead - self.offset)
        return torch.minimum(moved, last).clamp(min=0)

    def delay_end(
        self, scores: Tensor, eos: int, position: Tensor, last: Tensor, length: Tensor
    ) -> Tensor:
        """Lower the score of EOS where the last source token is far, scores [B, 1, V].

        Args:
            length: number of tokens of the output so far, [B or 1, 1].
        """
        if self.end is None:
            return scores
        is_early = (last - position > self.end) & (length < LONGEST_RATIO * last)
        scores = scores.clone()
        scores[:, :, eos] -= EOS_PENALTY * is_early.type_as(scores)
        return scores


class TokenWindows(NamedTuple):
    """The windows of tokens of a model, and its alignment."""

    attention: int | None = None  # N
    cross_attention: int | None = None  # M
    alignment: Alignment | None = None

    @classmethod
    def of(cls, options: Any) -> TokenWindows:
        """Return the windows of a model with these options."""
        reach, gain = options.cross_attention_window, options.alignment_gain
        end = options.alignment_end
        if end is None and reach is not None:
            end = reach / 2
        alignment = Alignment(gain, options.alignment_offset or 0.0, end) if gain else None
        return cls(options.attention_window, reach, alignment)

    def find_attention(self, keys: int, causal: bool) -> Window | None:
        """Return the window of self-attention, or None where it reaches all keys."""
        if self.attention is None or keys <= self.attention + 1:
            return None
        return Window(self.attention, 0 if causal else self.attention)

    def find_cross_attention(self, scale: float) -> Window | None:
        """Return the window of cross-attention for a source scale. There is a key inside of it
        wherever a query is: half a token is less."""
        if self.cross_attention is None:
            return None
        reach = max(self.cross_attention, scale / 2 * (1 + 1e-6))
        return Window(reach, reach)


def follows_alignment(model: Any) -> bool:
    """Return whether the target positions of a model follow the alignment."""
    windows = getattr(getattr(model, "decoder", None), "token_windows", None)
    return windows is not None and windows.alignment is not None


def validate_windows(options: Any, rotates_cross_attention: bool) -> None:
    """Raise ValueError for windows or an alignment that a model with these options cannot have."""
    gain = options.alignment_gain
    if gain is not None:
        require(0 <= gain <= 1, "alignment_gain", gain, "from 0 to 1")
    names = ("cross_attention_window", "alignment_gain", "alignment_offset", "alignment_end")
    for name in names:
        value = getattr(options, name)
        expected = "left out: this encoding does not rotate cross-attention, as rope_cross does"
        require(value is None or rotates_cross_attention, name, value, expected)
    for name in names[2:]:
        value = getattr(options, name)
        require(value is None or gain is not None, name, value, "left out without --alignment-gain")
    if not gain:
        return
    for name in ("sentence_context", "no_cross_attention", "adaptive_softmax_cutoff"):
        value = getattr(options, name, None)
        if value is not None and value is not False:
            raise ValueError(
                f"--alignment-gain cannot be given with {format_flag(name)}; leave out one of them"
            )
