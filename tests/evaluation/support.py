"""Small outputs of fairseq-generate."""

import math

import numpy as np

RNG = np.random.default_rng(0)


def write_output(path, rows, scored=False):
    """Write rows of (source, reference, translation, log-probabilities in nats)."""
    lines = []
    for number in RNG.permutation(len(rows)):
        source, reference, translation, scores = rows[number]
        base2 = " ".join(f"{score / math.log(2):.4f}" for score in scores)
        hypothesis = reference if scored else translation
        lines += [
            f"S-{number}\t{source}",
            f"T-{number}\t{reference}",
            f"H-{number}\t-0.5\t{hypothesis}",
            f"D-{number}\t-0.5\t{hypothesis}",
            f"P-{number}\t{base2}",
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def make_rows(seed: int, count: int = 12):
    rng = np.random.default_rng(seed)
    words = np.random.default_rng(1)
    rows = []
    for number in range(count):
        reference = " ".join(f"w{words.integers(9)}" for _ in range(3 + number)) + " ."
        kept = [w if rng.random() < 0.8 else "x" for w in reference.split()]
        length = len(reference.split()) + 1
        rows.append((reference.upper(), reference, " ".join(kept), -rng.random(length)))
    return rows
