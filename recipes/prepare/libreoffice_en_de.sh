#!/usr/bin/env bash
# LibreOffice help, English-German, whole pages in reading order (MPL-2.0), from the Debian packages
# libreoffice-help-en-us and libreoffice-help-de. Paragraphs are aligned by their id; a paragraph whose
# sides have equally many sentences is cut into them. OUT/raw/*.documents names the page of each line.
#
#   [OUT=data/libreoffice_en_de] [ARCHIVES=FOLDER WITH THE PACKAGES] recipes/prepare/libreoffice_en_de.sh
set -euo pipefail
# shellcheck disable=SC2034
NAME=libreoffice_en_de SRC=en TGT=de
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

extract_package libreoffice-help-en-us
extract_package libreoffice-help-de

# One page in 50 is held out: for the test set if it has at least 60 lines, else for validation.
[ -e "$OUT/raw/done" ] || python - "$OUT" <<'PYTHON'
import hashlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import sentencex


class Page(HTMLParser):
    """Collect the text of elements whose id is that of a paragraph or a heading."""

    def __init__(self):
        super().__init__()
        self.paragraphs, self.current = {}, None

    def handle_starttag(self, tag, attributes):
        name = dict(attributes).get("id") or ""
        if re.match(r"(par|hd)_id", name):
            self.current, self.paragraphs[name] = name, ""

    def handle_endtag(self, tag):
        self.current = None if tag in ("p", "h1", "h2", "h3", "h4", "td", "li") else self.current

    def handle_data(self, data):
        if self.current:
            self.paragraphs[self.current] += data


out = Path(sys.argv[1])
folders = [next(out.glob(f"libreoffice-help-{n}/usr/share/libreoffice/help/{m}/text"))
           for n, m in (("en-us", "en-US"), ("de", "de"))]
files = {f"{s}.{k}": open(out / "raw" / f"{s}.{k}", "w", encoding="utf-8")
         for s in ("train", "valid", "test") for k in ("en", "de", "documents")}
for path in sorted(folders[0].rglob("*.html")):
    name = str(path.relative_to(folders[0]).with_suffix(""))
    sides = []
    for folder in folders if (folders[1] / f"{name}.html").exists() else []:
        page = Page()
        page.feed((folder / f"{name}.html").read_text(encoding="utf-8"))
        sides.append({key: " ".join(text.split()) for key, text in page.paragraphs.items()})
    lines = []
    for key, text in sides[0].items() if sides else ():
        if text and (other := sides[1].get(key)):
            cut = [[s.strip() for s in sentencex.segment(l, t) if s.strip()] for l, t in (("en", text), ("de", other))]
            lines += zip(*cut) if len(cut[0]) == len(cut[1]) else [(text, other)]
    digest = hashlib.sha256(name.encode()).digest()[0]
    split = "train" if digest >= 5 else "test" if len(lines) >= 60 else "valid"
    for line in lines:
        for kind, value in zip(("en", "de", "documents"), (*line, name)):
            print(value, file=files[f"{split}.{kind}"])
PYTHON
touch "$OUT/raw/done"

prepare_text 8000
for split in train valid test; do count "$OUT/tok/$split"; done
