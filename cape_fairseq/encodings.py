"""``cape-fairseq encodings``: the position encodings with their options and papers."""

from cape_fairseq.options import format_flag, list_choices, list_fields
from cape_fairseq.positions import ENCODINGS, PositionEncoding
from cape_fairseq.tools import UserError, build_parser

SIZES = "{,_tiny,_iwslt_de_en,_wmt_en_de,_wmt_en_de_18l,_vaswani_wmt_en_de_big}"
EXAMPLES = """
  cape-fairseq encodings
  cape-fairseq encodings cape floater
"""


def describe(cls: type[PositionEncoding]) -> str:
    """Describe an encoding with its options."""
    lines = [f"{cls.name}: {cls.description}", f"  paper: {cls.paper or '-'}"]
    lines.append(f"  architecture: {cls.name}_transformer{SIZES}")
    lines.append(
        f"  --source-scale {cls.default_source_scale} --source-bos {cls.default_source_bos}"
    )
    for item in list_fields(cls.config):
        choices = list_choices(item)
        values = f" {{{','.join(choices)}}}" if choices else ""
        lines.append(f"  {format_flag(item.name)}{values} (default: {item.default})")
        lines.append(f"      {item.metadata['help']}")
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("encodings", "List position encodings, options and papers.", EXAMPLES)
    parser.add_argument("names", nargs="*", metavar="NAME", help="encodings (default: all)")
    names = parser.parse_args(argv).names or sorted(ENCODINGS)
    for name in names:
        if name not in ENCODINGS:
            raise UserError(f"there is no encoding {name}; there are {', '.join(ENCODINGS)}")
    print("\n\n".join(describe(ENCODINGS[name]) for name in names))
