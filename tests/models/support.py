"""Small models with windows of tokens."""

import torch

from cape_fairseq.models.decoding_state import KeyCache
from cape_fairseq.modules.attention import KEY_CACHE
from tests.support import build

SOURCE, TARGET = [19, 5, 12], [18, 7, 11]
CROSS = ["rope_cross", "floater-rope_cross"]
SCALE = 1.3


def build_windows(system, reach=3, cross=None, **options):
    """A model with windows; one that rotates cross-attention has a source scale."""
    cross = cross if system in CROSS else None
    given = {"attention_window": reach, "cross_attention_window": cross, **options}
    model = build(system, **given)
    if system in CROSS:
        model.encoder.source_scale.fill_(SCALE)
    return model


def decode(model, source, target):
    with torch.no_grad():
        return model(source, None, target)[0]


def decode_in_steps(model, source, target, delays_end=True):
    """Scores of all positions, and the incremental state."""
    with torch.no_grad():
        encoder_out, state = model.encoder(source), {KEY_CACHE: KeyCache(delays_end=delays_end)}
        steps = [
            model.decoder(target[:, : i + 1], encoder_out, state)[0] for i in range(target.size(1))
        ]
    return torch.cat(steps, 1), state
