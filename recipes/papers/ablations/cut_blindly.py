"""Translate texts cut every N subwords, which needs no sentences, and print the scores as JSON.

    cut_blindly.py CHECKPOINT DATA-BIN OUTPUT-OF-FAIRSEQ-GENERATE N [--language de]

The texts are those of an output with --tokenizer moses and --remove-bpe, whose references are
scored.
"""

import argparse
import json
import sys
from pathlib import Path

from cape_fairseq import load
from cape_fairseq.evaluation.generated import read_translations
from cape_fairseq.evaluation.scores import score_translations


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("generated", type=Path)
    parser.add_argument("limit", type=int)
    parser.add_argument("--language", default="de")
    args = parser.parse_args()
    texts = read_translations(args.generated)
    translator = load(args.checkpoint, data=args.data)
    translator.long_text, translator.max_subwords = None, args.limit
    sources = [text.source for text in texts]
    found = translator.translate(sources, split=False, beam=1, max_len_a=2, max_len_b=10)
    scores = score_translations(found, [text.reference for text in texts], args.language)
    json.dump({"limit": args.limit, "texts": len(found), **scores}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
