"""Time and memory of encodings and decoding, beside stock fairseq and other toolkits.

    benchmark.py step [--size base] [--lengths 30,100,300] [--peers]    a training step
    benchmark.py step --device cuda --dtype float16 --size base --words 32000 --tokens 16384
        --ragged --no-optimizer --lengths 30,200 --peers                on a GPU
    benchmark.py modules [--size table9]            CAPE's Table 9: layer, encoder, decoder
    benchmark.py memory [--words 32000]             peak memory of a training step, MiB
    benchmark.py decode [--peers]                   beam 4, forced to the length of the source

Systems take turns, round after round; each line of JSON has ratios of medians, and quartiles in
milliseconds. Weights are random. ``--peers`` adds the toolkits of peers.py that are installed.

A system is ``stock`` (fairseq's transformer), a peer or ENCODING with switches, such as
``sinpos+chunked+dropout`` or ``floater+refresh20``, whose time is the mean of 20 updates.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import peers  # beside this file
import torch
from fairseq.criterions import label_smoothed_cross_entropy
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.sequence_generator import SequenceGenerator

import cape_fairseq.models  # noqa: F401
from cape_fairseq.criterions import chunked
from cape_fairseq.modules.plan import AttentionPlan

STEPS = "stock,sinpos,sinpos+chunked+dropout,cape,rope_cross,relpos,floater"
SIZES = {"tiny": (128, 512, 4, 3), "base": (512, 2048, 8, 6), "table9": (768, 3072, 8, 6)}
SENTENCE = 25
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Run(NamedTuple):
    """What is timed: the mean of ``repeats`` calls."""

    call: Callable[[], Any]
    repeats: int = 1


class Task(Namespace):
    def __init__(self, words: int) -> None:
        dictionary = Dictionary()
        for number in range(words - len(dictionary)):
            dictionary.add_symbol(f"w{number}")
        super().__init__(source_dictionary=dictionary, target_dictionary=dictionary, cfg=None)
        self.max_positions = lambda: (100_000, 100_000)


def build(arch: str, args: Namespace, **options: Any) -> Any:
    dim, hidden, heads, layers = SIZES[args.size]
    sizes = {"embed_dim": dim, "ffn_embed_dim": hidden, "attention_heads": heads, "layers": layers}
    sides = {f"{side}_{k}": value for side in ("encoder", "decoder") for k, value in sizes.items()}
    options = {"share_all_embeddings": True, "dropout": 0.1, **sides, **options}
    return place(build_model(Namespace(arch=arch, **options), Task(args.words)), args)


def place(model: Any, args: Namespace) -> Any:
    return model.to(args.device, DTYPES[args.dtype])


def make_batch(length: int, rows: int, args: Namespace) -> dict[str, Any]:
    """Make random sentences; with ``--ragged`` they differ in length by up to a tenth."""
    source, target = torch.randint(4, args.words, (2, rows, length))
    previous = torch.cat([torch.full((rows, 1), 2), target[:, :-1]], 1)
    if args.ragged:
        shorter = (torch.arange(rows) * length // (10 * rows)).unsqueeze(1)
        column = torch.arange(length)
        source[column < shorter] = peers.PAD
        target[column >= length - shorter] = peers.PAD
        previous[column >= length - shorter] = peers.PAD
    source, target, previous = (x.to(args.device) for x in (source, target, previous))
    lengths = source.ne(peers.PAD).sum(1)
    net_input = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": previous}
    return {"net_input": net_input, "target": target, "ntokens": int(target.ne(peers.PAD).sum())}


def make_loss(name: str, args: Namespace, batch: dict[str, Any]) -> tuple[Any, Any]:
    """Return a system and its loss."""
    encoding, *switches = name.split("+")
    if encoding == "transformers":
        model = place(peers.build_marian(args.words, *SIZES[args.size]), args)
        return model, lambda: peers.compute_marian_loss(model, batch)
    if encoding == "joeynmt":
        model = place(peers.build_joey(args.words, *SIZES[args.size]), args)
        return model, lambda: peers.compute_joey_loss(model, batch)
    arch = "transformer" if encoding == "stock" else f"{encoding}_transformer"
    options = {"fast_dropout": "dropout" in switches}
    options |= {"autocast": "bf16"} if "bf16" in switches else {}
    for switch in switches:
        if switch.startswith("refresh"):
            options["floater_refresh"] = int(switch.removeprefix("refresh"))
    model = build(arch, args, **options)
    module = chunked if "chunked" in switches else label_smoothed_cross_entropy
    criterion = module.LabelSmoothedCrossEntropyCriterion(Task(args.words), False, 0.1)
    return model, lambda: criterion(model, batch)[0]


def make_step(name: str, args: Namespace, batch: dict[str, Any]) -> Run:
    """Return a training step; FLOATER's is the mean of a period of ``--floater-refresh``."""
    model, compute_loss = make_loss(name, args, batch)
    model.train()
    updates = count()
    if name in peers.PEERS:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        cfg = FairseqAdamConfig(adam_betas="(0.9, 0.98)", use_old_adam=True, lr=[1e-4])
        optimizer = FairseqAdam(cfg, list(model.parameters()))

    def step() -> None:
        if hasattr(model, "set_num_updates"):
            model.set_num_updates(next(updates))
        optimizer.zero_grad()
        compute_loss().backward()
        if not args.no_optimizer:
            optimizer.step()

    return Run(step, getattr(getattr(model, "args", None), "floater_refresh", None) or 1)


