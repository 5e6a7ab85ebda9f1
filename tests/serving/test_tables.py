"""Tables of positions end, and what is longer is translated in pieces."""

import pytest

from cape_fairseq import load
from cape_fairseq.errors import UserError
from tests.serving.support import saved

LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True}


@pytest.mark.parametrize(
    ("arch", "more"),
    [
        ("abspos_transformer", {}),
        ("transformer", LEARNED),
        ("floater_transformer", {"floater_parent": "abspos"}),
    ],
)
def test_learned_positions_end_where_the_table_does(arch, more, tmp_path):
    table = {"max_source_positions": 16, "max_target_positions": 24}
    path = saved(tmp_path, arch, **table, **more)
    own = load(path, moses=False)
    assert own.longest == 15
    (found,) = own.translate(["a b c " * 15])
    assert (len(found.source_tokens), found.pieces) == (45, 3)
    with pytest.raises(UserError, match="line 1 has 16 tokens, but the model takes 15"):
        own.score(["a " * 16], ["a"])


def test_learned_targets_alone_have_an_end(tmp_path):
    """fairseq's sinusoids in the encoder have none."""
    table = {"max_source_positions": 16, "max_target_positions": 24}
    own = load(saved(tmp_path, "transformer", decoder_learned_pos=True, **table), moses=False)
    assert own.longest == 23
