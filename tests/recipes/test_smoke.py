"""The papers' recipes on a small corpus, until models translate: scores are right by value.

scripts/test.sh -m smoke tests/recipes
"""

import json

import pytest

from cape_fairseq.experiments.papers import EXPERIMENTS
from tests.support import ROOT, run

pytestmark = pytest.mark.smoke
LEARNED = 20  # BLEU; a model that learned nothing has 0


def smoke(name, out, *options):
    recipe = ROOT / "recipes" / "papers" / f"{name}.sh"
    return run(["bash", recipe, "--smoke", "--out", out, *options])


def check(name, out, rows, printed):
    assert EXPERIMENTS[name].title in printed
    for row in rows:
        (path,) = out.glob(f"{name}/{row}/*/results.json")
        tests = json.loads(path.read_text())["tests"]
        assert set(tests) == set(EXPERIMENTS[name].tests.values())
        for scores in tests.values():
            assert scores[EXPERIMENTS[name].score] > LEARNED
            assert {"bleu", "tokenized_bleu", "compound_bleu", "signature"} <= set(scores)


def test_cape(tmp_path):
    printed = smoke("cape_en_de_6l", tmp_path, "--rows", "cape5").stdout
    check("cape_en_de_6l", tmp_path, ["cape5"], printed)
    loss = json.loads((tmp_path / "cape_en_de_6l" / "loss_by_position.json").read_text())
    assert loss["models"]["cape5"]["all"]["mean"][0] < 4


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "cape_en_de_6l"])
def test_every_experiment(name, tmp_path):
    rows = [row.name for row in EXPERIMENTS[name].chosen([])][:2]
    if name.startswith("floater"):
        rows = [row.name for row in EXPERIMENTS[name].rows if row.encoding in ("sinpos", "floater")]
        rows = rows[:3]
    printed = smoke(name, tmp_path, "--rows", " ".join(rows)).stdout
    check(name, tmp_path, rows, printed)
