"""``cape-fairseq context-gain``: what earlier sentences are worth, in nats a token.

The log-probability of a sentence's reference after the right earlier source sentences, after those
of another document, and after none. Words and EOS are apart.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from cape_fairseq.command_line import (
    add_files,
    add_results,
    add_user_dir,
    build_parser,
    format_table,
    parse_count,
    parse_files,
    write_results,
)
from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.data.prefixes import drop_prefix, index_prefix, read_prefixes
from cape_fairseq.data.rows import build_row, hide_marks
from cape_fairseq.data.stacking import read_documents
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.reference_scores import Pair, bootstrap_interval, score_pairs
from cape_fairseq.evaluation.scores import summarize_seeds
from cape_fairseq.inference.checkpoints import LoadedModel, load_model

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


class Sides(NamedTuple):
    """The sentences of a data set that are no empty lines."""

    sources: list[Tensor]  # int64 [T] each, with EOS
    targets: list[Tensor]
    documents: list[str]  # of each sentence
    prefix: Tensor  # code of a language that begins every source, int64 [P]

    def build_pair(self, number: int, earlier: Sequence[int], dictionary: Dictionary) -> Pair:
        """Build the row of a sentence, with its translation."""
        words = [hide_marks(self.sources[i][:-1], dictionary) for i in earlier]
        context = [drop_prefix(sentence, self.prefix) for sentence in words]
        return Pair(build_row(context, self.sources[number], dictionary), self.targets[number])


class Choice(NamedTuple):
    """The sentences that are scored, and the earlier sentences of each kind, by number."""

    sentences: list[int]
    earlier: dict[str, list[Sequence[int]]]
    left_out: int  # sentences: no other document has as many in a row


def choose_context(
    names: list[str], context: int, is_chosen: Callable[[int], bool], limit: int | None
) -> Choice:
    """Choose the sentences that have an earlier one, and their context of each kind."""
    choice = Choice([], {kind: [] for kind in KINDS}, 0)
    left_out = 0
    for number in range(1, len(names)):
        first = number
        while first > max(0, number - context) and names[first - 1] == names[number]:
            first -= 1
        if first == number or not is_chosen(number):
            continue
        wrong = find_wrong_context(names, number, number - first)
        if wrong is None:
            left_out += 1
            continue
        choice.sentences.append(number)
        found = {"right": range(first, number), "wrong": wrong, "none": range(0)}
        for kind, earlier in found.items():
            choice.earlier[kind].append(earlier)
        if limit is not None and len(choice.sentences) == limit:
            break
    return choice._replace(left_out=left_out)


def find_wrong_context(names: list[str], number: int, count: int) -> range | None:
    """Return ``count`` consecutive sentences of another document, searched for from half the corpus
    away, or None if there are none."""
    start = (number + len(names) // 2) % len(names)
    for step in range(len(names)):
        first = (start + step) % len(names)
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
    loaded: LoadedModel, sides: Sides, context: int | None, limit: int | None, word: str | None
) -> dict[str, Any]:
    """Measure one model."""
    model, dictionary = loaded.model, loaded.model.encoder.dictionary
    context = loaded.source_context if context is None else context
    if context == 0:
        raise UserError("the model was trained without --source-context; give --context N")

    def is_chosen(number: int) -> bool:
        return word is None or word in dictionary.string(sides.sources[number]).split()

    choice = choose_context(sides.documents, context, is_chosen, limit)
    if not choice.sentences:
        chosen = f" whose source has the token {word}" if word else ""
        if choice.left_out:
            raise UserError(
                f"{choice.left_out} sentences{chosen} have an earlier one, but no other document "
                "has as many sentences for a wrong context"
            )
        raise UserError(f"there is no sentence{chosen} with an earlier one in its document")
    if torch.cuda.is_available():
        model.cuda()
    scores = {}
    for kind, contexts in choice.earlier.items():
        pairs = [
            sides.build_pair(number, earlier, dictionary)
            for number, earlier in zip(choice.sentences, contexts, strict=True)
        ]
        scores[kind] = score_pairs(model, pairs)
    return {
        "context": context,
        "sentences": len(choice.sentences),
        "left_out": choice.left_out,
        "words": compare_scores(scores, slice(None, -1)),
        "eos": compare_scores(scores, slice(-1, None)),
    }


def read_sides(loaded: LoadedModel, data: Path, subset: str) -> Sides:
    """Read the sentence pairs that are no empty lines, and their documents.

    Raises:
        UserError: the data do not say where documents begin.
    """
    loaded.task.load_dataset(subset)
    pairs, path = loaded.task.dataset(subset), data / f"{subset}.documents"
    names = read_documents(path, pairs.src_sizes, pairs.tgt_sizes)
    if names is None:
        raise UserError(f"there is no {path} with the document of each sentence, and no empty line")
    kept = [i for i, size in enumerate(pairs.src_sizes) if size > 1]
    prefix = index_prefix(loaded.task.source_dictionary, read_prefixes(ModelFolder((data,)))[0])
    members = [pairs[i] for i in kept]
    sources, targets = ([member[side] for member in members] for side in ("source", "target"))
    return Sides(sources, targets, [names[i] for i in kept], prefix)


def measure(
    files: dict[str, list[Path]],
    data: Path,
    subset: str = "test",
    context: int | None = None,
    limit: int | None = None,
    word: str | None = None,
) -> dict[str, Any]:
    """Measure systems of one or several seeds."""
    systems = {}
    for name, paths in files.items():
        seeds = []
        for checkpoint in paths:
            loaded = load_model(checkpoint, data)
            sides = read_sides(loaded, data, subset)
            seeds.append(measure_model(loaded, sides, context, limit, word))
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
    add_files(parser, "checkpoints of systems with --source-context, one for each seed")
    add_results(parser)
    parser.add_argument("--data", type=Path, required=True, help="binarized data")
    parser.add_argument("--subset", default="test", help="subset of the data (default: test)")
    parser.add_argument(
        "--context",
        type=parse_count,
        metavar="N",
        help="earlier sentences (default: as in training)",
    )
    parser.add_argument("--limit", type=parse_count, metavar="N", help="only the first N sentences")
    parser.add_argument("--word", help="only sentences whose source has this token, such as it")
    args = parser.parse_args(argv)
    files = parse_files(args.files)
    result = measure(files, args.data, args.subset, args.context, args.limit, args.word)
    write_results(args, format_gains(result), result)


def format_gains(result: dict[str, Any]) -> str:
    """Return the table of the gains of all systems, and what was left out."""
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
    return "\n".join(lines)
