"""Running recipes."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

RECIPES = ROOT / "recipes"
SHARED = ROOT.parent / "shared" / "data"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


# Programs that leave files as the real ones do, and compute nothing.
PROGRAMS = {
    "sacremoses": "cat",
    "subword-nmt": """case $1 in
        apply-bpe) cat "${@: -1}" ;;
        *) while [ "$1" != -o ]; do shift; done; touch "$2" "$4" "$5" ;;
    esac""",
    "fairseq-preprocess": """tests=
    while [ $# -gt 0 ]; do
        case $1 in --testpref) tests=$2 ;; --destdir) folder=$2 ;; esac
        shift
    done
    mkdir -p "$folder"
    touch "$folder"/dict.{en,de}.txt "$folder"/{train,valid}.en-de.en.idx
    number=
    for test in ${tests//,/ }; do
        echo "$test" > "$folder/test$number.en-de.en.idx"
        number=$((number + 1))
    done""",
    "fairseq-train": """while [ "$1" != --save-dir ]; do shift; done
    if [ -e "$2/checkpoint_last.pt" ]; then echo resumed; else echo new; fi >> "$2/trainings"
    touch "$2/checkpoint_last.pt" "$2/checkpoint_best.pt" """,
    "fairseq-generate": r"printf 'D-0\t-1\tx\n'",
    "cape-fairseq": "true",
    "sacrebleu": "true",
}


def replace_programs(folder: Path, **scripts: str) -> str:
    """Write PROGRAMS to a folder, some with other scripts; return a PATH where they come first."""
    folder.mkdir(exist_ok=True)
    for name, script in {**PROGRAMS, **scripts}.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{PATH}"


def call(*command, **variables) -> str:
    """Run a recipe from the root; return what it printed."""
    environment = {**os.environ, "PATH": PATH, "OMP_NUM_THREADS": "1", "LC_ALL": "C", **variables}
    environment.pop("LANG", None)
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout
