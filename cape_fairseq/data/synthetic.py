"""``cape-fairseq synthetic-corpus``: English-German documents of a small grammar.

Context decides about pronouns: *it* is er, sie or es by the gender of the thing in the sentence
before. Some nouns have two translations of different gender, of which training text has one or the
other at random; then only the translation before decides.
"""

import random
from pathlib import Path
from typing import Any

from cape_fairseq.command_line import build_parser, format_table
from cape_fairseq.data.grammar import (
    Pair,
    PronounSentence,
    Sentence,
    make_choice_sentences,
    make_pronoun_sentence,
    make_sentence,
)
from cape_fairseq.files import write_atomically, write_folder

EXAMPLES = """
  cape-fairseq synthetic-corpus corpus
  cape-fairseq synthetic-corpus corpus --seed 2
"""
DESCRIPTION = (
    "Write a small English-German corpus of documents in which pronouns need context: splits "
    "train, valid and test (.en, .de, .documents), and contrastive sets test.pronouns and "
    "test.choice (.en, .de)."
)
SIZES = {"train": 8000, "valid": 300, "test": 720}  # sentences
LENGTHS = {"train": (8, 16), "valid": (8, 16), "test": (20, 24)}  # sentences of a document
FOLLOWED = 1 / 3  # share of the sentences with a single thing that a pronoun follows
CHOICE_ITEMS = 60


class Corpus:
    """Documents of all splits, and contrastive sets from the test documents.

    No sentence is in two splits but short ones with a pronoun, of which no pair with the sentence
    before it is.
    """

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.seen: set[str] = set()  # sources without a pronoun
        self.documents: dict[str, list[list[Pair]]] = {}
        # Items by the gender of the right pronoun: the right candidate, then the wrong ones.
        self.pronouns: dict[str, list[list[Pair]]] = {}
        for split in SIZES:
            self.documents[split] = self.make_split(split)
        self.choice = self.make_choice_items()

    def make_split(self, split: str) -> list[list[Pair]]:
        """Make the documents of a split."""
        documents: list[list[Pair]] = []
        while sum(map(len, documents)) < SIZES[split]:
            documents.append(self.make_document(split))
        return documents

    def make_document(self, split: str) -> list[Pair]:
        """Make a document; in training text some things have one of two translations."""
        document: list[Pair] = []
        length = self.rng.randint(*LENGTHS[split])
        while len(document) < length:
            if split == "train" and self.rng.random() < 0.1:
                sentence = self.rng.choice(make_choice_sentences(self.rng))
            else:
                sentence = make_sentence(self.rng)
            if sentence.source in self.seen:
                continue
            self.seen.add(sentence.source)
            document.append((sentence.source, sentence.target))
            if sentence.thing is not None and self.rng.random() < FOLLOWED:
                follower = make_pronoun_sentence(self.rng)
                target = follower.translate(sentence.thing.gender)
                document.append((follower.source, target))
                if split == "test":
                    item = make_item(sentence, follower)
                    self.pronouns.setdefault(sentence.thing.gender, []).append(item)
        return document

    def balance_pronouns(self) -> list[list[Pair]]:
        """Return as many items of each gender."""
        count = min(map(len, self.pronouns.values()))
        return [item for gender in "mfn" for item in self.pronouns[gender][:count]]

    def make_choice_items(self) -> list[list[Pair]]:
        """Make items of things with two translations: each source with both target contexts, and
        each context with the right and the wrong pronoun."""
        items: list[list[Pair]] = []
        while len(items) < 2 * CHOICE_ITEMS:
            sentences, follower = make_choice_sentences(self.rng), make_pronoun_sentence(self.rng)
            genders = [sentence.thing.gender for sentence in sentences]
            source = sentences[0].source
            if source in self.seen or len({follower.pronouns[g] for g in genders}) < 2:
                continue
            self.seen.add(source)
            items.append(make_item(sentences[0], follower, genders))
            items.append(make_item(sentences[1], follower, genders[::-1]))
        return items


def make_item(
    sentence: Sentence, follower: PronounSentence, genders: list[str] | None = None
) -> list[Pair]:
    """Make a contrastive item: two sentences with the right pronoun, then with wrong ones."""
    right = sentence.thing.gender
    candidates = genders or [right, *(gender for gender in "mfn" if gender != right)]
    source = f"{sentence.source} <s> {follower.source}"
    return [
        (source, f"{sentence.target} <s> {follower.translate(gender)}") for gender in candidates
    ]


def write_pairs(folder: Path, name: str, pairs: list[Pair]) -> None:
    """Write both sides of parallel text."""
    for side, language in enumerate(("en", "de")):
        with write_atomically(folder / f"{name}.{language}") as stream:
            stream.writelines(f"{pair[side]}\n" for pair in pairs)


def write_corpus(corpus: Corpus, folder: Path) -> list[list[Any]]:
    """Write the files of a corpus; return the rows of a table of its sets."""
    rows: list[list[Any]] = []
    for split, documents in corpus.documents.items():
        pairs = [pair for document in documents for pair in document]
        write_pairs(folder, split, pairs)
        with write_atomically(folder / f"{split}.documents") as stream:
            for number, document in enumerate(documents, 1):
                stream.writelines(f"{split}-{number}\n" for _ in document)
        rows.append([split, len(documents), len(pairs)])
    for name, items in (
        ("test.pronouns", corpus.balance_pronouns()),
        ("test.choice", corpus.choice),
    ):
        write_pairs(folder, name, [pair for item in items for pair in item])
        rows.append([name, len(items), sum(map(len, items))])
    return rows


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("synthetic-corpus", DESCRIPTION, EXAMPLES)
    parser.add_argument("folder", type=Path, help="folder for train.en, train.de, valid.en, ...")
    parser.add_argument("--seed", type=int, default=1, help="seed (default: 1)")
    args = parser.parse_args(argv)
    with write_folder(args.folder) as folder:
        rows = write_corpus(Corpus(args.seed), folder)
    print(format_table(["set", "documents or items", "pairs"], rows))
