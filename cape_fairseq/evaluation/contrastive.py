"""``cape-fairseq contrastive``: right translations against wrong ones that differ where context
decides."""

import itertools
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cape_fairseq.command_line import add_results, build_parser, parse_number, write_results
from cape_fairseq.data.rows import build_row
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.reference_scores import Pair, bootstrap_interval, score_pairs
from cape_fairseq.files import read_pairs
from cape_fairseq.inference.segmentation import LOADING, add_segmentation_options, choose_cleaning
from cape_fairseq.inference.translator import Translator

logger = logging.getLogger(__name__)

EXAMPLES = """
  cape-fairseq contrastive checkpoint_best.pt --source test.pronouns.en --target test.pronouns.de
  cape-fairseq contrastive checkpoint_best.pt --source contrapro.en --target contrapro.de \\
      --context 0 --json scores.json
"""
DESCRIPTION = (
    "Measure how often a model scores the right translation above all wrong ones. A line is a text,"
    " its sentences joined by ' <s> '; the last one counts. An item is a run of lines with equal"
    " source and equal earlier target sentences; its first line is right. An empty line on both"
    " sides ends an item, too."
)
MARK = re.compile(r"<s>|_eos\b")


class Item(NamedTuple):
    """A source and the candidates for its last sentence, the right one first."""

    source: list[str]
    earlier: list[str]  # target sentences before
    candidates: list[str]


def read_items(source: Path, target: Path, tokenizer: str | None = None) -> list[Item]:
    """Read a contrastive set; ``tokenizer`` is that of the text.

    Raises:
        UserError: the sides differ in lines or sentences, or an item has one candidate.
    """
    clean, odd = choose_cleaning(tokenizer), []
    texts: list[tuple[list[str], list[str]]] = []
    for number, pair in enumerate(read_pairs(source, target), 1):
        # A separator is what the file has as one, not what cleaning makes of an entity.
        parts = [line.split(" <s> ") if line.strip() else [] for line in pair]
        if any(MARK.search(sentence) for side in parts for sentence in side):
            odd.append(number)
        one, other = ([clean(sentence) for sentence in side] for side in parts)
        if len(one) != len(other):
            raise UserError(
                f"line {number} has {len(one)} source and {len(other)} target sentences; both "
                "sides need as many, joined by ' <s> '"
            )
        texts.append((one, other))
    if odd:
        logger.warning(
            "%s or %s has <s> or _eos inside of a sentence in %d lines, the first is line %d; "
            "sentences are joined by ' <s> '",
            source,
            target,
            len(odd),
            odd[0],
        )
    groups = itertools.groupby(texts, lambda text: (text[0], text[1][:-1]))
    items = [
        Item(source, earlier, [translation[-1] for _, translation in run])
        for (source, earlier), run in groups
        if source  # an empty line divides items
    ]
    if not items:
        raise UserError(f"{source} is empty")
    for item in items:
        if len(item.candidates) < 2:
            raise UserError(f"{target} has no wrong translation beside {item.candidates[0]!r}")
    return items


def borrow_context(items: Sequence[Item], context: int) -> list[Item]:
    """Give each item as many earlier sentences as it has, at most ``context``, of another item that
    has them, as a control."""
    if len(items) < 2:
        raise UserError("--wrong-context needs several items")
    borrowed, shift = [], len(items) // 2
    for number, item in enumerate(items):
        count = min(len(item.earlier), context)
        if count == 0:
            borrowed.append(Item(item.source[-1:], [], item.candidates))
            continue
        # From half the set on, so that neighbours, often of one document, come last.
        numbers = ((number + shift + i) % len(items) for i in range(len(items)))
        others = (items[i] for i in numbers if i != number)
        other = next((other for other in others if len(other.earlier) >= count), None)
        if other is None:
            raise UserError("--wrong-context needs several items with as many earlier sentences")
        source = [*other.source[-count - 1 : -1], item.source[-1]]
        borrowed.append(Item(source, other.earlier[-count:], item.candidates))
    return borrowed


def measure(
    translator: Translator, items: Sequence[Item], context: int, normalize: bool
) -> dict[str, Any]:
    """Measure the share of items whose right translation scores above all wrong ones.

    A score is the sum of log-probabilities of the last sentence with its EOS, or their mean with
    ``normalize``. ``context`` is the number of earlier source sentences.
    """
    pairs = []
    for item in items:
        row = translator.build_rows(item.source, context)[-1]
        source = build_row(row.context, row.text, translator.text.source_dictionary)
        targets = [translator.text.encode_target(candidate) for candidate in item.candidates]
        pairs += [Pair(source, target) for target in targets]
    scores = iter(score_pairs(translator.hub.models[0], pairs))
    right = []
    for item in items:
        found = [next(scores) for _ in item.candidates]
        values = [score.mean() if normalize else score.sum() for score in found]
        right.append(float(values[0] > max(values[1:])))
    return {
        "items": len(items),
        "right": int(sum(right)),
        "accuracy": float(np.mean(right)),
        "interval": bootstrap_interval(right),
        "chance": float(np.mean([1 / len(item.candidates) for item in items])),
    }


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("contrastive", DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("--source", type=Path, required=True, metavar="FILE", help="source text")
    add("--target", type=Path, required=True, metavar="FILE", help="right and wrong translations")
    add_segmentation_options(parser)
    add(
        "--context",
        type=parse_number,
        metavar="N",
        help="earlier source sentences given to the model (default: as in training)",
    )
    add("--wrong-context", action="store_true", help="replace them by another item's, as a control")
    add("--normalize", action="store_true", help="divide scores by the length of the sentence")
    add_results(parser)
    args = parser.parse_args(argv)
    items = read_items(args.source, args.target, args.tokenizer)
    translator = Translator(**{name: getattr(args, name) for name in LOADING})
    context = translator.choose_context(args.context)
    if args.wrong_context:
        items = borrow_context(items, context)
    if any(item.earlier for item in items):
        logger.warning("earlier target sentences are not used: the model sees earlier sources")
    result = measure(translator, items, context, args.normalize)
    text = (
        f"{result['right']} of {result['items']} items right: {100 * result['accuracy']:.1f} ± "
        f"{100 * result['interval']:.1f} % (95 %; chance {100 * result['chance']:.1f} %)"
    )
    write_results(args, text, result)
