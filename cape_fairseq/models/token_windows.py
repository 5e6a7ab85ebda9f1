"""Three rules of inference for texts longer than those of training: windows, alignment, end.

Token i of a side sees tokens at most N away in self-attention. In cross-attention a query at
position p sees source tokens at most M away, by scaled positions. With a gain, p follows the
alignment in step-by-step decoding; see :class:`Alignment`. By the rule of the end, a text does not
end while its last source token is more than E away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cape_fairseq.modules.windows import Window
from cape_fairseq.options import format_flag, require

EOS_PENALTY = 1e4  # finite: fairseq must be able to force EOS at the longest length
LONGEST_RATIO = 1.5  # to the scaled source: longer outputs may always end


class AlignedToken(NamedTuple):
    """The target token of a step, for each text, and where it is in the source."""

    position: Tensor  # float32 [B or 1, 1]
    keys: Tensor  # positions of the source tokens that it sees, [B, W]
    last: Tensor  # position of the last source token, [B, 1]
    index: Tensor  # of the token in its text, [B or 1, 1]
    padding: Tensor  # bool [B, 1]

    def compute_centroid_distance(self, weights: Tensor) -> Tensor:
        """Return how far the centroid of the cross-attention is ahead of the token, c - p, from its
        weights [B, H, 1, W]: [B, 1]."""
        # The mean of differences: in half precision a mean of large positions would be wrong.
        distance = self.keys.unsqueeze(1) - self.position.unsqueeze(2)
        return (weights.float().mean(1) * distance).sum(2)


class Alignment(NamedTuple):
    """A target position that follows the cross-attention.

    After each token p becomes p + 1 + g (c - p), and after the last source token p + 1: c is the
    centroid, the mean source position under the weights of the last layer's cross-attention.
    """

    gain: float  # g

    def advance(self, token: AlignedToken, weights: Tensor) -> Tensor:
        """Return the positions of the next tokens, [B, 1], from the weights of the last layer.
        Padding before a text does not count."""
        ahead = token.compute_centroid_distance(weights)
        # Past the source there is nothing to follow: a position that stayed at the last token would
        # never tell the model to end.
        correction = torch.where(token.position < token.last, self.gain * ahead, 0.0)
        moved = (token.position + 1 + correction).clamp(min=0)
        return torch.where(token.padding, token.position, moved)


class TokenWindows(NamedTuple):
    """The windows of tokens of a model, its alignment and its rule of the end."""

    attention: int | None = None  # N
    cross_attention: int | None = None  # M
    alignment: Alignment | None = None
    end: float | None = None  # E, distance to the last source token from which a text may end

    @classmethod
    def of(cls, options: Any) -> TokenWindows:
        """Return the windows of a model with these options."""
        cross_window, gain = options.cross_attention_window, options.alignment_gain
        end = options.alignment_end
        if end is None and gain and cross_window is not None:
            end = cross_window / 2
        return cls(options.attention_window, cross_window, Alignment(gain) if gain else None, end)

    @property
    def tracks_source(self) -> bool:
        """Return whether steps know where in the source their token is."""
        return self.alignment is not None or self.end is not None

    def mark_early(self, token: AlignedToken) -> Tensor:
        """Return whether the last source token is too far for a text to end, bool [B, 1]."""
        is_far = token.last - token.position > self.end
        return is_far & (token.index < LONGEST_RATIO * token.last)

    def build_window(self, keys: int, causal: bool) -> Window | None:
        """Return the window of self-attention, or None where that has all keys."""
        if self.attention is None or keys <= self.attention + 1:
            return None
        return Window(self.attention, 0 if causal else self.attention)

    def build_cross_window(self, scale: float) -> Window:
        """Return the window of cross-attention for a source scale, if there is one. There is a key
        inside of it wherever a query is: half a token is less."""
        width = max(self.cross_attention, scale / 2 * (1 + 1e-6))
        return Window(width, width)


def follows_alignment(model: Any) -> bool:
    """Return whether the target positions of a model follow the alignment."""
    windows = getattr(getattr(model, "decoder", None), "token_windows", None)
    return windows is not None and windows.alignment is not None


def validate_windows(options: Any, rotates_cross_attention: bool) -> None:
    """Raise ValueError for windows or an alignment that a model with these options cannot have."""
    gain = options.alignment_gain
    if gain is not None:
        require(0 <= gain <= 1, "alignment_gain", gain, "from 0 to 1")
    for name in ("cross_attention_window", "alignment_gain", "alignment_end"):
        value = getattr(options, name)
        expected = "left out: this encoding does not rotate cross-attention, as rope_cross does"
        require(value is None or rotates_cross_attention, name, value, expected)
    given = "--alignment-gain" if gain else "--alignment-end"
    if not gain and options.alignment_end is None:
        return
    for name in ("no_cross_attention", "adaptive_softmax_cutoff"):
        value = getattr(options, name, None)
        if value is not None and value is not False:
            raise ValueError(
                f"{given} cannot be given with {format_flag(name)}; leave out one of them"
            )
