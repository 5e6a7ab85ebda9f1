"""Time and memory of windows of tokens and alignment by length of the text.

    benchmark_long.py decode [--lengths 300,1000,4000,16000]   beam 4, one text at a time
    benchmark_long.py train [--lengths 500,4000]               a training step, per target token

Each line of JSON is one length, in a process of its own, whose peak memory it names. Weights are
random, of the size ``_tiny``; outputs are forced to the length of the source.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from argparse import Namespace

import benchmark  # beside this file
import torch

WINDOWS = {"attention_window": 40, "cross_attention_window": 30}
TOKENS = 16_000  # of a training batch
LENGTHS = {"decode": [300, 1000, 4000, 16_000], "train": [500, 4000]}


def decode(length: int, args: Namespace) -> float:
    """Return the tokens per second of a search."""
    windows = {} if args.full else {**WINDOWS, "alignment_gain": 0.1}
    model = benchmark.build("rope_cross_transformer", args, **windows)
    generator = benchmark.make_generator(model, args, length)
    batch = benchmark.make_batch(length, 1, args)
    warm = benchmark.make_batch(30, 1, args)
    benchmark.make_generator(model, args, 30).generate(None, warm)
    start = time.perf_counter()
    generator.generate(None, batch)
    return length / (time.perf_counter() - start)


def train(length: int, args: Namespace) -> float:
    """Return the target tokens per second of training steps, their median."""
    windows = {} if args.full else WINDOWS
    batch = benchmark.make_batch(length, TOKENS // length, args)
    model = benchmark.build("rope_cross_transformer", args, **windows).train()
    times = []
    for _ in range(args.rounds + 1):
        start = time.perf_counter()
        model(**batch["net_input"], features_only=True)[0].float().pow(2).mean().backward()
        times.append(time.perf_counter() - start)
    return TOKENS // length * length / statistics.median(times[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("part", choices=LENGTHS)
    parser.add_argument("--lengths", type=lambda text: [int(x) for x in text.split(",")])
    parser.add_argument("--full", action="store_true", help="full attention instead of windows")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    settings = {"size": "tiny", "words": 4000, "device": "cpu", "dtype": "float32", "ragged": False}
    vars(arguments).update(settings)
    lengths = arguments.lengths or LENGTHS[arguments.part]
    if len(lengths) > 1:
        for length in lengths:
            command = [sys.executable, __file__, arguments.part, "--lengths", str(length)]
            more = ["--full"] if arguments.full else []
            subprocess.run([*command, *more, "--rounds", str(arguments.rounds)], check=True)
        sys.exit()
    torch.manual_seed(1)
    speed = globals()[arguments.part](lengths[0], arguments)
    peak = benchmark.find_peak(arguments)
    found = {"length": lengths[0], "tokens/s": round(speed, 1), "peak MiB": round(peak)}
    print(json.dumps({"part": arguments.part, **found}), flush=True)
