"""Times that can be compared: all cases in turn, round after round, so that a slow moment hits them
all."""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

LEAST_ROUNDS = 5


def keep_freed_memory() -> None:
    """Keep freed memory instead of returning it to the system, as the recipes do: fewer page
    faults, less noise.

    glibc only; elsewhere nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((-4, 0), (-1, -1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD
            mallopt(option, value)


class Ratio(NamedTuple):
    """Time of a case / time of the base in the same round: median and quartiles over rounds."""

    median: float
    low: float
    high: float


class Clock:
    """How to measure: rounds, at most so many seconds for a comparison, and where the work is
    done."""

    def __init__(
        self, device: str, rounds: int = 15, seconds: float = 120.0, warmup: int = 2
    ) -> None:
        self.device = torch.device(device)
        self.rounds = max(rounds, LEAST_ROUNDS)
        self.seconds = seconds
        self.warmup = warmup

    def once(self, case: Callable[[], object]) -> float:
        """Seconds that one call takes, the device's work included."""
        self.wait()
        begin = time.perf_counter()
        case()
        self.wait()
        return time.perf_counter() - begin

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def interleave(
        self, cases: Mapping[str, Callable[[], object]], title: str
    ) -> dict[str, list[float]]:
        """Time every case once a round, after ``warmup`` rounds that do not count -> seconds by
        case.

        The order changes from round to round, since a case can leave a cache warm or cold for the
        next. Stops early after five rounds when the time for a comparison is used up.
        """
        times: dict[str, list[float]] = {name: [] for name in cases}
        shuffled = random.Random(0)
        begin = time.perf_counter()
        with tqdm(total=(self.warmup + self.rounds) * len(cases), desc=title, leave=False) as bar:
            for number in range(self.warmup + self.rounds):
                counts = number >= self.warmup
                if (
                    number >= self.warmup + LEAST_ROUNDS
                    and time.perf_counter() - begin > self.seconds
                ):
                    break
                for name in shuffled.sample(list(cases), len(cases)):
                    taken = self.once(cases[name])
                    bar.update()
                    if counts:
                        times[name].append(taken)
        return times


def ratio(times: list[float], base: list[float]) -> Ratio:
    """Compare two cases of :meth:`Clock.interleave` round by round."""
    low, median, high = statistics.quantiles([a / b for a, b in zip(times, base, strict=True)], n=4)
    return Ratio(median, low, high)


def row(
    part: str, case: str, length: int, times: list[float] | None, value: Ratio | float, **more: Any
) -> dict:
    """One measurement: ``value`` is a ratio to ``base``, with its quartiles where there are
    rounds."""
    median, *spread = value if isinstance(value, Ratio) else (value,)
    seconds = None if times is None else statistics.median(times)
    return {
        "part": part,
        "case": case,
        "length": length,
        "seconds": seconds,
        "ratio": median,
        "spread": spread,
        **more,
    }
