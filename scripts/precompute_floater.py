#!/usr/bin/env python3
"""Store the solved position vectors of a FLOATER checkpoint in it, so that translating needs no solver."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import cape_fairseq  # noqa: F401  (lets torch load fairseq's checkpoints)
from cape_fairseq.evaluation.averaging import save
from cape_fairseq.models.checkpoints import solver_errors, store_vectors
from cape_fairseq.text.parallel import TextError

CLOSE = 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path, help="the checkpoint with the vectors; may be the same file")
    parser.add_argument("--positions", type=int, default=1024, help="for how many tokens (1024); beyond, it is solved")
    args = parser.parse_args()
    if args.positions < 1:
        parser.error(f"--positions is {args.positions}, but it must be at least 1")
    if not args.checkpoint.is_file():
        sys.exit(f"precompute_floater.py: there is no checkpoint {args.checkpoint}")
    checkpoint = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
    try:
        stored = store_vectors(checkpoint, args.positions)
    except TextError as error:
        sys.exit(f"precompute_floater.py: {args.checkpoint}: {error}")
    save(checkpoint, args.output)
    print(f"{args.output}: vectors of {args.positions} positions in {' and '.join(stored)}")
    for side, error in solver_errors(checkpoint).items():
        print(f"{side}: over 100 tokens at most {error:.1e} of the largest entry away from rk4 with 5 steps a token")
        if error > CLOSE:
            advice = "train with more --floater-solver-steps, or a smaller --floater-lr-scale"
            print(f"{side}: that is more than {CLOSE:.0e}; {advice}")


if __name__ == "__main__":
    main()
