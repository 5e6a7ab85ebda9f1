#!/usr/bin/env bash
# The Bible, English (Berean Standard Bible) and German (Elberfelder 1905), both in the public domain:
# consecutive verses are running text. OUT/raw/*.documents names the book of each verse.
#
# Without a connection, fill OUT/raw with {train,valid,test}.{en,de,documents} and touch OUT/raw/done.
#
#   [OUT=data/bible_en_de] [ARCHIVES=FOLDER WITH BSB.csv GerElb1905.csv] recipes/prepare/bible_en_de.sh
set -euo pipefail
# shellcheck disable=SC2034
NAME=bible_en_de SRC=en TGT=de
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for text in BSB GerElb1905; do
    [ -e "$OUT/raw/done" ] || fetch "https://raw.githubusercontent.com/scrollmapper/bible_databases/master/formats/csv/$text.csv"
done

# Verses that both texts have, in order; five books for validation, two for the test.
[ -e "$OUT/raw/done" ] || python - "$ARCHIVES/BSB.csv" "$ARCHIVES/GerElb1905.csv" "$OUT/raw" <<'PYTHON'
import csv
import sys
from contextlib import ExitStack

VALID = {"Ruth", "Nehemiah", "Esther", "Jonah", "Philippians"}
TEST = {"Joshua", "John"}


def read(path):
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {(r["Book"], r["Chapter"], r["Verse"]): " ".join(r["Text"].split()) for r in rows}


english, german = map(read, sys.argv[1:3])
with ExitStack() as stack:
    names = [f"{s}.{k}" for s in ("train", "valid", "test") for k in ("en", "de", "documents")]
    files = {n: stack.enter_context(open(f"{sys.argv[3]}/{n}", "w", encoding="utf-8")) for n in names}
    for verse, text in english.items():
        if text and german.get(verse):
            split = "valid" if verse[0] in VALID else "test" if verse[0] in TEST else "train"
            for kind, value in (("en", text), ("de", german[verse]), ("documents", verse[0])):
                print(value, file=files[f"{split}.{kind}"])
PYTHON
touch "$OUT/raw/done"

prepare_text 4000
count "$OUT/tok/train" 26,991
count "$OUT/tok/valid" 806
count "$OUT/tok/test" 1,531
