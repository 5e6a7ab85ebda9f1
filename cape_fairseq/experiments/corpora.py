"""Jobs that make data: the papers' corpora, sets derived from them, the quick start's, users'."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cape_fairseq.data.corpora.table import BINS, CORPORA
from cape_fairseq.errors import UserError
from cape_fairseq.experiments.jobs import Job, Plan, command, given, last_of
from cape_fairseq.experiments.steps import Text, binarize

STAND_IN_PAIRS = ("--train", "600", "--test", "40")
# All kinds of sentence are in training with one number behind them; the longest kind is tested with
# two to five numbers.
SMOKE_EDGES = ("15", "16", "17", "18", "inf")


def prepared(
    plan: Plan, name: str, folder: str, archives: str, options: Sequence[str] = ()
) -> Text:
    """One of the papers' corpora in ``folder``."""
    corpus = CORPORA[name]
    ready = f"{folder}/prepared.txt"
    words = command(
        *("cape-fairseq", "prepare-corpus", name, "--out", folder),
        *("--archives", archives, options),
    )
    made = tuple(job.outputs[0] for job in plan.jobs if job.outputs and job.outputs[0] == archives)
    job = Job(folder, (words,), made, (ready,), stdout=ready, heavy=True, hours=24.0)
    plan.add(job)
    raw = {
        split: f"{folder}/raw/{split}.{corpus.target}" for split in ("valid", *corpus.test_sets())
    }
    if corpus.valid_every:
        del raw["valid"]
    plain = () if corpus.normalize else ("--no-normalize",)
    plain += () if corpus.hyphens else ("--no-aggressive-dashes",)
    codes = f"{folder}/codes"
    return Text(f"{folder}/data-bin", ready, corpus.source, corpus.target, raw, codes, plain)


def stand_ins(plan: Plan, name: str, folder: str) -> str:
    """Small archives in the formats of a corpus -> where they are."""
    words = command("cape-fairseq", "stand-ins", name, folder, STAND_IN_PAIRS)
    plan.add(Job(folder, (("rm", "-rf", folder), words), (), (folder,), folder=True))
    return folder


def segmented(text: Text, split: str) -> tuple[str, str]:
    """Files of a split of a prepared corpus, segmented."""
    folder = text.folder.removesuffix("data-bin") + "bpe"
    return f"{folder}/{split}.{text.source}", f"{folder}/{split}.{text.target}"


def derived(
    plan: Plan, kind: str, text: Text, folder: str, subsets: Sequence[str], smoke: bool = False
) -> Text:
    """SHAPE's and FLOATER's data sets from a prepared corpus; test sets are in the order given."""
    if kind == "short-to-long":
        return short_to_long(plan, text, folder, smoke)
    made, prefixes = [], {}
    for split in ("train", "valid", *subsets):
        # Only training pairs are left out by length; validation and test sets stay.
        if kind == "filter" and split != "train":
            prefixes[split] = segmented(text, split)[0].removesuffix(f".{text.source}")
            continue
        outputs = tuple(f"{folder}/{split}.{lang}" for lang in (text.source, text.target))
        words = command("cape-fairseq", "derive", kind, segmented(text, split), outputs)
        plan.add(Job(f"{folder}/{split}", (words,), (text.ready,), outputs))
        made += outputs
        prefixes[split] = f"{folder}/{split}"
    joined = {"train": prefixes["train"], "valid": prefixes["valid"]}
    joined["test"] = ",".join(prefixes[split] for split in subsets)
    ready = finish(plan, text, folder, joined, made or [text.ready], own_words=kind == "concat")
    original = text.references if kind == "filter" else {}
    more = ("--separator", "<sep>") if kind == "concat" else ()
    found = replace(text, folder=f"{folder}/data-bin", ready=ready, references=original)
    return replace(found, options=(*text.options, *more))


def short_to_long(plan: Plan, text: Text, folder: str, smoke: bool) -> Text:
    """Short pairs to train on, bins of long ones to test on (FLOATER, section 4.3)."""
    edges = SMOKE_EDGES if smoke else BINS
    bins = [f"test.{low}-{high}" for low, high in itertools.pairwise(edges)]
    outputs = [
        f"{folder}/{name}.{lang}"
        for name in ("train", *bins)
        for lang in (text.source, text.target)
    ]
    words = command(
        *("cape-fairseq", "derive", "short-to-long", segmented(text, "train"), folder),
        *("--edges", edges),
    )
    plan.add(Job(f"{folder}/bins", (words,), (text.ready,), tuple(outputs)))
    valid = segmented(text, "valid")[0].removesuffix(f".{text.source}")
    prefixes = {
        "train": f"{folder}/train",
        "valid": valid,
        "test": ",".join(f"{folder}/{name}" for name in bins),
    }
    ready = finish(plan, text, folder, prefixes, outputs)
    return replace(text, folder=f"{folder}/data-bin", ready=ready, references={})


def finish(
    plan: Plan,
    text: Text,
    folder: str,
    prefixes: Mapping[str, str],
    made: Sequence[str],
    own_words: bool = False,
) -> str:
    """Binarize; a separator is a new word, else the words are the corpus's."""
    words = () if own_words else ("--srcdict", f"{text.folder}/dict.{text.source}.txt")
    options = (*text.languages, *words)
    return binarize(plan, f"{folder}/binarize", f"{folder}/data-bin", prefixes, options, made)


def quick_start(plan: Plan) -> Text:
    """The quick start's made-up corpus in text/ and data-bin/."""
    names = ("train", "valid", "test", "test_long")
    raw = tuple(f"text/raw/{split}.{lang}" for split in names for lang in ("en", "de"))
    plan.add(Job("text/corpus", (command("cape-fairseq", "toy-corpus", "text/raw"),), (), raw))
    return own_text(plan, {name: f"text/raw/{name}" for name in names}, "en", "de", 1000)


