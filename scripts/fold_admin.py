#!/usr/bin/env python3
"""Fold ADMIN's residual weights (omega) into the layer norms, so that a trained model needs none.

The folded model computes the same (up to rounding) and fairseq can translate with it or go on from it as another
model. What has no layer norm before it keeps its omega: the first sub-layer of each stack.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cape_fairseq.quiet  # noqa: F401
from cape_fairseq.evaluation.averaging import save
from cape_fairseq.evaluation.runs import load_checkpoint
from cape_fairseq.models.admin import fold_checkpoint
from cape_fairseq.text.parallel import TextError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path, help="the folded checkpoint; it has no optimizer state")
    args = parser.parse_args()
    try:
        checkpoint = load_checkpoint(args.checkpoint)
        left = fold_checkpoint(checkpoint)
    except TextError as error:
        sys.exit(f"fold_admin.py: {args.checkpoint}: {error}")
    save(checkpoint, args.output)
    result = f"not folded, as no norm can take it: {', '.join(left)}" if left else "everything is folded"
    print(f"{args.output}: {result}")


if __name__ == "__main__":
    main()
