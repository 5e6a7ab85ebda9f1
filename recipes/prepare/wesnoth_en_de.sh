#!/usr/bin/env bash
# Battle for Wesnoth 1.16: dialogue and narration of the campaigns in the order of the story (GPL-2+), from the Debian
# packages wesnoth-1.16-*. A string whose sides have equally many sentences is cut into them. OUT/raw/*.documents
# names the scenario of each line. Two Brothers is for validation, Northern Rebirth the test set.
#
#   [TGT=de] [OUT=data/wesnoth_en_$TGT] [ARCHIVES=FOLDER WITH THE PACKAGES] recipes/prepare/wesnoth_en_de.sh
#
# TGT is a language of the game: de, fr, ru ...
set -euo pipefail
TGT=${TGT:-de}
# shellcheck disable=SC2034
NAME=wesnoth_en_$TGT SRC=en
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

for campaign in httt ei dm trow nr low l did dw sof sota sotbe thot tsg ttb; do extract_package "wesnoth-1.16-$campaign"; done

[ -e "$OUT/raw/done" ] || python - "$OUT" "$TGT" <<'PYTHON'
import gettext
import re
import sys
from pathlib import Path

import sentencex

SPLITS = {"Two_Brothers": "valid", "Northern_Rebirth": "test"}
STRING = re.compile(r'(?:\b(\w+)\s*=\s*)?_\s*"((?:[^"]|"")*)"')  # _ "text", in which "" is a quote
LABELS = ("name", "description", "user_team_name", "label", "option")  # no dialogue
LONGEST = 80  # words


def clean(text):
    """Remove tags and what says for translators where a text stands."""
    text = re.sub(r"^[\w ]+\^", "", text)
    return " ".join(re.sub(r"<[^<>]*>", " ", text).split())


def read_strings(path, translations):
    """Yield the strings of a scenario and their translations; repeated ones once."""
    seen = set()
    for label, string in STRING.findall(path.read_text(encoding="utf-8")):
        string = string.replace('""', '"')
        if label in LABELS or string in seen or string not in translations:
            continue
        seen.add(string)
        source, target = clean(string), clean(translations[string])
        if " " in source and target:
            yield source, target


out, lang = Path(sys.argv[1]), sys.argv[2]
files = {f"{s}.{k}": open(out / "raw" / f"{s}.{k}", "w", encoding="utf-8")
         for s in ("train", "valid", "test") for k in ("en", lang, "documents")}
pattern = "wesnoth-1.16-*/usr/share/games/wesnoth/*/data/campaigns/*"
for campaign in sorted(out.glob(pattern), key=lambda path: path.name):
    for path in sorted((campaign / "scenarios").rglob("*.cfg")):
        domain = re.search(r"#textdomain (\S+)", path.read_text(encoding="utf-8"))
        catalog = domain and campaign.parents[2] / "locale" / lang / "LC_MESSAGES" / f"{domain[1]}.mo"
        if not catalog or not catalog.exists():
            continue
        with catalog.open("rb") as stream:
            translations = gettext.GNUTranslations(stream)._catalog
        for pair in read_strings(path, translations):
            cut = [[s.strip() for s in sentencex.segment(l, t) if s.strip()] for l, t in zip(("en", lang), pair)]
            for line in zip(*cut) if len(cut[0]) == len(cut[1]) else [pair]:
                if max(len(side.split()) for side in line) <= LONGEST:
                    split = SPLITS.get(campaign.name, "train")
                    for kind, value in zip(("en", lang, "documents"), (*line, f"{campaign.name}/{path.stem}")):
                        print(value, file=files[f"{split}.{kind}"])
PYTHON
[ -s "$OUT/raw/test.$TGT" ] || stop "the packages have no text in $TGT; give a language of the game as TGT"
touch "$OUT/raw/done"

prepare_text 4000
for split in train valid test; do count "$OUT/tok/$split"; done
