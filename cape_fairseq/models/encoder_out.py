"""Entries of the encoder's output: fairseq's, and those that positions and documents need."""

from torch import Tensor

from cape_fairseq.positions.layout import Layout

EncoderOut = dict[str, list[Tensor]]  # each tensor has a row for each text, which a beam reorders

SOURCE_LAYOUT = "source_layout"  # the parts of the source's Layout
SOURCE_POSITIONS = "source_positions"  # [B, S], that keys of the cross-attention are rotated by
SOURCE_SUMMARY = "source_summary"  # of PositionEncoding.summarize, [B, 1]
EARLIER_LAYOUT = "earlier_layout"  # of target sentences whose keys are in the incremental state
FIRST_SENTENCE = "first_sentence"  # number of the first target sentence, [B, 1]


def get_entry(encoder_out: EncoderOut | None, name: str) -> Tensor | None:
    """Return an entry of one tensor, or None."""
    entries = (encoder_out or {}).get(name)
    return entries[0] if entries else None


def get_layout(encoder_out: EncoderOut | None, name: str) -> Layout | None:
    """Return an entry that is a layout, or None."""
    entries = (encoder_out or {}).get(name)
    return Layout(*entries) if entries else None
