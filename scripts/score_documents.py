"""Scores of document-level translation, beside those of ``cape-fairseq compare``.

score_documents.py bleu REFERENCE NAME=FILE[,FILE...] ...
    Files have a sentence per line and an empty line between documents, as those of
    ``cape-fairseq translate --no-split``; several are the seeds of a system. Prints BLEU and chrF
    of whole documents, BLEU of sentences, the share of sentences kept, and for German the terms:
    capitalized words of five letters or more that the reference repeats in several sentences of
    a document. Recall is the share of their sentences that have the term, consistency that of the
    documents' terms that all of their sentences have.
score_documents.py context DATA_BIN SUBSET NAME=CHECKPOINT[,CHECKPOINT...] ...
    Log-probability of the reference, nats per token: with the right earlier sentences, and by how
    much it exceeds that with sentences of another document and that of the sentence alone (CXMI
    with a control). DATA_BIN has SUBSET.documents.

Spreads are 95 % confidence intervals over seeds.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cape_fairseq.tools import format_table, parse_files
from sacrebleu.metrics import BLEU, CHRF
from scipy.stats import t as student

from cape_fairseq.inference.checkpoints import load_model

TERM = re.compile(r"(?<=[a-zäöüß,] )[A-ZÄÖÜ][\wäöüß-]{4,}")  # not at the start of a sentence


def read_documents(path: Path) -> list[list[str]]:
    """Return the documents of a file, lists of sentences."""
    text = path.read_text(encoding="utf-8").rstrip("\n")
    return [document.split("\n") for document in text.split("\n\n")]


def read_aligned(path: Path, references: list[list[str]]) -> list[list[str]]:
    """Return the documents of a translation, whose sentences may be empty, or one line each."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    if len(lines) < 2 * len(references):
        return [[line] for line in lines[::2]]
    rows = iter(lines)
    return [[next(rows, "") for _ in (*document, "")][:-1] for document in references]


def measure_terms(hypotheses: list[list[str]], references: list[list[str]]) -> dict[str, float]:
    """Return recall and consistency of the terms that a document repeats."""
    found, consistent = [], []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        sentences: dict[str, list[int]] = {}
        for number, sentence in enumerate(reference):
            for term in set(TERM.findall(sentence)):
                sentences.setdefault(term, []).append(number)
        for term, numbers in sentences.items():
            if len(numbers) > 1:
                hits = [term in TERM.findall(hypothesis[number]) for number in numbers]
                found += hits
                consistent.append(all(hits))
    return {"term_recall": np.mean(found or 0), "term_consistency": np.mean(consistent or 0)}


def score(path: Path, references: list[list[str]]) -> dict[str, float]:
    """Score a file; one line a document gives no scores of sentences."""
    hypotheses = read_aligned(path, references)
    texts, expected = ([" ".join(d) for d in side] for side in (hypotheses, references))
    scores = {
        "bleu": BLEU(force=True).corpus_score(texts, [expected]).score,
        "chrf": CHRF().corpus_score(texts, [expected]).score,
    }
    if [len(d) for d in hypotheses] == [len(d) for d in references]:
        lines, right = ([s for d in side for s in d] for side in (hypotheses, references))
        scores["sentence_bleu"] = BLEU().corpus_score(lines, [right]).score
        scores["sentences_kept"] = np.mean([bool(line.strip()) for line in lines])
        scores |= measure_terms(hypotheses, references)
    return {name: float(value) for name, value in scores.items()}


def summarize(seeds: list[dict[str, float]]) -> dict[str, Any]:
    """Return mean, standard deviation and 95 % interval over seeds of each score."""
    summary: dict[str, Any] = {"seeds": len(seeds)}
    for name in seeds[0]:
        values = [seed[name] for seed in seeds]
        summary[name] = {"mean": statistics.fmean(values), "values": values}
        if len(values) > 1:
            deviation = statistics.stdev(values)
            interval = student.ppf(0.975, len(values) - 1) * deviation / len(values) ** 0.5
            summary[name] |= {"deviation": deviation, "interval": float(interval)}
    return summary


