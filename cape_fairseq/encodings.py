"""``cape-fairseq encodings``: the position encodings with their options and papers."""

from __future__ import annotations

from dataclasses import Field
from pathlib import Path
from typing import Any

from cape_fairseq.options import format_flag, list_choices, list_fields
from cape_fairseq.positions import ENCODINGS, PositionEncoding
from cape_fairseq.positions.randpos import RandposConfig
from cape_fairseq.tools import UserError, build_parser, write_json

EXAMPLES = """
  cape-fairseq encodings
  cape-fairseq encodings cape floater
"""


def describe_field(item: Field) -> dict[str, Any]:
    """Return name, default, choices and help of an option."""
    return {
        "option": format_flag(item.name),
        "default": item.default,
        "choices": list_choices(item),
        "help": item.metadata["help"],
    }


def describe(cls: type[PositionEncoding]) -> dict[str, Any]:
    """Return what is known about an encoding."""
    return {
        "encoding": cls.name,
        "summary": cls.description,
        "paper": cls.paper,
        "architecture": f"{cls.name}_transformer",
        "source scale": cls.default_source_scale,
        "source BOS": cls.default_source_bos,
        "options": [describe_field(item) for item in list_fields(cls.config)],
    }


def format_encoding(found: dict[str, Any]) -> str:
    """Format an encoding for the terminal."""
    lines = [f"{found['encoding']}: {found['summary']}"]
    lines += [f"  paper: {found['paper']}"] if found["paper"] else []
    lines += [
        f"  architecture: {found['architecture']} (also _tiny, _iwslt_de_en, _wmt_en_de, "
        "_wmt_en_de_18l, _vaswani_wmt_en_de_big)"
    ]
    if found["source scale"] != "1" or found["source BOS"] != "off":
        lines.append(
            f"  defaults: --source-scale {found['source scale']} --source-bos {found['source BOS']}"
        )
    for option in found["options"]:
        values = f" {{{','.join(option['choices'])}}}" if option["choices"] else ""
        lines.append(f"  {option['option']}{values} (default: {option['default']})")
        lines.append(f"      {option['help']}")
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
        option = describe_field(list_fields(RandposConfig)[0])
        print(
            "\n--position-augmentation randpos (https://arxiv.org/abs/2305.16843) works with "
            f"sinpos, rope, alibi, t5, fire and kerple\n  {option['option']} (default: "
            f"{option['default']})\n      {option['help']}"
        )
    write_json(args.json, {"encodings": found})
