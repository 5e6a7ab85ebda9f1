"""BLEU by source length, with bootstrap intervals (FLOATER, Figure 2; SHAPE, Figure 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sacrebleu.significance import _bootstrap_resample
from tqdm import tqdm

from cape_fairseq.data.parallel import read_lines
from cape_fairseq.data.segmentation import CONTINUES, join_subwords
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.bins import bin_members, parse_edges
from cape_fairseq.evaluation.generated import read_generated
from cape_fairseq.evaluation.rows import Rows
from cape_fairseq.evaluation.scoring import metric, signature, texts


class Bleu(NamedTuple):
    """A score, the middle 95 % of its bootstrap samples, and the samples."""

    score: float
    low: float
    high: float
    samples: np.ndarray


def bootstrap(
    hypotheses: Sequence[str], references: Sequence[str], samples: int, language: str | None = None
) -> Bleu:
    """BLEU and ``samples`` resamplings of it.

    sacreBLEU resamples, always from the same seed, so that two systems on the same references are
    sampled alike and their samples can be subtracted (a paired bootstrap).
    """
    scored = metric(language)
    statistics = scored._extract_corpus_statistics(list(hypotheses), [list(references)])
    scores = np.array(
        [score.score for score in _bootstrap_resample(statistics, scored, samples)[1]]
    )
    whole = scored.corpus_score(list(hypotheses), [list(references)]).score
    return Bleu(whole, *np.quantile(scores, [0.025, 0.975]), scores)


def difference(system: Bleu, baseline: Bleu) -> Bleu:
    """What a system gains over a baseline, with the interval of the paired bootstrap."""
    samples = system.samples - baseline.samples
    return Bleu(system.score - baseline.score, *np.quantile(samples, [0.025, 0.975]), samples)


def measure(
    files: dict[str, Path],
    edges: Sequence[str] = ("shape",),
    unit: str = "tokens",
    reference: Path | None = None,
    language: str | None = None,
    samples: int = 1000,
) -> dict[str, Any]:
    """BLEU of systems by source length, and what they gain over the first.

    Args:
        files: outputs of fairseq-generate, by system.
        edges: of the bins, as :func:`parse_edges` takes them.
        unit: of lengths, ``tokens`` as fairseq-generate printed them, or ``words``.
        reference: detokenized references; None takes those in the outputs.
        language: undo Moses' tokenization by its rules, and score as it is scored.
        samples: of the bootstrap.

    Raises:
        UserError: a file is no such output, or systems have different references.
        UsageError: the edges are no edges.
    """
    limits = parse_edges(edges)
    lengths, hypotheses, references, unit = read(files, unit, reference, language)
    bins = {name: members for name, members in bin_members(lengths, limits).items() if members}
    bins["all"] = list(range(len(lengths)))
    scores: dict[str, dict[str, Bleu]] = {name: {} for name in hypotheses}
    for name, members in tqdm(bins.items(), desc="bootstrap", delay=2):
        for system, lines in hypotheses.items():
            pairs = [lines[i] for i in members], [references[i] for i in members]
            scores[system][name] = bootstrap(*pairs, samples, language)
    baseline, *others = scores
    gains = {
        f"{name} - {baseline}": {b: difference(scores[name][b], scores[baseline][b]) for b in bins}
        for name in others
    }
    return {
        "signature": signature(language),
        "unit": unit,
        "sentences": {name: len(members) for name, members in bins.items()},
        "systems": rounded(scores),
        "differences": rounded(gains),
    }


def read(
    files: dict[str, Path], unit: str, reference: Path | None, language: str | None
) -> tuple[list[int], dict[str, list[str]], list[str], str]:
    """Source lengths, translations of each system, references, and the unit of the lengths."""
    runs = {name: read_generated(path) for name, path in files.items()}
    first = next(iter(runs.values()))
    given = list(read_lines(reference)) if reference else None
    hypotheses, references = {}, None
    for name, sentences in runs.items():
        hypotheses[name], own = texts(sentences, language, name, given)
        if references is not None and own != references:
            raise UserError(
                f"{name} has other references than {next(iter(runs))}; compare systems on one test "
                "set"
            )
        references = own
    sources = [join_subwords(s.source) if unit == "words" else s.source for s in first]
    unit = "subwords" if any(CONTINUES in source for source in sources) else "words"
    return [len(source.split()) for source in sources], hypotheses, references, unit


def rounded(scores: dict[str, dict[str, Bleu]]) -> dict[str, dict[str, dict[str, float]]]:
    fields = ("score", "low", "high")
    return {
        name: {b: {f: round(float(getattr(v, f)), 2) for f in fields} for b, v in values.items()}
        for name, values in scores.items()
    }


def rows(result: dict[str, Any]) -> Rows:
    systems, gains = result["systems"], result["differences"]
    lines = [
        [
            name,
            str(count),
            *(f"{values[name]['score']:.2f}" for values in systems.values()),
            *("{score:+.2f} [{low:+.2f}, {high:+.2f}]".format(**v[name]) for v in gains.values()),
        ]
        for name, count in result["sentences"].items()
    ]
    head = [f"source {result['unit']}", "sentences", *systems, *gains]
    return Rows(head, lines, [f"sacreBLEU signature: {result['signature']}"])


TSV_HEAD = ["name", "bin", "sentences", "bleu", "low", "high"]


def tsv(result: dict[str, Any]) -> Iterable[list[Any]]:
    """Every score and difference, a line a bin."""
    for name, values in {**result["systems"], **result["differences"]}.items():
        for b, v in values.items():
            numbers = (f"{v[field]:.2f}" for field in ("score", "low", "high"))
            yield [name, b, result["sentences"][b], *numbers]


def plot(result: dict[str, Any], path: Path) -> None:
    """The differences, or the scores of a single system."""
    from cape_fairseq.evaluation.plots import score_bars

    drawn = {
        name: [(v["score"], (v["high"] - v["low"]) / 2) for v in values.values()]
        for name, values in (result["differences"] or result["systems"]).items()
    }
    label = "difference in BLEU" if result["differences"] else "BLEU"
    score_bars(list(result["sentences"]), drawn, path, label)
