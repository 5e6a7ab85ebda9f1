"""A preparation of small archives, for the tests of this folder."""

from cape_fairseq.data.corpora.preparation import Preparation
from cape_fairseq.data.corpora.table import CORPORA


def prepare(name, tmp_path, **options):
    """``tmp_path/archives`` -> ``tmp_path/out``, and what every step counted."""
    settings = {"workers": 1, "limit": None, **options}
    pipeline = Preparation(name, CORPORA[name], tmp_path / "archives", tmp_path / "out", **settings)
    pipeline.run()
    return pipeline.manifest["steps"]
