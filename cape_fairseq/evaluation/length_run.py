"""What one training of :mod:`cape_fairseq.experiments.recipes.length` reached on ordinary and on
long text.

Its folder has the log of the training and outputs of fairseq-generate on the test set and on stacks
of it (``--stack-junction none``): translations in test.out and stacks.out, scores of the references
in score_stacks.out.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cape_fairseq.checkpoints import TRAINED
from cape_fairseq.data.books import detokenize
from cape_fairseq.data.parallel import read_json, read_lines
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.generated import Sentence, read_generated, read_scored
from cape_fairseq.evaluation.output_length import of_one
from cape_fairseq.evaluation.position_loss import by_bin, loss_matrix
from cape_fairseq.evaluation.scoring import metric, signature, texts
from cape_fairseq.evaluation.training_log import Log, read

FAR = (100, 300)  # target positions beyond most training lengths
BIN = 20  # target positions in a bin of the curves
ENDS = tuple(".!?。！？।॥؟۔։።")  # of sentences; stacks have nothing else between them


def measure(
    run: Path, language: str | None = None, references: Path | None = None
) -> dict[str, Any]:
    """What one training reached.

    Args:
        run: its folder.
        language: undo Moses' tokenization by its rules, and score as it is scored.
        references: the tokenized test set; without it the references are those of the outputs,
            where a piece that the dictionary lacks is unknown.

    Raises:
        UserError: something of it is missing, or the stacks are not of the test set.
    """
    log = read(run / "logs" / "training.log")
    verses, stacks = (read_generated(run / f"{name}.out") for name in ("test", "stacks"))
    losses = loss_matrix([s.scores for s in read_scored(run / "score_stacks.out")], end=False)
    far = losses[:, slice(*FAR)]
    every = {update: values.get("loss", math.nan) for update, values in log.valid.items()}
    losses_by_update = {update: loss for update, loss in every.items() if math.isfinite(loss)}
    return {
        "updates": log.updates,
        "seconds": seconds(run, log),
        "best_update": min(losses_by_update, key=losses_by_update.__getitem__, default=None),
        "valid_loss": min(losses_by_update.values(), default=None),
        **trained_with(run),
        "test_text": digest(verses, stacks),
        **scores(verses, stacks, language, references, run),
        "stack_loss": round(float(np.nanmean(losses)), 4),
        "far_loss": round(float(np.nanmean(far)), 4) if np.isfinite(far).any() else None,
        "position_loss": curve(losses),
        **of_one(stacks, ENDS, language),
        "signature": signature(language),
    }


def seconds(run: Path, log: Log) -> float:
    """Of the whole training: fairseq logs those of a start that came to its end."""
    if (run / TRAINED).exists():
        trained = read_json(run / TRAINED, "starts", "wall_seconds")
        if len(trained["starts"]) > 1 or not log.seconds:
            return trained["wall_seconds"]
    return round(log.seconds, 1)


def trained_with(run: Path) -> dict[str, str]:
    """The text and the options of the training, the seed apart, where its folder has them."""
    if not (run / TRAINED).exists():
        return {}
    trained = read_json(run / TRAINED, "settings", "data")
    options = re.sub(r"--seed[ =]\S+ ?", "", " ".join(trained["settings"]))
    return {"data": trained["data"], "options": options.strip()}


def digest(verses: list[Sentence], stacks: list[Sentence]) -> str:
    """What identifies the references of sentences and of stacks."""
    lines = [f"{sentence.reference}\n" for sentence in (*verses, *stacks)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def curve(losses: np.ndarray) -> list[float]:
    """Mean losses [S, T] -> of each bin of target positions that half of the stacks fill."""
    filled = int(np.median((~np.isnan(losses)).sum(1))) // BIN
    if not filled:
        return []
    return by_bin(losses, range(0, (filled + 1) * BIN, BIN)).mean.round(4).tolist()


def scores(
    verses: list[Sentence],
    stacks: list[Sentence],
    language: str | None,
    references: Path | None,
    run: Path,
) -> dict[str, float]:
    """BLEU of sentences, of stacks, and of the sentences' translations, joined as the stacks are.

    Sentences are detokenized one by one, as whoever cuts text into sentences does, and references
    always are: Moses tells opening quotes from closing ones by counting them, so that one that is
    missing would turn all that follow.
    """
    given = None if references is None else list(read_lines(references))
    if given is not None and language is not None:
        given = list(detokenize(given, language))
    translations, wanted = texts(verses, language, str(run / "test.out"), given)
    numbers = parts(verses, stacks, run)
    long = joined(wanted, numbers)
    whole, _ = texts(stacks, language, str(run / "stacks.out"), long)
    pairs = {
        "bleu": (translations, wanted),
        "stack_bleu": (whole, long),
        "split_bleu": (joined(translations, numbers), long),
    }
    bleu = metric(language)
    return {
        key: round(bleu.corpus_score(ours, [theirs]).score, 2)
        for key, (ours, theirs) in pairs.items()
    }


def joined(sentences: Sequence[str], numbers: Sequence[range]) -> list[str]:
    """Sentences as stacks of these numbers."""
    return [" ".join(sentences[number] for number in own) for own in numbers]


def parts(verses: list[Sentence], stacks: list[Sentence], run: Path) -> list[range]:
    """The numbers of the sentences that each stack is made of.

    Raises:
        UserError: a stack is not made of the next sentences.
    """
    found: list[range] = []
    for number, stack in enumerate(stacks):
        start = stop = found[-1].stop if found else 0
        text = ""
        while text != stack.reference:
            if stop == len(verses) or not stack.reference.startswith(text):
                raise UserError(
                    f"{run}: stack {number} is not made of sentences of test.out; stack the same "
                    "test set with --stack-junction none"
                )
            text = f"{text} {verses[stop].reference}".lstrip()
            stop += 1
        found.append(range(start, stop))
    return found
