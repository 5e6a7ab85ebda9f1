"""``cape-fairseq context-gain``: what earlier sentences are worth, in nats a token.

The log-probability of a sentence's reference with the right earlier sentences, with those of
another document, and with none. Words and EOS are apart.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cape_fairseq.command_line import (
    UserError,
    add_files,
    add_results,
    add_user_dir,
    build_parser,
    format_table,
    parse_count,
    parse_files,
    write_results,
)
from cape_fairseq.data.stacking import read_documents
from cape_fairseq.evaluation.context import (
    Text,
    bootstrap_interval,
    find_reach,
    score_last_sentences,
)
from cape_fairseq.evaluation.scores import summarize_seeds
from cape_fairseq.inference.checkpoints import load_model

EXAMPLES = """
  cape-fairseq context-gain documents=checkpoint_best.pt --data data-bin
  cape-fairseq context-gain documents=s1.pt,s2.pt,s3.pt --data data-bin --subset valid --json x.json
"""
DESCRIPTION = (
    "Measure the log-probability (nats a token) of references with the right earlier sentences, "
    "and by how much it exceeds that with sentences of another document and that without any. The "
    "data have a file SUBSET.documents with the name of each sentence's document, or empty lines "
    "between documents."
)
KINDS = ("right", "wrong", "none")


def read_texts(
    pairs: Any, names: list[str], reach: int, limit: int | None, word: str | None, dictionary: Any
) -> tuple[dict[str, list[Text]], int]:
    """Return the texts of each kind for the sentences that have an earlier one, and the number of
    those that are left out: no other document has as many sentences in a row."""
    texts: dict[str, list[Text]] = {kind: [] for kind in KINDS}
    left_out = 0
    for number in range(1, len(names)):
        first = number
        while first > max(0, number - reach) and names[first - 1] == names[number]:
            first -= 1
        if first == number:
            continue
        if word is not None and word not in dictionary.string(pairs[number]["source"]).split():
            continue
        wrong = find_wrong_context(names, number, number - first)
        if wrong is None:
            left_out += 1
            continue
        last = [number]
        chosen = {"right": range(first, number), "wrong": wrong, "none": range(0)}
        for kind, earlier in chosen.items():
            members = [pairs[i] for i in (*earlier, *last)]
            texts[kind].append(Text([m["source"] for m in members], [m["target"] for m in members]))
        if limit is not None and len(texts["right"]) == limit:
            break
    return texts, left_out


def find_wrong_context(names: list[str], number: int, count: int) -> range | None:
    """Return ``count`` consecutive sentences of another document, searched for from half the corpus
    away, or None if there are none."""
    start = (number + len(names) // 2) % len(names)
    for offset in range(len(names)):
        first = (start + offset) % len(names)
        is_one = names[first : first + count] == [names[first]] * count
        if is_one and names[first] != names[number]:
            return range(first, first + count)
    return None


def compare_scores(scores: dict[str, list[np.ndarray]], part: slice) -> dict[str, Any]:
    """Compare the right context with the others, on words (``slice(None, -1)``) or on EOS
    (``slice(-1, None)``)."""
    sums = {kind: np.array([s[part].sum() for s in found]) for kind, found in scores.items()}
    tokens = np.array([len(s[part]) for s in scores["right"]])
    mean_length = tokens.mean()
    result = {"log_probability": float(sums["right"].sum() / tokens.sum())}
    for kind in ("wrong", "none"):
        gains = (sums["right"] - sums[kind]) / mean_length
        result[f"over_{kind}"] = float(gains.mean())
        result[f"over_{kind}_interval"] = bootstrap_interval(gains)
    return result


def measure_model(
    model: nn.Module, pairs: Any, names: list[str], limit: int | None, word: str | None
) -> dict[str, Any]:
    """Measure one model."""
    reach = find_reach(model)
    if reach == 0:
        raise UserError("the model sees no earlier sentences; train with --sentence-context")
    texts, left_out = read_texts(pairs, names, reach, limit, word, model.encoder.dictionary)
    if not texts["right"]:
        chosen = f" whose source has the token {word}" if word else ""
        if left_out:
            raise UserError(
                f"{left_out} sentences{chosen} have an earlier one, but no other document has as "
                "many sentences for a wrong context"
            )
        raise UserError(f"there is no sentence{chosen} with an earlier one in its document")
    if torch.cuda.is_available():
        model.cuda()
    scores = {kind: score_last_sentences(model, found) for kind, found in texts.items()}
    return {
        "sentences": len(texts["right"]),
        "left_out": left_out,
        "words": compare_scores(scores, slice(None, -1)),
        "eos": compare_scores(scores, slice(-1, None)),
    }


def select_documents(pairs: Any, path: Path) -> tuple[list[Any], list[Any]]:
    """Return the sentence pairs that are no empty lines, and their documents.

    Raises:
        UserError: the data do not say where documents begin.
    """
    names = read_documents(path, pairs.src_sizes, pairs.tgt_sizes)
    if names is None:
        raise UserError(f"there is no {path} with the document of each sentence, and no empty line")
    kept = [i for i, size in enumerate(pairs.src_sizes) if size > 1]
    return [pairs[i] for i in kept], [names[i] for i in kept]


def measure(
    files: dict[str, list[Path]],
    data: Path,
    subset: str = "test",
    limit: int | None = None,
    word: str | None = None,
) -> dict[str, Any]:
    """Measure systems of one or several seeds."""
    systems = {}
    for name, paths in files.items():
        seeds = []
        for checkpoint in paths:
            model, task = load_model(checkpoint, data)
            task.load_dataset(subset)
            pairs, names = select_documents(task.dataset(subset), data / f"{subset}.documents")
            seeds.append(measure_model(model, pairs, names, limit, word))
        systems[name] = seeds
    return {"unit": "nats a token", "subset": subset, "systems": systems}


def format_gain(seeds: list[dict[str, Any]], part: str, kind: str) -> str:
    """Format a gain: its mean with the deviation over seeds, or with the interval of one."""
    found = summarize_seeds([seed[part][f"over_{kind}"] for seed in seeds])
    spread = found["deviation"]
    if spread is None:
        spread = seeds[0][part][f"over_{kind}_interval"]
    return f"{found['mean']:+.4f} ± {spread:.4f}"


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("context-gain", DESCRIPTION, EXAMPLES)
    add_user_dir(parser)
    add_files(parser, "checkpoints of systems with --sentence-context, one for each seed")
    add_results(parser)
    parser.add_argument("--data", type=Path, required=True, help="binarized data")
    parser.add_argument("--subset", default="test", help="subset of the data (default: test)")
    parser.add_argument("--limit", type=parse_count, metavar="N", help="only the first N sentences")
    parser.add_argument("--word", help="only sentences whose source has this token, such as it")
    args = parser.parse_args(argv)
    files = parse_files(args.files)
    result = measure(files, args.data, args.subset, args.limit, args.word)
    rows = [
        [
            name,
            len(seeds),
            seeds[0]["sentences"],
            part,
            f"{np.mean([seed[part]['log_probability'] for seed in seeds]):.4f}",
            format_gain(seeds, part, "none"),
            format_gain(seeds, part, "wrong"),
        ]
        for name, seeds in result["systems"].items()
        for part in ("words", "eos")
    ]
    head = ["system", "seeds", "sentences", "tokens", "right", "right - none", "right - wrong"]
    lines = [
        format_table(head, rows),
        "nats per token; ± is the 95 % interval over sentences, or with several seeds their "
        "standard deviation",
    ]
    lines += [
        f"{name}: {seeds[0]['left_out']} sentences are left out, since no other document has as "
        "many sentences before"
        for name, seeds in result["systems"].items()
        if seeds[0]["left_out"]
    ]
    write_results(args, "\n".join(lines), result)
