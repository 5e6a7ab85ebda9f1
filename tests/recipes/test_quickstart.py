"""The quick start: its tables, and what a signal leaves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu import corpus_bleu

from tests.evaluation.support import make_rows, write_output
from tests.recipes.support import RECIPES, replace_programs
from tests.support import run


def write_results(out: Path) -> None:
    """Write what the recipe leaves."""
    rows = make_rows(1)
    judged = {"items": 108, "right": 27, "accuracy": 0.25, "chance": 1 / 3}
    for system in ("sinpos", "rope_cross", "rows"):
        folder = out / system
        folder.mkdir()
        for name in ("sentences", "within", "beyond", "beyond16", "alone", "context"):
            write_output(folder / f"{name}.txt", rows)
            for rules in ("windows", "end", "alignment"):
                write_output(folder / f"{rules}.{name}.txt", rows)
        for name in ("pronouns", "alone-pronouns", "context-pronouns"):
            (folder / f"{name}.json").write_text(json.dumps(judged))


def test_tables_have_the_scores_of_all_outputs(tmp_path):
    write_results(tmp_path)
    output = run(sys.executable, RECIPES / "quickstart_table.py", tmp_path).stdout
    _, references, texts, _ = zip(*make_rows(1), strict=True)
    bleu = f" {corpus_bleu(texts, [references]).score:.2f} "
    counts = {bleu: 5 * 4 + 4, "25 % (27 of 108)": 4}
    assert {text: output.count(text) for text in counts} == counts


CORPUS = """[ "$1" = synthetic-corpus ] || exit 0
mkdir -p "$2"
for split in train valid test; do echo a > "$2/$split.en"; echo a > "$2/$split.de"; done
"""
TRAINING = """while [ "$1" != --save-dir ]; do shift; done
name=${2##*/}
if [ -e "$2/checkpoint_last.pt" ]; then echo resumed >> "$2/trainings"; fi
if [ ! -p "$FIFOS/$name" ] || [ -e "$2/checkpoint_last.pt" ]; then exit; fi
trap 'cat "$FIFOS/save.$name"; kill -0 $PPID && touch "$2/checkpoint_last.pt"; exit 143' TERM
cat "$FIFOS/wait" &
echo > "$FIFOS/$name"
wait
"""


@pytest.mark.timeout(120)
def test_a_signal_ends_both_trainings_and_the_same_command_goes_on(tmp_path):
    """FIFOs say that the trainings run, and let them save, which the recipe has to wait for."""
    scripts = {"cape-fairseq": CORPUS, "fairseq-train": TRAINING}
    path = replace_programs(tmp_path / "bin", **scripts)
    for name in ("sinpos", "rope_cross", "save.sinpos", "save.rope_cross", "wait"):
        os.mkfifo(tmp_path / name)
    variables = {"PATH": path, "OUT": f"{tmp_path}/out", "FIFOS": str(tmp_path)}
    command = ["bash", str(RECIPES / "quickstart.sh")]
    environment = {**os.environ, **variables}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        for name in ("sinpos", "rope_cross"):
            (tmp_path / name).read_text()
        process.send_signal(signal.SIGTERM)
        for name in ("sinpos", "rope_cross"):
            (tmp_path / f"save.{name}").write_text("")
        assert process.wait(60) == 143
    saves = [tmp_path / "out" / name for name in ("sinpos", "rope_cross")]
    assert all((save / "checkpoint_last.pt").exists() for save in saves)
    assert not any((save / "trained").exists() for save in saves)
    subprocess.run(command, env=environment, capture_output=True, timeout=60)
    for save in saves:
        assert (save / "trainings").read_text() == "resumed\n"
        assert (save / "trained").read_text() == "380\n"
