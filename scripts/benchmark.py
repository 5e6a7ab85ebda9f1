#!/usr/bin/env python3
"""Measure how fast the encodings are, interleaved in one process, and print tables of ratios.

Four parts: training steps against fairseq's own Transformer; CAPE's Table 9 (what relative positions
cost); peak memory; beam search. Ratios are medians over rounds, with quartiles in parentheses.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

from cape_fairseq.benchmark import parts
from cape_fairseq.benchmark.models import STOCK
from cape_fairseq.benchmark.report import REPORTS
from cape_fairseq.benchmark.table9 import table9
from cape_fairseq.benchmark.timing import Clock, keep_freed_memory
from cape_fairseq.models.architectures import SIZES
from cape_fairseq.text.parallel import atomic_writer

PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--parts", nargs="+", choices=list(REPORTS), default=list(REPORTS))
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--precision", choices=list(PRECISIONS), default="fp32")
    add("--size", choices=list(SIZES), default="_tiny", help="suffix of the architectures")
    add("--words", type=int, default=4000, help="words of the dictionary")
    add("--tokens", type=int, default=4096, help="tokens of a batch, on each side")
    add("--lengths", type=int, nargs="+", default=[10, 30, 100, 300], help="tokens of a sentence (training)")
    add("--variants", nargs="+", choices=list(parts.VARIANTS), default=list(parts.VARIANTS), metavar="VARIANT",
        help="what to compare; %(choices)s")  # fmt: skip
    add("--batch", type=int, default=50, help="sentences of a batch (table9)")
    add("--batch-tokens", type=int, help="most tokens of a batch (table9; 5000 on a CPU, else no limit)")
    add("--memory-length", type=int, default=1000, help="tokens of a sentence (memory)")
    add("--decoding-length", type=int, default=25, help="tokens of a sentence (decoding)")
    add("--rounds", type=int, default=15, help="rounds of a comparison, at least 5")
    add("--seconds", type=float, default=120, help="no new round of a comparison after so long")
    add("--threads", type=int, help="threads on the CPU (PyTorch's default)")
    add("--json", type=Path, help="write all measurements to this file")
    args = parser.parse_args()
    for name in ("words", "tokens", "batch", "memory_length", "decoding_length", "rounds", "threads"):
        value = getattr(args, name)
        if value is not None and value < (10 if name == "words" else 1):
            parser.error(f"--{name.replace('_', '-')} is {value}, which is too small")
    if min(args.lengths) < 1:
        parser.error(f"--lengths has {min(args.lengths)}, but a sentence has at least 1 token")
    return args


def measure(part: str, args: argparse.Namespace) -> Iterable[dict]:
    """The measurements of one part."""
    clock = Clock(args.device, args.rounds, args.seconds)
    dtype = PRECISIONS[args.precision]
    if part == "table9":
        limit = args.batch_tokens or (5000 if clock.device.type == "cpu" else None)
        return table9(clock, args.batch, limit, dtype)
    setting = parts.Setting(clock, args.size, args.words, args.tokens, dtype)
    if part == "training":
        return parts.training(setting, args.lengths, args.variants)
    if part == "memory":
        return parts.memory(setting, args.memory_length, dict.fromkeys(["sinpos", *args.variants]))
    return parts.decoding(setting, args.decoding_length, dict.fromkeys([STOCK, *args.variants]))


def main() -> None:
    args = parse()
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(f"benchmark.py: --device is {args.device}, but PyTorch finds no GPU")
    place = torch.cuda.get_device_name() if args.device.startswith("cuda") else f"{torch.get_num_threads()} CPU threads"
    print(f"torch {torch.__version__}, {place}, {args.precision}, {args.size or 'base size'}, {args.tokens} tokens\n")
    keep_freed_memory()
    rows = []
    for part in args.parts:
        found = list(measure(part, args))
        print(REPORTS[part](found) + "\n", flush=True)
        rows += found
    if args.json:
        settings = {**vars(args), "json": None, "torch": torch.__version__, "where": place, "cpu": platform.processor()}
        with atomic_writer(args.json) as out:
            json.dump({"settings": settings, "measurements": rows}, out, indent=1)


if __name__ == "__main__":
    main()
