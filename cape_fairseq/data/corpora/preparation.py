"""The steps from archives to binarized data; each leaves its files complete or not at all, and is
skipped when done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from subword_nmt.learn_joint_bpe_and_vocab import create_parser, learn_joint_bpe_and_vocab
from tqdm import tqdm

from cape_fairseq.data.corpora.archives import extract, fetch
from cape_fairseq.data.corpora.binarizing import binarize
from cape_fairseq.data.corpora.cleaning import is_clean, same_length
from cape_fairseq.data.corpora.formats import READERS
from cape_fairseq.data.corpora.table import Corpus, Part
from cape_fairseq.data.corpora.tokens import (
    CHUNK,
    chunked,
    count_tokens,
    tokenize_chunk,
    worker_map,
    write_counting,
)
from cape_fairseq.data.derived import read_pairs, write_pairs
from cape_fairseq.data.parallel import read_lines, write_lines
from cape_fairseq.data.segmentation import read_codes
from cape_fairseq.errors import UserError


class Preparation:
    """Prepares one corpus in ``out``; ``manifest.json`` there counts pairs and tokens after every
    step.

    Args:
        limit: at most so many pairs of each part of the training text, and a twentieth of that of
            each test set.
    """

    def __init__(
        self, name: str, corpus: Corpus, archives: Path, out: Path, workers: int, limit: int | None
    ) -> None:
        self.name, self.corpus, self.archives, self.out = name, corpus, archives, out
        self.workers, self.limit = workers, limit
        self.languages = (corpus.source, corpus.target)
        self.manifest_path = out / "manifest.json"
        self.manifest: dict[str, Any] = {"corpus": name, "limit": limit, "steps": {}}
        if self.manifest_path.exists():
            found = json.loads(self.manifest_path.read_text(encoding="utf-8"))
            if (found.get("corpus"), found.get("limit")) != (name, limit):
                raise UserError(
                    f"{out} was made for {found.get('corpus')} with limit {found.get('limit')}; "
                    "choose another --out"
                )
            self.manifest = found

    def step(self, name: str, run: Callable[[], dict[str, Any]]) -> None:
        """Run a step unless the manifest has it, and binarized data are still there."""
        lost = name == "binarize" and not (self.out / "data-bin").exists()
        if name in self.manifest["steps"] and not lost:
            print(f"{self.name}: {name}: done before")
            return
        print(f"{self.name}: {name} ...", flush=True)
        self.manifest["steps"][name] = run()
        write_lines(self.manifest_path, [json.dumps(self.manifest, indent=2)])
        print(f"{self.name}: {name}: {self.manifest['steps'][name]}", flush=True)

    def run(self) -> None:
        """
        Raises:
            UserError: an archive cannot be had, is damaged or lacks a file; sides differ; a tool
                fails.
        """
        for split, parts in self.splits():
            self.step(f"extract {split}", partial(self.extract, split, parts))
        for split, _ in self.splits():
            self.step(f"tokenize {split}", partial(self.tokenize, split))
        self.step("clean and split", self.clean)
        self.step("learn BPE", self.learn_bpe)
        for split in self.final_splits():
            self.step(f"apply BPE {split}", partial(self.apply_bpe, split))
        self.step("binarize", self.binarize)

    def splits(self) -> list[tuple[str, tuple[Part, ...]]]:
        return [
            ("train", self.corpus.train),
            *([("valid", self.corpus.valid)] if self.corpus.valid else []),
            *self.corpus.test_sets().items(),
        ]

    def final_splits(self) -> list[str]:
        names = [name for name, _ in self.splits()]
        return names if "valid" in names else [names[0], "valid", *names[1:]]

    def files(self, kind: str, split: str) -> tuple[Path, Path]:
        return tuple(self.out / kind / f"{split}.{language}" for language in self.languages)

    def part_files(self, part: Part) -> list[Path]:
        """Both sides of a part, extracted."""
        found = []
        for index, language in enumerate(self.languages):
            url, member = part.of_side(index, language)
            found += extract(fetch(url, self.archives), [member], self.out / "extracted")
        return found

    def most(self, split: str) -> int | None:
        """How many pairs of a part are taken."""
        return self.limit if self.limit is None or split == "train" else max(self.limit // 20, 1)

    def extract(self, split: str, parts: tuple[Part, ...]) -> dict[str, Any]:
        counts: dict[str, int] = {}

        def pairs() -> Iterator[tuple[str, tuple[str, str]]]:
            for part in parts:
                files = self.part_files(part)
                before = sum(counts.values())
                sides = [
                    list(READERS[part.form](path)) if part.form != "text" else path
                    for path in files
                ]
                lines = same_length(files, *sides) if part.form != "text" else read_pairs(*files)
                for pair in islice(lines, self.most(split)):
                    counts[files[0].name] = counts.get(files[0].name, 0) + 1
                    yield "", tuple(" ".join(line.split()) for line in pair)
                if sum(counts.values()) == before:
                    raise UserError(f"{files[0]} has no sentences")

        total = write_pairs({"": self.files("raw", split)}, pairs())[""]
        return {"pairs": total, "parts": counts}

    def tokenize(self, split: str) -> dict[str, Any]:
        """Moses' tokenization in parallel, as the corpus has it."""
        counts = {}
        for language, raw, output in zip(
            self.languages, self.files("raw", split), self.files("tokenized", split), strict=True
        ):
            work = partial(
                tokenize_chunk, language=language, corpus=self.corpus, test=split != "train"
            )
            with worker_map(self.workers) as mapped:
                chunks = mapped(work, chunked(read_lines(raw)))
                bar = tqdm(
                    chunks,
                    desc=f"{split}.{language}",
                    unit=f" x {CHUNK:,} lines",
                    mininterval=2,
                    delay=2,
                )
                counts[language] = write_counting(output, (line for chunk in bar for line in chunk))
        pairs = next(iter(counts.values()))[0]
        return {
            "pairs": pairs,
            "tokens": {language: tokens for language, (_, tokens) in counts.items()},
        }

    def clean(self) -> dict[str, Any]:
        """Leave out training pairs by the corpus's limits in words, and take the validation pairs
        out.

        Which pair is the n-th is counted as fairseq's scripts do: among those left, where words are
        limited; else among all lines, since subwords are limited later.
        """
        limits = self.corpus if self.corpus.unit == "words" else None
        # A slice would have no validation pairs where every thousandth is one.
        every = min(self.corpus.valid_every, 20) if self.limit else self.corpus.valid_every
        outputs = {
            "train": self.files("clean", "train"),
            **({"valid": self.files("clean", "valid")} if every else {}),
        }
        tokens = {name: [0, 0] for name in outputs}

        def chosen() -> Iterator[tuple[str, tuple[str, str]]]:
            clean = 0
            for line, pair in enumerate(read_pairs(*self.files("tokenized", "train")), 1):
                if is_clean(
                    pair, limits.longest if limits else 10**9, limits.ratio if limits else 10**9
                ):
                    clean += 1
                    name = (
                        "valid" if every and (clean if limits else line) % every == 0 else "train"
                    )
                    count_tokens(tokens[name], pair)
                    yield name, pair

        return {
            "pairs": write_pairs(outputs, chosen()),
            "tokens": {n: self.by_language(c) for n, c in tokens.items()},
        }

    def by_language(self, counts: Iterable[int]) -> dict[str, int]:
        return dict(zip(self.languages, counts, strict=True))

    def learn_bpe(self) -> dict[str, Any]:
        train = self.files("clean", "train")
        codes = self.out / "codes"
        arguments = [
            "--input",
            *map(str, train),
            "-s",
            str(self.corpus.merges),
            "-o",
            f"{codes}.tmp",
            "--write-vocabulary",
            *(str(self.out / f"vocabulary.{language}") for language in self.languages),
            "--num-workers",
            str(self.workers),
        ]
        learn_joint_bpe_and_vocab(create_parser().parse_args(arguments))
        Path(f"{codes}.tmp").replace(codes)
        return {"merges": sum(1 for _ in read_lines(codes)) - 1}

    def apply_bpe(self, split: str) -> dict[str, Any]:
        """Segment a split; what comes from the training text is cleaned again where the limits are
        in subwords."""
        ours = split == "train" or (split == "valid" and self.corpus.valid_every > 0)
        files = self.files("clean" if ours else "tokenized", split)
        bpe = read_codes(self.out / "codes")
        limited = ours and self.corpus.unit == "subwords"
        tokens = [0, 0]

        def pairs() -> Iterator[tuple[str, tuple[str, str]]]:
            for pair in tqdm(read_pairs(*files), desc=split, unit=" pairs", mininterval=2, delay=2):
                segmented = tuple(bpe.process_line(line) for line in pair)
                if not limited or is_clean(segmented, self.corpus.longest, self.corpus.ratio):
                    count_tokens(tokens, segmented)
                    yield "", segmented

        count = write_pairs({"": self.files("bpe", split)}, pairs())[""]
        return {"pairs": count, "tokens": self.by_language(tokens)}

    def binarize(self) -> dict[str, Any]:
        tests = [name for name in self.final_splits() if name.startswith("test")]
        folder = self.out / "data-bin"
        binarize(self.out / "bpe", tests, self.languages, folder, self.workers)
        train = self.manifest["steps"]["apply BPE train"]
        pairs, tokens = train["pairs"], train["tokens"]
        # End marks count in fairseq.
        source, target = (tokens[language] + pairs for language in self.languages)
        return {"alpha": round(target / source, 4), "folder": folder.name}
