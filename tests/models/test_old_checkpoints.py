"""Checkpoints that version 0.1.0 made load, and score a sentence to the digit as they did then.

tests/data/v0.1.0 has a model of a few kilobytes for every encoding and for some of its forms, and
the log-probabilities that 0.1.0 gave to the tokens of one sentence.
"""

import json

import pytest
import torch
from fairseq.models import build_model

from cape_fairseq.checkpoints.reading import read
from tests.support import ROOT, ToyTask

FOLDER = ROOT / "tests" / "data" / "v0.1.0"
THEN = json.loads((FOLDER / "scores.json").read_text())


def test_every_encoding_of_then_is_there():
    then = {"sinpos", "abspos", "nopos", "cape", "shape", "relpos", "rope", "alibi", "floater"}
    assert then <= set(THEN["log_probabilities"])
    assert set(THEN["log_probabilities"]) == {path.stem for path in FOLDER.glob("*.pt")}


@pytest.mark.parametrize("name", sorted(THEN["log_probabilities"]))
def test_it_scores_as_then(name):
    checkpoint = read(FOLDER / f"{name}.pt")
    options = checkpoint["cfg"]["model"]
    model = build_model(options, ToyTask(words=12))
    model.load_state_dict(checkpoint["model"], strict=True, model_cfg=options)
    source, target = (torch.tensor([THEN[side]]) for side in ("source", "target"))
    with torch.no_grad():
        scores = model.eval()(source, None, target)[0].log_softmax(-1)[0]
    found = scores.gather(1, torch.tensor(THEN["gold"])[:, None])[:, 0]
    assert found.tolist() == pytest.approx(THEN["log_probabilities"][name], abs=2e-6)