def own_text(plan: Plan, splits: Mapping[str, str], source: str, target: str, merges: int) -> Text:
    """Tokenized, segmented and binarized parallel text.

    Args:
        splits: train, valid and test sets: prefixes of raw text, plain or as ``PREFIX.LANG.gz``.
    """
    names = list(splits)
    for lang in (source, target):
        raw = [raw_file(splits[name], lang) for name in names]
        made = [f"text/{name}.{lang}" for name in names]
        pairs = [word for pair in zip(raw, made, strict=True) for word in pair]
        words = command("cape-fairseq", "tokenize", lang, pairs)
        inputs = tuple(dict.fromkeys(raw))  # two splits may be one file
        plan.add(Job(f"text/tokenize-{lang}", (words,), inputs, tuple(made)))
    segment(plan, names, source, target, merges)
    prefixes = {"train": "text/bpe.train", "valid": "text/bpe.valid"}
    prefixes["test"] = ",".join(f"text/bpe.{name}" for name in names[2:])
    made = [f"text/bpe.{name}.{lang}" for name in names for lang in (source, target)]
    options = ("--source-lang", source, "--target-lang", target)
    ready = binarize(plan, "text/binarize", "data-bin", prefixes, options, made)
    references = {name: raw_file(splits[name], target) for name in names[2:]}
    return Text("data-bin", ready, source, target, references, "text/codes", ("--books",))


def checked(
    plan: Plan,
    text: Text,
    longest: int,
    options: Sequence[str],
    mix: Sequence[str] = (),
    stack: int | None = None,
) -> Text:
    """The text once its lengths are known to be right, before anything is trained.

    Args:
        longest: tokens that models take.
        options: of fairseq-train.
        mix: options of fairseq-train that mix stacks into training.
        stack: target tokens of a stack of the test set.
    """
    ready = "text/lengths.txt"
    batch = last_of(options, "--max-tokens-valid") or last_of(options, "--max-tokens")
    batches = ("--batch", batch) if batch < longest else ()
    stacks = ("--stack", stack) if stack else ()
    names = ("--stack-probability", "--stack-max-tokens") if mix else ()
    words = command(
        *("cape-fairseq", "check-lengths", text.folder, text.languages),
        *("--longest", longest, batches, stacks, [(name, given(mix, name)) for name in names]),
    )
    plan.add(Job("text/lengths", (words,), (text.ready,), (ready,), stdout=ready))
    return replace(text, ready=ready)


def long_enough(plan: Plan, text: Text, options: Sequence[str], gpus: int = 0) -> Text:
    """The text once it is known that a training comes to the epoch of its first stacks.

    Args:
        options: of fairseq-train, ``--max-update`` among them.
        gpus: of the training.

    Raises:
        UserError: it ends before by ``--max-epoch``.
    """
    first = last_of(options, "--stack-from-epoch") or 1
    if first == 1:
        return text
    last = last_of(options, "--max-epoch") or first
    if last < first:
        raise UserError(
            f"--max-epoch {last} ends the training before epoch {first}, which has the first "
            "stacks; give a larger one, or let them begin earlier"
        )
    if not (updates := last_of(options, "--max-update")):  # as many as it takes
        return text
    limits = {**batch_limits(options, gpus), "--max-update": updates, "--stack-from-epoch": first}
    told = [pair for pair in limits.items() if pair[1]]
    words = command("cape-fairseq", "check-epochs", text.folder, text.languages, told)
    name = f"text/epochs-{'-'.join(str(value or 0) for value in limits.values())}"
    ready = f"{name}.txt"
    plan.add(Job(name, (words,), (text.ready,), (ready,), stdout=ready))
    return replace(text, ready=ready)


def batch_limits(options: Sequence[str], gpus: int) -> dict[str, str | int | None]:
    """What fairseq-train makes batches and updates of, by the options of check-epochs."""
    names = ("--max-tokens", "--batch-size", "--required-batch-size-multiple")
    found: dict[str, str | int | None] = {name: last_of(options, name) for name in names}
    found["--batch-size"] = found["--batch-size"] or last_of(options, "--max-sentences")
    joined = re.findall(r"\d+", given(options, "--update-freq") or "1")
    return {**found, "--update-freq": ",".join(joined), "--gpus": max(gpus, 1)}


def raw_file(prefix: str, lang: str) -> str:
    """PREFIX.LANG, or the gzipped one if only that is there."""
    plain, packed = f"{prefix}.{lang}", f"{prefix}.{lang}.gz"
    return packed if not Path(plain).exists() and Path(packed).exists() else plain


def segment(plan: Plan, names: Sequence[str], source: str, target: str, merges: int) -> None:
    """Joint BPE over the training text."""
    train = tuple(f"text/train.{lang}" for lang in (source, target))
    vocabularies = tuple(f"text/vocab.{lang}" for lang in (source, target))
    words = command(
        *("subword-nmt", "learn-joint-bpe-and-vocab", "--input", train, "-s", merges),
        *("-o", "text/codes", "--write-vocabulary", vocabularies),
    )
    plan.add(Job("text/learn-bpe", (words,), train, ("text/codes", *vocabularies)))
    pairs = [
        (f"text/{name}.{lang}", f"text/bpe.{name}.{lang}")
        for name in names
        for lang in (source, target)
    ]
    commands = tuple(
        command("subword-nmt", "apply-bpe", "-c", "text/codes", "--input", a, "--output", b)
        for a, b in pairs
    )
    inputs = ("text/codes", *(a for a, _ in pairs))
    plan.add(Job("text/apply-bpe", commands, inputs, tuple(b for _, b in pairs)))
