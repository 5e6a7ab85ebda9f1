"""The four parts of the benchmark; each returns plain data, which the report prints and stores."""

from __future__ import annotations

import gc
import multiprocessing
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from cape_fairseq.benchmark.models import STOCK, RandomTask, build, random_batch, training_step
from cape_fairseq.benchmark.table9 import table9
from cape_fairseq.benchmark.timing import Clock, ratio, row
from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.errors import UsageError
from cape_fairseq.models.architectures import SIZES
from cape_fairseq.system import resident

# Every encoding with its defaults, and what explains a default's cost.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    STOCK: (STOCK, {}),
    **{name: (name, {}) for name in ENCODINGS},
    "cape, no BOS": ("cape", {"source_bos": "off"}),
    "rope, cross": ("rope_cross", {}),
    "relpos, keys": ("relpos", {"relpos_terms": "keys"}),
    "floater, kept": ("floater", {"floater_refresh": 400}),  # in between two solutions
    "sinpos, PyTorch's products": ("sinpos", {"matrix_products": "torch"}),
    "sinpos, oneDNN's products": ("sinpos", {"matrix_products": "onednn"}),
}
BASES = (STOCK, "sinpos")  # what times are compared with
FAST = ", fast"  # with the chunked loss, the fused optimizer and fast dropout
HALF = ", fast, bf16"  # and --autocast bf16
VARIANTS |= {f"{STOCK}{FAST}": (STOCK, {}), f"sinpos{FAST}, fairseq's dropout": ("sinpos", {})}
VARIANTS |= {f"{name}{FAST}": (name, {"fast_dropout": "on"}) for name in ENCODINGS}
VARIANTS |= {
    f"{name}{HALF}": (name, {"fast_dropout": "on", "autocast": "bf16"}) for name in ENCODINGS
}


def check(size: str, variants: Iterable[str]) -> None:
    """
    Raises:
        UsageError: there is no such size or variant.
    """
    if size not in SIZES:
        raise UsageError(f"--size is {size}, but it must be one of {' '.join(filter(None, SIZES))}")
    for variant in variants:
        if variant not in VARIANTS:
            names = ", ".join(VARIANTS)
            raise UsageError(f"--variants has {variant}, but it must be of {names}")


def measure(part: str, args: Any, dtype: torch.dtype) -> Iterable[dict]:
    """The measurements of one part, by the options of ``cape-fairseq benchmark``."""
    clock = Clock(args.device, args.rounds, args.seconds)
    if part == "table9":
        limit = args.batch_tokens or (5000 if clock.device.type == "cpu" else None)
        return table9(clock, args.batch, limit, dtype)
    setting = Setting(clock, args.size, args.words, args.tokens, dtype)
    variants = args.variants or [name for name in VARIANTS if FAST not in name]
    if part == "training":
        return training(setting, args.lengths, with_base(variants, BASES))
    if part == "memory":
        return memory(setting, args.memory_length, with_base(variants, ("sinpos",)))
    return decoding(setting, args.decoding_length, with_base(variants, (STOCK,)))


def with_base(variants: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Each variant once, after the first of ``bases`` where none of these is among them."""
    added = [] if set(bases) & set(variants) else bases[:1]
    return list(dict.fromkeys([*added, *variants]))


class Setting:
    """What all parts share."""

    def __init__(
        self, clock: Clock, size: str, words: int, tokens: int, dtype: torch.dtype
    ) -> None:
        self.clock = clock
        self.device = clock.device
        self.size = size
        self.words = words
        self.task = RandomTask(words)
        self.tokens = tokens
        self.dtype = dtype

    def build(self, variant: str) -> nn.Module:
        torch.manual_seed(1)
        name, options = VARIANTS[variant]
        return build(self.task, name, self.size, **options).to(self.device, self.dtype)

    def step(self, variant: str, length: int) -> Callable[[], object]:
        """A training step on a batch of sentences of ``length`` tokens."""
        sample = random_batch(self.task, max(1, self.tokens // length), length, self.device)
        return training_step(self.task, self.build(variant), sample, FAST in variant)


def training(
    setting: Setting, lengths: Iterable[int], variants: Iterable[str] = VARIANTS
) -> Iterable[dict]:
    """A training step of every encoding against fairseq's Transformer and against sinpos."""
    for length in lengths:
        steps = {variant: setting.step(variant, length) for variant in variants}
        times = setting.clock.interleave(steps, f"training step, {length} tokens")
        for variant, taken in times.items():
            for base in BASES:
                if base in times and base != variant:
                    yield row(
                        "training", variant, length, taken, ratio(taken, times[base]), base=base
                    )


def decoding(
    setting: Setting, length: int, variants: Iterable[str], sentences: int = 64, beam: int = 4
) -> Iterable[dict]:
    """Beam search: words a second of every encoding / those of fairseq's Transformer and of sinpos;
    more is better."""
    sample = random_batch(setting.task, sentences, length, setting.device)
    generators = {variant: _generator(setting, variant, length, beam) for variant in variants}
    cases = {
        variant: partial(_generate, generator, sample) for variant, generator in generators.items()
    }
    times = setting.clock.interleave(cases, f"beam {beam}, {length} tokens")
    for variant, taken in times.items():
        speed = sentences * length / statistics.median(taken)
        for base in BASES:
            if base in times and base != variant:
                faster = ratio(times[base], taken)
                yield row(
                    "decoding", variant, length, taken, faster, base=base, words_per_second=speed
                )


def _generator(setting: Setting, variant: str, length: int, beam: int) -> SequenceGenerator:
    """A search that writes ``length`` tokens for every sentence, whatever the untrained model
    thinks."""
    model = setting.build(variant).eval()
    model.make_generation_fast_()
    fixed = {"max_len_a": 0, "max_len_b": length - 1, "min_len": length - 1}
    return SequenceGenerator([model], setting.task.target_dictionary, beam_size=beam, **fixed)


def _generate(generator: SequenceGenerator, sample: dict[str, Any]) -> None:
    with torch.no_grad():
        generator.generate(generator.model.models, sample)


def memory(setting: Setting, length: int, variants: Iterable[str]) -> Iterable[dict]:
    """Peak memory of a training step over what the process held before the model was built."""
    peaks = {}
    for variant in variants:
        measure = _cuda_peak if setting.device.type == "cuda" else _process_peak
        peaks[variant] = measure(setting, variant, length)
    for variant, peak in peaks.items():
        yield row(
            "memory", variant, length, None, peak / peaks["sinpos"], base="sinpos", bytes=peak
        )


def _cuda_peak(setting: Setting, variant: str, length: int) -> int:
    gc.collect()
    before = torch.cuda.memory_allocated(setting.device)
    torch.cuda.reset_peak_memory_stats(setting.device)
    setting.step(variant, length)()
    return torch.cuda.max_memory_allocated(setting.device) - before


def _process_peak(setting: Setting, variant: str, length: int) -> int:
    """In a fresh process, so that memory which another model has freed is not counted as this
    one's."""
    values = (
        setting.size,
        setting.words,
        setting.tokens,
        setting.dtype,
        torch.get_num_threads(),
        variant,
        length,
    )
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_step_and_peak, values)


def _step_and_peak(
    size: str, words: int, tokens: int, dtype: torch.dtype, threads: int, variant: str, length: int
) -> int:
    torch.set_num_threads(threads)
    setting = Setting(Clock("cpu"), size, words, tokens, dtype)
    before = resident("VmRSS")
    setting.step(variant, length)()
    return resident("VmHWM") - before