def format_interval(found: dict[str, Any]) -> str:
    """Format a mean with its confidence interval, if there are several seeds."""
    spread = f" ± {found['interval']:.2g}" if "interval" in found else ""
    return f"{found['mean']:.4g}{spread}"


def score_last(model: Any, pairs: list[tuple[list[torch.Tensor], list[torch.Tensor]]]) -> Any:
    """Return the log-probabilities of the last sentence of texts, an array for each."""
    dictionary = model.decoder.dictionary
    separator, eos = torch.tensor([dictionary.bos()]), torch.tensor([dictionary.eos()])
    scores = []
    for source, target in pairs:
        texts = [torch.cat([x for s in side[:-1] for x in (s[:-1], separator)] + [side[-1]])
                 for side in (source, target)]  # fmt: skip
        previous = torch.cat([eos, texts[1][:-1]]).unsqueeze(0)
        with torch.no_grad():
            output = model(texts[0].unsqueeze(0), None, previous)
        values = model.get_normalized_probs(output, log_probs=True)[0]
        found = values.gather(1, texts[1].unsqueeze(1)).squeeze(1)
        scores.append(found[-len(target[-1]) :].numpy())
    return scores


def measure_context(path: Path, data: Path, subset: str) -> dict[str, float]:
    """Measure what the right earlier sentences are worth."""
    model, task = load_model(path, data)
    task.load_dataset(subset)
    pairs = [(task.dataset(subset)[i]["source"], task.dataset(subset)[i]["target"])
             for i in range(len(task.dataset(subset)))]  # fmt: skip
    names = (data / f"{subset}.documents").read_text(encoding="utf-8").splitlines()
    context = model.decoder.sentence_context or 0
    # Reach of the windows through the layers on both sides.
    reach = context * (len(model.encoder.layers) + len(model.decoder.layers))
    texts: dict[str, list[Any]] = {"right": [], "wrong": [], "none": []}
    for number in range(1, len(pairs), 3):
        other = (number + len(pairs) // 2) % len(pairs)
        if names[number - 1] != names[number] or names[other] == names[number]:
            continue
        earlier = [i for i in range(max(0, number - reach), number) if names[i] == names[number]]
        wrong = [(other + i) % len(pairs) for i in range(len(earlier))]
        for kind, before in (("right", earlier), ("wrong", wrong), ("none", [])):
            texts[kind].append([[pairs[i][side] for i in (*before, number)] for side in (0, 1)])
    scores = {kind: score_last(model, found) for kind, found in texts.items()}
    tokens = sum(map(len, scores["right"]))
    means = {kind: float(sum(s.sum() for s in found) / tokens) for kind, found in scores.items()}
    return {
        "log_probability": means["right"],
        "over_wrong": means["right"] - means["wrong"],
        "over_none": means["right"] - means["none"],
        "sentences": len(texts["right"]),
    }


def main() -> None:
    mode, *arguments = sys.argv[1:]
    if mode == "bleu":
        references = read_documents(Path(arguments[0]))
        results = {
            name: summarize([score(path, references) for path in paths])
            for name, paths in parse_files(arguments[1:]).items()
        }
    else:
        results = {
            name: summarize([measure_context(p, Path(arguments[0]), arguments[1]) for p in paths])
            for name, paths in parse_files(arguments[2:]).items()
        }
    names = list(dict.fromkeys(n for found in results.values() for n in found if n != "seeds"))
    rows = [
        [name, found["seeds"], *(format_interval(found[n]) if n in found else "-" for n in names)]
        for name, found in results.items()
    ]
    print(format_table(["system", "seeds", *names], rows))
    if mode == "bleu":
        print("sacreBLEU:", BLEU(force=True, references=[["a"]]).get_signature())
    print(json.dumps(results))


if __name__ == "__main__":
    main()
