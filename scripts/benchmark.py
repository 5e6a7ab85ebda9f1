"""Time and memory of encodings, decoding and documents, beside stock fairseq and other toolkits.

    benchmark.py step [--size base] [--lengths 30,100,300] [--peers]    a training step
    benchmark.py modules [--size table9]            CAPE's Table 9: layer, encoder, decoder
    benchmark.py memory [--words 32000]             peak memory of a training step, MiB
    benchmark.py decode [--peers]                   beam 4, forced to the length of the source
    benchmark.py documents [--lengths 100,4000]     per target token, beside sentences alone

Systems take turns, round after round; each line of JSON has ratios of medians, and quartiles in
milliseconds. Weights are random. ``--peers`` adds the toolkits of peers.py that are installed.
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
from typing import Any

import torch
from fairseq.criterions import label_smoothed_cross_entropy
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.sequence_generator import SequenceGenerator
from peers import PEERS, build_joey, build_marian, find_peers  # beside this file
from torch.nn import functional as F

import cape_fairseq.models  # noqa: F401
from cape_fairseq.criterions import chunked
from cape_fairseq.documents.search import DocumentGenerator
from cape_fairseq.modules.plan import AttentionPlan

STEPS = "stock,sinpos,sinpos+chunked+dropout,cape,rope_cross,relpos,floater"
SIZES = {"tiny": (128, 512, 4, 3), "base": (512, 2048, 8, 6), "table9": (768, 3072, 8, 6)}
SENTENCE, TOKENS = 25, 4096


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
    return build_model(Namespace(arch=arch, **options), Task(args.words))


def make_batch(length: int, rows: int, words: int) -> dict[str, Any]:
    source, target = torch.randint(4, words, (2, rows, length))
    previous = torch.cat([torch.full((rows, 1), 2), target[:, :-1]], 1)
    lengths = torch.full((rows,), length)
    net_input = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": previous}
    return {"net_input": net_input, "target": target, "ntokens": target.numel()}


def make_loss(name: str, args: Namespace, batch: dict[str, Any]) -> tuple[Any, Any]:
    """Return the model and the loss of ``stock``, a peer or ENCODING[+chunked][+dropout][+bf16]."""
    encoding, *switches = name.split("+")
    target = batch["target"]
    source, lengths, previous = batch["net_input"].values()
    if encoding == "transformers":
        model = build_marian(args.words, *SIZES[args.size])

        def compute_loss() -> torch.Tensor:
            scores = model(source, torch.ones_like(source), previous).logits
            return F.cross_entropy(scores.flatten(0, 1), target.flatten(), label_smoothing=0.1)

        return model, compute_loss
    if encoding == "joeynmt":
        model = build_joey(args.words, *SIZES[args.size])
        mask = torch.ones_like(source, dtype=torch.bool).unsqueeze(1)
        inputs = {"src": source, "trg_input": previous, "trg": target, "src_length": lengths}
        inputs |= {"src_mask": mask, "trg_mask": mask}
        return model, lambda: model(return_type="loss", **inputs)[0]
    arch = "transformer" if encoding == "stock" else f"{encoding}_transformer"
    options = {"fast_dropout": "dropout" in switches}
    options |= {"autocast": "bf16"} if "bf16" in switches else {}
    model = build(arch, args, **options)
    module = chunked if "chunked" in switches else label_smoothed_cross_entropy
    criterion = module.LabelSmoothedCrossEntropyCriterion(Task(args.words), False, 0.1)
    return model, lambda: criterion(model, batch)[0]


def make_step(name: str, args: Namespace, batch: dict[str, Any]) -> Callable[[], None]:
    model, compute_loss = make_loss(name, args, batch)
    model.train()
    if name in PEERS:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        cfg = FairseqAdamConfig(adam_betas="(0.9, 0.98)", use_old_adam=True, lr=[1e-4])
        optimizer = FairseqAdam(cfg, list(model.parameters()))

    def step() -> None:
        optimizer.zero_grad()
        compute_loss().backward()
        optimizer.step()

    return step


def measure(
    runs: dict[str, Callable[[], Any]], args: Namespace, base: str, unit: float = 1.0, **more: Any
) -> None:
    """Print quartiles of the milliseconds of each run, in turn, and ratios of medians to base."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(args.rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if number:  # the first round warms up
                times[name].append(1e3 * (time.perf_counter() - start) / unit)
    found = {name: statistics.quantiles(values, n=4) for name, values in times.items()}
    ratios = {name: round(values[1] / found[base][1], 3) for name, values in found.items()}
    rounded = {name: [round(value, 3) for value in values] for name, values in found.items()}
    print(json.dumps({**more, "ratios": ratios, "milliseconds": rounded}), flush=True)