def synchronize(args: Namespace) -> None:
    """Wait for the GPU."""
    if torch.device(args.device).type == "cuda":
        torch.cuda.synchronize()


def measure(
    runs: dict[str, Run], args: Namespace, base: str, unit: float = 1.0, **more: Any
) -> None:
    """Print quartiles of the milliseconds of each run, in turn, and ratios of medians to base."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(args.rounds + 1):
        for name, run in runs.items():
            synchronize(args)
            start = time.perf_counter()
            for _ in range(run.repeats):
                run.call()
            synchronize(args)
            if number:  # the first round warms up
                seconds = (time.perf_counter() - start) / run.repeats
                times[name].append(1e3 * seconds / unit)
    found = {name: statistics.quantiles(values, n=4) for name, values in times.items()}
    ratios = {name: round(values[1] / found[base][1], 3) for name, values in found.items()}
    rounded = {name: [round(value, 3) for value in values] for name, values in found.items()}
    print(json.dumps({**more, "ratios": ratios, "milliseconds": rounded}), flush=True)


def run_step(args: Namespace) -> None:
    names = [*args.systems.split(","), *(peers.find_peers() if args.peers else [])]
    for length in args.lengths or [30, 100, 300]:
        batch = make_batch(length, args.tokens // length, args)
        runs = {name: make_step(name, args, batch) for name in names}
        measure(runs, args, names[0], part="step", length=length, size=args.size)


def build_passes(name: str, args: Namespace, length: int) -> dict[str, Run]:
    """Build forward and backward pass of a layer, the encoder and the decoder, for 50 sentences."""
    source, lengths, previous = make_batch(length, 50, args)["net_input"].values()
    options = {"relpos_max_distance": args.context} if name == "relpos" else {}
    model = build(f"{name}_transformer", args, **options).train()
    x = torch.randn(length, 50, SIZES[args.size][0])
    x = x.to(args.device, DTYPES[args.dtype]).requires_grad_()
    with torch.no_grad():
        encoded = model.encoder(source, lengths)

    def run_layer() -> None:
        model.encoder.layers[0](x, AttentionPlan())[0].sum().backward()

    def run_encoder() -> None:
        model.encoder(source, lengths)["encoder_out"][0].sum().backward()

    def run_decoder() -> None:
        model.decoder(previous, encoded, features_only=True)[0].sum().backward()

    return {"layer": Run(run_layer), "encoder": Run(run_encoder), "decoder": Run(run_decoder)}


def run_modules(args: Namespace) -> None:
    for length in args.lengths or [10, 100]:
        passes = {name: build_passes(name, args, length) for name in ("nopos", "relpos")}
        for module in ("layer", "encoder", "decoder"):
            runs = {name: modules[module] for name, modules in passes.items()}
            measure(runs, args, "nopos", part=module, length=length, context=args.context)


def run_memory(args: Namespace) -> None:
    """Measure systems in processes of their own: the GPU's memory, or that of the process."""
    if args.in_process:
        length = (args.lengths or [30])[0]
        make_step(args.systems, args, make_batch(length, args.tokens // length, args)).call()
        print(find_peak(args))
        return
    for name in args.systems.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], "--in-process", "--systems", name]
        output = subprocess.check_output(command, text=True)
        result = {"part": "memory", "size": args.size, "system": name, "MiB": output.split()[-1]}
        print(json.dumps(result))


def find_peak(args: Namespace) -> float:
    """Return the peak of the memory so far, in MiB."""
    if torch.device(args.device).type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make_generator(model: Any, args: Namespace, length: int, cls: Any = SequenceGenerator) -> Any:
    dictionary = Task(args.words).target_dictionary
    return cls([model.eval()], dictionary, beam_size=4, min_len=length, max_len_b=length)


def run_decode(args: Namespace) -> None:
    batch, runs = make_batch(SENTENCE, 32, args), {}
    for arch in ("transformer", "sinpos_transformer", "rope_cross_transformer"):
        generator = make_generator(build(arch, args), args, SENTENCE)
        runs[arch] = Run(lambda g=generator: g.generate(None, batch))
    if args.peers and "transformers" in peers.find_peers():
        marian = place(peers.build_marian(args.words, *SIZES[args.size]), args).eval()
        source = batch["net_input"]["src_tokens"]
        options = {"num_beams": 4, "min_new_tokens": SENTENCE, "max_new_tokens": SENTENCE}
        runs["transformers"] = Run(lambda: marian.generate(source, **options))
    measure(runs, args, "transformer", part="decode", size=args.size)


PARTS = {"step": run_step, "modules": run_modules, "memory": run_memory, "decode": run_decode}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--words", type=int, default=4000, help="words of the dictionary")
    parser.add_argument("--lengths", type=lambda text: [int(x) for x in text.split(",")])
    parser.add_argument("--systems", default=STEPS, help=f"default: {STEPS}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="of the parameters")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch of step and memory")
    parser.add_argument("--ragged", action="store_true", help="lengths differ by up to a tenth")
    parser.add_argument("--no-optimizer", action="store_true", help="forward and backward only")
    parser.add_argument(
        "--context", type=int, default=100, help="relpos of modules: tokens on a side"
    )
    parser.add_argument("--peers", action="store_true", help="also other toolkits, see peers.py")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)  # of memory
    arguments = parser.parse_args()
    if torch.device(arguments.device).type == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU; leave the option out")
    torch.manual_seed(1)
    PARTS[arguments.part](arguments)
