"""What the recipes on small text have in common; each number once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cape_fairseq.data.parallel import check_pair
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.scoring import metric
from cape_fairseq.experiments.corpora import raw_file
from cape_fairseq.experiments.jobs import given, last_of
from cape_fairseq.experiments.steps import BEAM, GENERATE

TINY = (
    *("--optimizer", "fused_adam", "--adam-betas", "(0.9, 0.98)", "--lr", "4e-3"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "500", "--warmup-init-lr", "1e-7"),
    *("--criterion", "label_smoothed_cross_entropy_chunked", "--label-smoothing", "0.1"),
    *("--dropout", "0.1", "--max-tokens", "4096"),
)
OWN = (*TINY, "--fast-dropout", "auto")  # of this project's models; fairseq's do not know it
# The quick start's corpus has short sentences and few words.
QUICK = (*OWN, "--max-tokens", "2048", "--warmup-updates", "200")
QUICK_UPDATES = 900
QUICK_STACK = 100  # tokens; the longest sentence of test_long has 90
# What a recipe's folder has beside its runs.
NOT_RUNS = ("checkpoints", "data-bin", "lock", "logs", "settings", "text")
# Of other sizes than _tiny, as in fairseq's own examples.
LARGER = ("--lr", "5e-4", "--warmup-updates", "4000")
# Of a training that goes on from another one: half of _tiny's peak.
TUNING = ("--lr", "2e-3", "--warmup-updates", "100")
# CAPE without source scale and begin-of-sentence token. The paper has both; together they slow
# learning down on little text in similar word order (docs/length.md).
PLAIN_SOURCE = ("--source-scale", "1", "--source-bos", "off")
# Translations of up to 2 x source + 200 tokens are not cut.
WHOLE = (*BEAM, "--max-len-a", "2", "--max-len-b", "200")
LONGEST = 1024  # tokens that fairseq's models take where nothing else is said


def positions(longest: int) -> tuple[str, ...]:
    """Let models take texts of so many tokens: fairseq leaves out longer ones in training, and a
    learned table (abspos) has as many rows."""
    most = str(longest)
    given = ("--max-source-positions", most, "--max-target-positions", most)
    return given if longest > LONGEST else ()


def longest(options: Sequence[str]) -> int:
    """Tokens of a text, its end mark counted, that models with these options of fairseq-train
    take, and that batches of translation hold."""
    given = [last_of(options, f"--max-{side}-positions") for side in ("source", "target")]
    return min(*(n or LONGEST for n in given), last_of(GENERATE, "--max-tokens"))


def check_stacks(asked: str, mix: Sequence[str], options: Sequence[str]) -> None:
    """
    Args:
        asked: the user's option, in words.
        mix: what it stands for: options of :func:`mixed`, if there are stacks.

    Raises:
        UserError: a batch has no room for it; fairseq would leave out such stacks.
    """
    batch, trained_on = last_of(options, "--max-tokens"), last_of(mix, "--stack-max-tokens")
    if trained_on and trained_on >= batch:
        raise UserError(
            f"{asked} makes stacks of up to {trained_on:,} tokens and an end mark in training, and "
            f"batches have {batch:,} (--max-tokens); give a smaller one"
        )


def sized(arch: str) -> tuple[str, ...]:
    """What other sizes than ``_tiny`` have otherwise."""
    return () if arch.endswith("_tiny") else LARGER


def usual_updates(arch: str) -> int:
    """Of a training where nothing is said."""
    return 2200 if arch.endswith("_tiny") else 20_000


def check_warm_up(options: Sequence[str], updates: int) -> None:
    """
    Raises:
        UserError: the learning rate would rise to the end of the training, and beyond.
    """
    rising = last_of(options, "--warmup-updates") or 0
    if 0 < updates <= rising:  # 0 is no limit
        raise UserError(
            f"--warmup-updates is {rising}, but the training has {updates:,} updates; give a "
            "larger --max-update, or, after --, fewer --warmup-updates"
        )


def warm_up(options: Sequence[str], updates: int) -> tuple[str, ...]:
    """Half of the updates at most, so that a short training reaches its peak, too."""
    most = max(1, updates // 2)
    usual = last_of(options, "--warmup-updates") or 0
    return ("--warmup-updates", str(most)) if usual > most else ()


def tuning(arch: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Half the peak of a training of this size with these options of a user, and a short warm-up.

    Raises:
        UserError: its learning rate is no number.
    """
    peak = given((*sized(arch), *more), "--lr")
    if peak is None:
        return TUNING
    try:
        return (*TUNING, "--lr", f"{float(peak) / 2:g}")
    except ValueError:
        message = f"--lr is {peak}, and a training goes on at half of it; give it one number"
        raise UserError(message) from None


def mixed(tokens: int, from_epoch: int) -> tuple[str, ...]:
    """Training on some stacks of sentences, once short ones have been learned."""
    return (
        *("--task", "stacked_translation", "--stack-junction", "none"),
        *("--stack-probability", "0.5", "--stack-max-tokens", str(tokens)),
        *("--stack-from-epoch", str(from_epoch)),
    )


def stacks(tokens: int) -> tuple[str, ...]:
    """A test set of stacks of at least so many target tokens."""
    return (
        *("--task", "stacked_translation", "--stack-junction", "none"),
        *("--stack-min-tokens", str(tokens)),
    )


def splits(
    data: Path, names: Mapping[str, str], source: str, target: str
) -> tuple[dict[str, str], str]:
    """Prefixes of parallel text by what they are for, and what the texts are.

    Args:
        names: of the files, by train, valid and the test sets' names.

    Raises:
        UserError: a file is missing, not UTF-8, has an empty line, or sides are unequal; sacreBLEU
            needs a package for the language.
    """
    metric(target)
    if not data.is_dir():
        first = next(iter(names.values()))
        raise UserError(
            f"there is no folder {data}; give --data a folder with {first}.{source} and "
            f"{first}.{target}"
        )
    found = {}
    for purpose, name in names.items():
        prefix = str(data.absolute() / name)
        paths = [Path(raw_file(prefix, lang)) for lang in (source, target)]
        for path in paths:
            if not path.exists():
                raise UserError(f"there is no {path.name} or {path.name}.gz in {data}")
        check_pair(*paths)
        found[purpose] = prefix
    return found, f"{data.absolute()} {' '.join(names.values())} {source}-{target}"
