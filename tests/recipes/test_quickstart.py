"""The table of the quick start."""

from __future__ import annotations

import json
import sys

from tests.evaluation.support import make_rows, write_output
from tests.recipes.support import RECIPES
from tests.support import run


def test_the_table_has_a_row_for_every_system_that_is_there(tmp_path):
    judged = {"items": 108, "right": 27, "accuracy": 0.25, "chance": 1 / 3}
    for system, names in (("sinpos", []), ("documents", ["split"])):
        folder = tmp_path / system
        folder.mkdir()
        (folder / "seconds").write_text("79\n")
        for name in ("sentences", "whole", *names):
            write_output(folder / f"{name}.txt", make_rows(1))
        for name in ("pronouns", "split-pronouns"):
            (folder / f"{name}.json").write_text(json.dumps(judged))
    output = run(sys.executable, RECIPES / "quickstart_table.py", tmp_path).stdout
    names = [line.split("|")[1].strip() for line in output.splitlines()]
    assert names[2:] == ["sinpos", "documents", "documents, split into sentences"]
    assert output.count("25 % (27 of 108)") == 3
    assert (tmp_path / "pronouns.png").stat().st_size > 5000
