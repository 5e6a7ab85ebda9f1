"""THE TABLE OF ENCODINGS."""

from cape_fairseq.encodings.absolute import ABSPOS, CAPE, NOPOS, SHAPE, SINPOS
from cape_fairseq.encodings.distances import ALIBI, ROPE
from cape_fairseq.encodings.fire import FIRE
from cape_fairseq.encodings.floater import FLOATER, PARENTS
from cape_fairseq.encodings.kerple import KERPLE
from cape_fairseq.encodings.relpos import RELPOS
from cape_fairseq.encodings.t5 import T5

ROWS = (SINPOS, ABSPOS, NOPOS, CAPE, SHAPE, RELPOS, ROPE, ALIBI, FLOATER, T5, FIRE, KERPLE)
ENCODINGS = {row.name: row for row in ROWS}
if len(ENCODINGS) < len(ROWS):
    raise TypeError(f"two encodings have one name: {' '.join(row.name for row in ROWS)}")
PARENTS.update((row.name, row) for row in ROWS if row is not FLOATER)
