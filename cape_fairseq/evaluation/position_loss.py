"""Loss by target position: mean negative log-likelihood of the reference (CAPE, Figure 8)."""

import itertools
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cape_fairseq.command_line import (
    add_files,
    add_results,
    build_parser,
    format_table,
    parse_count,
    parse_files,
    plot_axes,
    write_results,
)
from cape_fairseq.evaluation.generated import read_runs

EXAMPLES = """
  fairseq-generate data-bin --user-dir $(cape-fairseq path) --path checkpoint_best.pt \\
      --task stacked_translation --score-reference > stacks.txt
  cape-fairseq position-loss cape=stacks.txt --plot loss.png
  cape-fairseq position-loss cape=cape.1.txt,cape.2.txt sinpos=sinpos.1.txt,sinpos.2.txt
"""


MIN_TEXTS = 10  # of a position; an error over fewer is no estimate
LINES = ("-", "--", "-.", ":")
BAND = "standard deviation over seeds, or of one seed the standard error over texts"


class Curve(NamedTuple):
    """Loss of groups of positions; each entry is an array [groups]."""

    sentences: np.ndarray  # sentences with a token in the group
    mean: np.ndarray  # nats
    error: np.ndarray  # standard error over sentences, or standard deviation over seeds


def build_matrix(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Turn log-probabilities of sentences into losses [sentences, T], NaN at the end. EOS is left
    out: its position is where a sentence happens to end."""
    matrix = np.full((len(scores), max(map(len, scores)) - 1), np.nan)
    for row, values in zip(matrix, scores, strict=True):
        row[: len(values) - 1] = -values[:-1]
    return matrix


def count_positions(matrix: np.ndarray) -> int:
    """Return the number of positions that ten texts reach, or all texts if there are fewer."""
    texts = (~np.isnan(matrix)).sum(0)
    return int((texts >= min(MIN_TEXTS, len(matrix))).sum())


def average(losses: np.ndarray, tokens: np.ndarray) -> Curve:
    """Average sums of losses over numbers of tokens, both [sentences, groups].

    Tokens of a sentence are not independent, so the error is that of a mean of clusters.
    """
    count, sentences = tokens.sum(0), (tokens > 0).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = losses.sum(0) / count
        squares = ((losses - mean * tokens) ** 2).sum(0) * sentences / (sentences - 1)
        return Curve(sentences, mean, np.sqrt(squares) / count)


def format_mean(mean: float, error: float) -> str:
    """Format a mean with its error, which a single sentence lacks."""
    return f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ± {error:.3f}"


def average_spans(matrix: np.ndarray, starts: Sequence[int], stops: Sequence[int]) -> Curve:
    """Average the positions of each span, from ``starts[i]`` to before ``stops[i]``."""
    real = ~np.isnan(matrix)
    sums = [
        np.cumsum(np.pad(values.astype(float), ((0, 0), (1, 0))), axis=1)
        for values in (np.where(real, matrix, 0), real)
    ]
    return average(*(total[:, stops] - total[:, starts] for total in sums))


def average_seeds(curves: list[Curve]) -> Curve:
    """Average the curves of seeds; a single seed keeps its error over sentences."""
    if len(curves) == 1:
        return curves[0]
    means = np.stack([curve.mean for curve in curves])
    return Curve(curves[0].sentences, means.mean(0), means.std(0, ddof=1))


def measure(files: dict[str, list[Path]], window: int = 15, bin_size: int = 25) -> dict[str, Any]:
    """Measure the loss by position of outputs of ``--score-reference``, a file for each seed.

    Returns the ``edges`` of the bins and, by system, the curves ``bins``, ``smooth`` and ``all``;
    the first two end where fewer than ten texts go on.
    """
    systems = {}
    for name, seeds in read_runs(files).items():
        matrices = [build_matrix([s.scores for s in sentences]) for sentences in seeds]
        length = count_positions(matrices[0])
        cut = [matrix[:, :length] for matrix in matrices]
        edges = [*range(0, length, bin_size), length]
        near = np.arange(length) - (window - 1) // 2
        spans = near.clip(min=0), (near + window).clip(max=length)
        curves = {
            "bins": average_seeds([average_spans(m, edges[:-1], edges[1:]) for m in cut]),
            "smooth": average_seeds([average_spans(m, *spans) for m in cut]),
            "all": average_seeds([average_spans(m, [0], [m.shape[1]]) for m in matrices]),
        }
        systems[name] = {
            kind: {key: values.tolist() for key, values in curve._asdict().items()}
            for kind, curve in curves.items()
        }
    return {"unit": "nats", "window": window, "edges": edges, "systems": systems}


def format_result(result: dict[str, Any]) -> str:
    """Format the loss of each bin."""
    edges, systems = result["edges"], result["systems"]

    def cells(kind: str, i: int) -> list[str]:
        curves = [system[kind] for system in systems.values()]
        return [format_mean(c["mean"][i], c["error"][i]) for c in curves]

    first = next(iter(systems.values()))
    rows = [
        [f"{a}-{b - 1}", first["bins"]["sentences"][i], *cells("bins", i)]
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    ]
    rows.append(["all", first["all"]["sentences"][0], *cells("all", 0)])
    table = format_table(["target position", "texts", *systems], rows)
    return f"{table}\nnats per token; ± is the {BAND}"


def plot(result: dict[str, Any], path: Path, train_length: int | None) -> None:
    """Plot the smoothed curves with their errors, and the training length."""
    with plot_axes(path, "target position", "loss (nats per token)") as axes:
        title = f"mean of {result['window']} positions; band: {BAND}"
        axes.set_title(title, size="small")
        systems = result["systems"].items()
        for (name, curves), line in zip(systems, itertools.cycle(LINES), strict=False):
            mean, error = (np.array(curves["smooth"][key]) for key in ("mean", "error"))
            axes.plot(mean, line, label=name)
            axes.fill_between(np.arange(len(mean)), mean - error, mean + error, alpha=0.25)
        if train_length is not None:
            label = f"training length ({train_length} tokens without EOS)"
            axes.axvline(train_length, color="grey", linestyle="--", label=label)


def parse_train_length(text: str | None) -> int | None:
    """Parse a number of tokens without EOS, whose loss is left out, or find that of a checkpoint's
    training."""
    if text is None or text.isdecimal():
        return int(text) if text else None
    from cape_fairseq.inference.checkpoints import read_train_length  # it imports fairseq

    return read_train_length(Path(text)) - 1


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("position-loss", "Measure the loss of each target position.", EXAMPLES)
    add_files(parser, "outputs of fairseq-generate --score-reference, one for each seed")
    add_results(parser, "loss over the target position, a curve for each system")
    parser.add_argument(
        "--bin-size", type=parse_count, default=25, help="positions per bin (default: 25)"
    )
    parser.add_argument(
        "--window", type=parse_count, default=15, help="positions smoothed (default: 15)"
    )
    parser.add_argument(
        "--train-length",
        metavar="N|CHECKPOINT",
        help="training length in tokens without EOS, or the checkpoint: drawn, and compared with "
        "the end of the curve",
    )
    args = parser.parse_args(argv)
    train_length = parse_train_length(args.train_length)
    result = measure(parse_files(args.files), args.window, args.bin_size)
    plot_result = partial(plot, train_length=train_length)
    write_results(args, format_result(result), result, plot_result)
    end = result["edges"][-1]
    if train_length is not None and end <= train_length:
        reason = f"no position beyond the training length {train_length} was measured"
        print(f"{reason}; join longer stacks", file=sys.stderr)
