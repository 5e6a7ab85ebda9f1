"""The papers' data sets: parallel text with pairs left out, joined or reordered.

SHAPE: Extrapolate (:func:`keep_short`), Interpolate (:func:`stack` by sentences with a separator)
and Swapped (:func:`swap_first`). FLOATER: short to long (:func:`by_length`). CAPE: stacks
(:func:`stack`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from cape_fairseq.data.parallel import NOTHING, atomic_writer, read_lines
from cape_fairseq.data.segmentation import Segment, join_subwords, words
from cape_fairseq.data.stacking import Rules, edit_sentence, stacks
from cape_fairseq.errors import UserError

Pair = tuple[str, str]


def read_pairs(source: Path, target: Path) -> Iterator[Pair]:
    """Yield the pairs of a parallel text.

    Raises:
        UserError: the sides have unequal numbers of lines.
    """
    sides = read_lines(source), read_lines(target)
    number = 0
    for number, line in enumerate(sides[0], 1):
        other = next(sides[1], None)
        if other is None:
            raise UserError(
                f"{target} ends after {number - 1} lines, but {source} goes on; they must have "
                "equally many"
            )
        yield line, other
    if next(sides[1], None) is not None:
        raise UserError(
            f"{source} ends after {number} lines, but {target} goes on; they must have equally many"
        )


def write_pairs(
    outputs: dict[str, tuple[Path, Path]], pairs: Iterable[tuple[str, Pair]]
) -> dict[str, int]:
    """Write (name, pair) to the files of that name; all files appear complete, or none does.

    Returns:
        how many pairs each name has.

    Raises:
        UserError: a file cannot be written, two outputs are one file, or there is not one pair.
    """
    counts = dict.fromkeys(outputs, 0)
    paths = [path for sides in outputs.values() for path in sides]
    if len({path.absolute() for path in paths}) < len(paths):
        raise UserError(f"{paths[0]} and another output are the same file; give each side its own")
    for path in paths:
        if path.is_dir():
            raise UserError(f"{path} is a folder; give the name of a file")
    try:
        with ExitStack() as stack:
            streams = {
                name: [stack.enter_context(atomic_writer(path)) for path in sides]
                for name, sides in outputs.items()
            }
            for name, pair in pairs:
                counts[name] += 1
                for stream, line in zip(streams[name], pair, strict=True):
                    stream.write(f"{line}\n")
            if not any(counts.values()):
                raise UserError(
                    f"nothing is left to write to {paths[0]}; check the lengths that were asked for"
                )
    except OSError as error:
        raise UserError(f"the output cannot be written: {error}") from None
    return counts


def spread(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """``count`` pairs at equal distances, or all if there are not so many."""
    count = min(count, len(pairs))
    return [pairs[number * len(pairs) // count] for number in range(count)]


def keep_full(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Pairs of which no side is empty."""
    return (pair for pair in pairs if not any(map(NOTHING.fullmatch, pair)))


def keep_short(pairs: Iterable[Pair], segment: Segment, longest: int) -> Iterator[Pair]:
    """Pairs of which no side has more than ``longest`` tokens (SHAPE, Extrapolate)."""
    return (pair for pair in pairs if all(len(segment(side)) <= longest for side in pair))


def by_length(
    pairs: Iterable[Pair], segment: Segment, edges: Sequence[float]
) -> Iterator[tuple[int, Pair]]:
    """Each pair with the number of its bin: 0 below edges[0], i from edges[i - 1] to below
    edges[i].

    The length is the source's (FLOATER, section 4.3); what is not below the last edge is left out.
    """
    for pair in pairs:
        length = len(segment(pair[0]))
        number = sum(length >= edge for edge in edges)
        if number < len(edges):
            yield number, pair


def stack(
    pairs: Sequence[Pair],
    segment: Segment,
    rules: Rules,
    languages: tuple[str, str] | None,
    separator: str | None = None,
    documents: Sequence[str] | None = None,
) -> Iterator[Pair]:
    """Join consecutive pairs; the operation of the task ``stacked_translation`` on text.

    Args:
        languages: edit at junctions (full stops, capitals) by the abbreviations of these languages;
            None leaves sentences as they are.
        segment: counts tokens for ``rules.min_tokens``; what is written is never segmented.
        separator: a token to put between sentences.
        documents: an id for each pair; stacks end where it changes.

    Raises:
        UserError: the separator is in the text already, or the ids are not one for each pair.
    """
    if documents is not None and len(documents) != len(pairs):
        raise UserError(
            f"there are {len(documents)} document ids for {len(pairs)} pairs; give one for each"
        )
    if separator is not None:
        for number, pair in enumerate(pairs, 1):
            if any(separator in side.split() for side in pair):
                raise UserError(
                    f"line {number} has the separator {separator!r} already; choose another"
                )

    def side(index: int) -> Callable[[int, bool, bool], list[str]]:
        def edit(number: int, lower: bool, comma: bool) -> list[str]:
            line = pairs[number][index]
            return segment(
                edit_sentence(line, lower, comma, languages[index]) if languages else line
            )

        return edit

    separators = ([separator],) * 2 if separator else ([], [])
    for joined in stacks(len(pairs), side(0), side(1), rules, separators, documents):
        lines = (" ".join(tokens) for tokens in (joined.source, joined.target))
        yield tuple(line if segment is words else join_subwords(line) for line in lines)


def swap_first(pairs: Iterable[Pair], separator: str) -> Iterator[Pair]:
    """Move the first of the sentences that ``separator`` divides to the end, on both sides (SHAPE,
    Table 1).

    Raises:
        UserError: the sides of a pair have unequal numbers of separators, or no pair has one.
    """
    most = 0
    for number, pair in enumerate(pairs, 1):
        counts = [side.split().count(separator) for side in pair]
        if counts[0] != counts[1]:
            raise UserError(
                f"line {number} has {counts[0]} and {counts[1]} separators {separator!r}; join "
                "sides alike"
            )
        most = max(most, counts[0])
        yield tuple(_first_last(side.split(), separator) for side in pair)
    if not most:
        raise UserError(
            f"no line has the separator {separator!r}; give the one that sentences were joined with"
        )


def _first_last(tokens: list[str], separator: str) -> str:
    first = tokens.index(separator) if separator in tokens else len(tokens)
    return " ".join([*tokens[first + 1 :], *tokens[first : first + 1], *tokens[:first]])
