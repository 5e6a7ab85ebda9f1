"""``cape-fairseq encodings``: the position encodings with their options and papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cape_fairseq.options import format_flag, list_choices, list_fields
from cape_fairseq.positions import ENCODINGS, PositionEncoding
from cape_fairseq.tools import UserError, build_parser, write_json

SIZES = ("", "_tiny", "_iwslt_de_en", "_wmt_en_de", "_wmt_en_de_18l", "_vaswani_wmt_en_de_big")
EXAMPLES = """
  cape-fairseq encodings
  cape-fairseq encodings cape floater
"""


def describe(cls: type[PositionEncoding]) -> dict[str, Any]:
    """Return what is known about an encoding."""
    return {
        "encoding": cls.name,
        "description": cls.description,
        "paper": cls.paper,
        "source_scale": cls.default_source_scale,
        "source_bos": cls.default_source_bos,
        "options": {
            format_flag(item.name): {"default": item.default, "choices": list_choices(item),
                                     "help": item.metadata["help"]}
            for item in list_fields(cls.config)
        },
    }  # fmt: skip


def format_encoding(found: dict[str, Any]) -> str:
    """Format an encoding for the terminal."""
    lines = [f"{found['encoding']}: {found['description']}", f"  paper: {found['paper'] or '-'}"]
    lines.append(f"  architecture: {found['encoding']}_transformer{{{','.join(SIZES)}}}")
    lines.append(f"  --source-scale {found['source_scale']} --source-bos {found['source_bos']}")
    for flag, option in found["options"].items():
        values = f" {{{','.join(option['choices'])}}}" if option["choices"] else ""
        lines.append(f"  {flag}{values} (default: {option['default']})\n      {option['help']}")
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("encodings", "List position encodings, options and papers.", EXAMPLES)
    parser.add_argument("names", nargs="*", metavar="NAME", help="encodings (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the list to FILE")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in ENCODINGS]
    if unknown:
        raise UserError(f"there is no encoding {unknown[0]}; there are {', '.join(ENCODINGS)}")
    found = [describe(ENCODINGS[name]) for name in args.names or sorted(ENCODINGS)]
    print("\n\n".join(map(format_encoding, found)))
    if not args.names:
        names = [name for name, cls in ENCODINGS.items() if cls.allows_randpos]
        print(
            "\n--position-augmentation randpos --randpos-range 512 works with "
            f"{', '.join(names)} (https://arxiv.org/abs/2305.16843)"
        )
    write_json(args.json, {"encodings": found})
