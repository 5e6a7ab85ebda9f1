"""Write published contrastive sets as ``cape-fairseq contrastive`` reads them.

python scripts/contrastive_sets.py contrapro contrapro contrapro.en contrapro.de
python scripts/contrastive_sets.py voita deixis_test.json deixis.en deixis.ru
python scripts/contrastive_sets.py bawden anaphora.json anaphora.en anaphora.fr

contrapro: Müller et al. 2018, files PREFIX.{context,text}.{en,de} of its json2text_and_context.pl;
voita: Voita et al. 2019, deixis_test.json and so on (en-ru, tokenized: ``--tokenizer space``);
bawden: Bawden et al. 2018, anaphora.json and lexical-choice.json (en-fr).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

Pair = tuple[list[str], list[str]]  # sentences of a source and of a target


def read_contrapro(prefix: str, languages: tuple[str, str] = ("en", "de")) -> Iterator[Pair]:
    """Read ContraPro. The number of context lines comes from the files."""
    files = [f"{prefix}.{kind}.{lang}" for kind in ("context", "text") for lang in languages]
    read = [Path(file).read_text(encoding="utf-8").split("\n")[:-1] for file in files]
    context, rest = divmod(len(read[0]), max(len(read[2]), 1))
    if rest:
        raise ValueError(f"{files[0]} has {rest} lines more than a multiple of those of {files[2]}")
    for i, texts in enumerate(zip(*read[2:], strict=True)):
        earlier = zip(*(lines[i * context : (i + 1) * context] for lines in read[:2]), strict=True)
        pairs = [pair for pair in earlier if all(side.strip() for side in pair)]  # may be empty
        source, target = (list(side) for side in zip(*pairs, texts, strict=True))
        yield source, target


def read_voita(path: str) -> Iterator[Pair]:
    """Read Voita et al."""
    for item in json.loads(Path(path).read_text(encoding="utf-8")):
        right = item["dst"].pop(item["true_ind"])  # not always the first
        for translation in (right, *item["dst"]):
            yield item["src"].split(" _eos "), translation.split(" _eos ")


def read_bawden(path: str) -> Iterator[Pair]:
    """Read Bawden et al."""
    for block in json.loads(Path(path).read_text(encoding="utf-8")).values():
        if "examples" in block:
            examples = [(example["src"], example["trg"]) for example in block["examples"]]
        else:
            examples = [(block["src"], target) for target in block["trg"]]
        for source, target in examples:
            for kind in ("correct", "semi-correct", "incorrect"):
                if kind in target:
                    yield source, target[kind]


READERS = {"contrapro": read_contrapro, "voita": read_voita, "bawden": read_bawden}


def write_lines(pairs: Iterable[Pair], source: Path, target: Path) -> None:
    """Write a line for each text, its sentences joined by `` <s> ``."""
    with source.open("w", encoding="utf-8") as s, target.open("w", encoding="utf-8") as t:
        first: Pair | None = None  # of an item: its right translation
        for pair in pairs:
            if pair == first:  # another item with the same sentences: an empty line between them
                s.write("\n")
                t.write("\n")
            elif first is None or (pair[0], pair[1][:-1]) != (first[0], first[1][:-1]):
                first = pair
            for text, stream in zip(pair, (s, t), strict=True):
                print(" <s> ".join(text), file=stream)


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=READERS)
    parser.add_argument("file", help="a JSON file, or the prefix of ContraPro's files")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    try:
        pairs = list(READERS[args.set](args.file))
    except (OSError, ValueError, LookupError) as error:
        parser.error(f"{args.file} cannot be read as a set of {args.set}: {error!r}")
    write_lines(pairs, args.source, args.target)


if __name__ == "__main__":
    main()
