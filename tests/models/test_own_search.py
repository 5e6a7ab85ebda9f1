"""Decoding loops of one's own: rows chosen, copied and left out in any order."""

import pytest
import torch

from tests.support import ENCODINGS, batch, build

CROSSING = ("rope", {"rope_attention": "self+cross", "source_scale": "1.3"})
SEARCHES = {
    "the best of each sentence": (
        [0, 0, 1, 1, 2, 2, 3, 3],
        [[1, 2, 5, 6], [0, 1, 2, 3], [1, 0, 3, 2]],
    ),
    "copies after the first step": ([0, 1, 2, 3], [[0, 0, 1, 1, 2, 2, 3, 3]]),
    "a beam in which a sentence has more": ([0, 0, 1, 1, 2, 2], [[0, 1, 2, 3, 2, 3], [5, 4, 0]]),
    "sentences change places": ([0, 0, 1, 1], [[2, 3, 1, 0], [0, 2]]),
    "all from one": ([0, 0, 1, 1], [[0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0]]),
}


@pytest.mark.parametrize(("first", "orders"), SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize(("encoding", "options"), [*((e, {}) for e in ENCODINGS), CROSSING])
@torch.no_grad()
def test_any_choice_of_rows_equals_the_parallel_pass(encoding, options, first, orders):
    model = build(f"{encoding}_transformer_tiny", **options)
    source, rows = batch([9, 3, 6, 12], True), torch.tensor(first)
    encoded = model.encoder.reorder_encoder_out(model.encoder(source), rows)
    prefix, state = torch.full((len(rows), 1), 2), {}
    torch.manual_seed(1)
    for order in (*orders, None):
        found = model.decoder(prefix, encoded, incremental_state=state)[0][:, -1]
        expected = model(source[rows], None, prefix)[0][:, -1]
        assert (found - expected).abs().max() < 1e-4
        if order is not None:
            order = torch.tensor(order)
            model.decoder.reorder_incremental_state_scripting(state, order)
            encoded = model.encoder.reorder_encoder_out(encoded, order)
            rows, chosen = rows[order], torch.randint(4, 20, (len(order), 1))
            prefix = torch.cat([prefix[order], chosen], dim=1)
