"""How fast a trained model translates raw text: fairseq, this plugin, CTranslate2."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.scoring import metric, signature
from cape_fairseq.system import resident

STOCK = "fairseq"


@dataclass(frozen=True)
class Run:
    """One translation of the text by one system.

    Attributes:
        seconds: of translating, without loading the model.
        megabytes: the most memory that the process held.
        texts: translations.
        language: of these.
    """

    seconds: float
    megabytes: float
    texts: list[str]
    language: str


def measure_one(path: str, data: Path | None, lines: Sequence[str], beam: int, threads: int) -> Run:
    """Translate in this process, which does nothing else."""
    import logging
    import os

    logging.disable(logging.WARNING)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    from cape_fairseq import load

    translator = load(path, data=None if Path(path).is_dir() else data, cpu=True)
    sources = lines[: min(len(lines), 8)]
    translator.translate(sources, beam, details=False)  # everything is loaded and warm now
    start = time.perf_counter()
    found = translator.translate(lines, beam, details=False)
    seconds = time.perf_counter() - start
    texts, language = [one.text for one in found], translator.text.settings.target
    return Run(seconds, resident("VmHWM") / 2**20, texts, language)


def apart(*arguments: Any) -> Run:
    """:func:`measure_one` in a process of its own, so that its memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure_one, arguments)


def systems(
    checkpoint: Path, data: Path | None, folder: Path, positions: int
) -> tuple[dict[str, Path], list[str]]:
    """The model in every form -> where it is; and why fairseq's own is left out, if it is.

    Raises:
        UserError: the model has no form that CTranslate2 knows.
    """
    from cape_fairseq.serving import converted, stock

    found, notes = {"this plugin": checkpoint}, []
    try:
        stock.export(checkpoint, folder / "stock", positions, data)
        found = {STOCK: folder / "stock", **found}
    except UserError as error:  # relative and rotary positions, for instance
        notes.append(f"{STOCK} is left out: {error}")
    for name, quantization in (("float32", None), ("int8", "int8")):
        output = folder / name
        converted.export(checkpoint, output, positions, quantization, data)
        found[f"CTranslate2, {name}"] = output
    return found, notes


def measure(
    checkpoint: Path,
    data: Path | None,
    lines: Sequence[str],
    references: Sequence[str],
    *,
    beam: int = 4,
    rounds: int = 3,
    threads: int = 1,
    positions: int = 1024,
) -> dict[str, Any]:
    """Every system in turn, ``rounds`` times.

    Raises:
        UserError: the texts have different lengths, or the model cannot be exported.
    """
    if len(lines) != len(references):
        raise UserError(f"{len(lines):,} lines have {len(references):,} references; give one each")
    with tempfile.TemporaryDirectory() as folder:
        forms, notes = systems(checkpoint, data, Path(folder), positions)
        runs: dict[str, list[Run]] = {name: [] for name in forms}
        for _ in tqdm(range(rounds), desc="translating", unit=" rounds"):
            for name, path in forms.items():
                runs[name].append(apart(str(path), data, lines, beam, threads))
    words = sum(len(line.split()) for line in lines)
    language = runs["this plugin"][0].language
    notes.append(f"sacreBLEU signature: {signature(language)}")
    return {
        "beam": beam,
        "threads": threads,
        "lines": len(lines),
        "words": words,
        "notes": notes,
        "systems": {name: summary(own, words, references) for name, own in runs.items()},
    }


def summary(runs: Sequence[Run], words: int, references: Sequence[str]) -> dict[str, Any]:
    """Medians of a system, and its BLEU."""
    score = metric(runs[0].language).corpus_score(runs[0].texts, [list(references)])
    return {
        "words_per_second": words / statistics.median(run.seconds for run in runs),
        "megabytes": max(run.megabytes for run in runs),
        "bleu": score.score,
        "seconds": [run.seconds for run in runs],
    }


def rows(result: dict[str, Any]) -> Rows:
    """A row for each system; the ratio is to fairseq's own model, else to this plugin."""
    found = result["systems"]
    base = found.get(STOCK, found["this plugin"])["words_per_second"]
    lines = [
        [
            name,
            f"{own['words_per_second']:,.0f}",
            f"{own['words_per_second'] / base:.2f}",
            f"{own['megabytes']:,.0f}",
            f"{own['bleu']:.2f}",
        ]
        for name, own in found.items()
    ]
    head = ["system", "words/s", f"/ {next(iter(found))}", "MB", "BLEU"]
    threads = f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}"
    note = f"beam {result['beam']}, {threads}, {result['lines']:,} lines, {result['words']:,} words"
    return Rows(head, lines, [note, *result["notes"]])