def run_step(args: Namespace) -> None:
    names = [*args.systems.split(","), *(find_peers() if args.peers else [])]
    for length in args.lengths or [30, 100, 300]:
        batch = make_batch(length, TOKENS // length, args.words)
        runs = {name: make_step(name, args, batch) for name in names}
        measure(runs, args, names[0], part="step", length=length, size=args.size)


def build_passes(name: str, args: Namespace, length: int) -> dict[str, Callable[[], None]]:
    """Build forward and backward pass of a layer, the encoder and the decoder, for 50 sentences."""
    source, lengths, previous = make_batch(length, 50, args.words)["net_input"].values()
    options = {"relpos_max_distance": args.context} if name == "relpos" else {}
    model = build(f"{name}_transformer", args, **options).train()
    x = torch.randn(length, 50, SIZES[args.size][0], requires_grad=True)
    with torch.no_grad():
        encoded = model.encoder(source, lengths)

    def run_layer() -> None:
        model.encoder.layers[0](x, AttentionPlan()).sum().backward()

    def run_encoder() -> None:
        model.encoder(source, lengths)["encoder_out"][0].sum().backward()

    def run_decoder() -> None:
        model.decoder(previous, encoded, features_only=True)[0].sum().backward()

    return {"layer": run_layer, "encoder": run_encoder, "decoder": run_decoder}


def run_modules(args: Namespace) -> None:
    for length in args.lengths or [10, 100]:
        passes = {name: build_passes(name, args, length) for name in ("nopos", "relpos")}
        for module in ("layer", "encoder", "decoder"):
            runs = {name: modules[module] for name, modules in passes.items()}
            measure(runs, args, "nopos", part=module, length=length, context=args.context)


def run_memory(args: Namespace) -> None:
    """Measure systems in processes of their own."""
    if args.in_process:
        make_step(args.systems, args, make_batch(30, TOKENS // 30, args.words))()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    options = [f"--words={args.words}", f"--size={args.size}", "--in-process"]
    for name in args.systems.split(","):
        command = [sys.executable, __file__, "memory", *options, "--systems", name]
        output = subprocess.check_output(command, text=True)
        result = {"part": "memory", "size": args.size, "system": name, "MiB": output.split()[-1]}
        print(json.dumps(result))


def make_generator(model: Any, args: Namespace, length: int, cls: Any = SequenceGenerator) -> Any:
    dictionary = Task(args.words).target_dictionary
    return cls([model.eval()], dictionary, beam_size=4, min_len=length, max_len_b=length)


def run_decode(args: Namespace) -> None:
    batch, runs = make_batch(SENTENCE, 32, args.words), {}
    for arch in ("transformer", "sinpos_transformer", "rope_cross_transformer"):
        generator = make_generator(build(arch, args), args, SENTENCE)
        runs[arch] = lambda g=generator: g.generate(None, batch)
    if args.peers and "transformers" in find_peers():
        marian = build_marian(args.words, *SIZES[args.size]).eval()
        source = batch["net_input"]["src_tokens"]
        options = {"num_beams": 4, "min_new_tokens": SENTENCE, "max_new_tokens": SENTENCE}
        runs["transformers"] = lambda: marian.generate(source, **options)
    measure(runs, args, "transformer", part="decode", size=args.size)


def run_documents(args: Namespace) -> None:
    """Compare documents of sentences with 25 tokens to their sentences alone, 4 rows a batch."""
    arch, rows = "rope_cross_transformer", 4
    plain = build(arch, args)
    sentences = make_generator(plain, args, SENTENCE)
    model = build(arch, args, sentence_context=1)
    documents = make_generator(model, args, SENTENCE, DocumentGenerator)
    for total in args.lengths or [100, 400, 1000, 4000, 16000]:
        text = make_batch(total, rows, args.words)
        text["net_input"]["src_tokens"][:, SENTENCE - 1 : -1 : SENTENCE] = 0
        alone = [make_batch(SENTENCE, rows, args.words) for _ in range(total // SENTENCE)]
        runs = {
            "sentences": lambda alone=alone: [sentences.generate(None, batch) for batch in alone],
            "document": lambda text=text: documents.generate(None, text),
        }
        if total <= 400:
            whole = make_generator(plain, args, total)
            runs["no windows"] = lambda g=whole, text=text: g.generate(None, text)
        measure(runs, args, "sentences", rows * total, part="documents", length=total)
        print(json.dumps({"peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


PARTS = {
    "step": run_step,
    "modules": run_modules,
    "memory": run_memory,
    "decode": run_decode,
    "documents": run_documents,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--words", type=int, default=4000, help="words of the dictionary")
    parser.add_argument("--lengths", type=lambda text: [int(x) for x in text.split(",")])
    parser.add_argument("--systems", default=STEPS, help=f"default: {STEPS}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--context", type=int, default=100, help="relpos of modules: tokens on a side"
    )
    parser.add_argument("--peers", action="store_true", help="also other toolkits, see peers.py")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)  # of memory
    arguments = parser.parse_args()
    torch.manual_seed(1)
    PARTS[arguments.part](arguments)
