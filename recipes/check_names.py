"""Stop if a variable of the environment is a setting but for one letter, such as UPDATE."""

import os
import sys

SETTINGS = """
ARCH ARCHIVES BEAM BPE CONTEXT DATA ENCODING ENCODINGS EXTRA JUNCTION LENGTHS LONGEST MERGES MODEL
MODEL_SRC MODEL_TGT OUT SEED SEEDS SIZE STACK STACKS TARGET_CONTEXT TEXT UPDATES USER_DIR VERBOSE
WARMUP WORKERS
"""


def is_near(name: str, setting: str) -> bool:
    """Return whether one letter that is added, left out or another makes a setting of a name."""
    short, long = sorted((name, setting), key=len)
    if len(short) < len(long):
        return short in {long[:i] + long[i + 1 :] for i in range(len(long))}
    return sum(a != b for a, b in zip(short, long, strict=True)) == 1


known = SETTINGS.split()
for name in os.environ:
    near = [setting for setting in known if len(name) > 4 and is_near(name, setting)]
    if name not in known and near:
        sys.exit(f"{name} is no setting; did you mean {near[0]}? (else unset {name})")
