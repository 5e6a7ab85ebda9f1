"""Text as it comes from the world: breaks inside lines, invisible characters, entities.

``python -m cape_fairseq.data.cleaning [--breaks] < text`` is a filter of the recipes. A line of the
input, which ends with a line feed and nothing else, is a line of the output.
"""

import html
import re
import sys
import unicodedata

# White space that many tools take for the end of a line.
BREAKS = str.maketrans(dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))
# Soft hyphen, zero-width space, word joiner, byte order mark, grapheme joiner, Mongolian vowel
# separator, emoji selector, and marks, embeddings and isolates of the direction.
INVISIBLE = str.maketrans(
    dict.fromkeys(
        "\u00ad\u200b\u2060\ufeff\u034f\u180e\ufe0f\u061c\u200e\u200f"
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    )
)
# With their semicolon: the parameters of an address (?a=1&copy=2) are none.
ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z]\w*);")


def repair_breaks(line: str) -> str:
    """Turn line breaks inside a line into spaces."""
    return line.translate(BREAKS)


def clean_line(line: str) -> str:
    """Repair breaks, resolve HTML entities, compose letters and marks (NFC), and drop invisible
    characters, but joiners."""
    text = ENTITY.sub(lambda match: html.unescape(match[0]), repair_breaks(line))
    return unicodedata.normalize("NFC", repair_breaks(text).translate(INVISIBLE))


def main(argv: list[str]) -> int:
    """Clean standard input; ``--breaks`` repairs breaks only."""
    clean = repair_breaks if argv == ["--breaks"] else clean_line
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError:
            print(f"cleaning: line {number} is not UTF-8; convert the text first", file=sys.stderr)
            return 1
        sys.stdout.buffer.write(clean(text).encode("utf-8") + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
