"""Shift invariance: similarity of hidden states under shifts (SHAPE, Eq. 3, Figure 2)."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset
from tqdm import tqdm

from cape_fairseq.command_line import (
    add_files,
    add_results,
    add_user_dir,
    build_parser,
    format_table,
    parse_count,
    parse_files,
    parse_numbers,
    save_figure,
    write_results,
)
from cape_fairseq.errors import UserError
from cape_fairseq.inference.checkpoints import load_model
from cape_fairseq.positions.sinusoidal import Sinusoidal

EXAMPLES = """
  cape-fairseq shift-invariance sinpos=sinpos.pt shape=shape.pt --data data-bin
  cape-fairseq shift-invariance cape=cape.pt --offsets 0,5,50
"""


BATCH = 16  # sentence pairs


def shift_positions(side: nn.Module, offset: float) -> None:
    """Add ``offset`` to all positions of an encoder or decoder."""
    augmenter = side.augmenter
    augment = type(augmenter).augment
    augmenter.augment = lambda *args: augment(augmenter, *args) + offset


@torch.no_grad()
def compute_states(
    model: nn.Module, net_input: dict[str, Tensor], offset: float
) -> dict[str, tuple[Tensor, Tensor]]:
    """Run a batch with all positions ``offset`` higher; return the states of the last layer
    [B, T, C] of encoder and decoder, and masks bool [B, T], True at real tokens."""
    for side in (model.encoder, model.decoder):
        shift_positions(side, offset)
    encoder_out = model.encoder(net_input["src_tokens"])
    target = net_input["prev_output_tokens"]
    features, _ = model.decoder(target, encoder_out=encoder_out, features_only=True)
    source_mask = ~encoder_out["encoder_padding_mask"][0]
    return {
        "encoder": (encoder_out["encoder_out"][0].transpose(0, 1), source_mask),
        "decoder": (features, target.ne(model.decoder.padding_idx)),
    }


def compute_similarities(
    model: nn.Module, batches: Iterable[dict[str, Tensor]], offsets: Sequence[float]
) -> dict[str, Tensor]:
    """Return the mean cosine similarity of states between offsets, float64 [N, N], by side."""
    sums = {
        side: torch.zeros(len(offsets), len(offsets)).double() for side in ("encoder", "decoder")
    }
    tokens = dict.fromkeys(sums, 0)
    for net_input in batches:
        runs = [compute_states(model, net_input, offset) for offset in offsets]
        for side in sums:
            real = runs[0][side][1]
            units = torch.stack([F.normalize(run[side][0][real].double(), dim=-1) for run in runs])
            sums[side] += torch.einsum("mtc,ntc->mn", units, units)
            tokens[side] += int(real.sum())
    return {side: total / tokens[side] for side, total in sums.items()}


def measure(
    files: dict[str, list[Path]], data: Path, subset: str, sentences: int, offsets: Sequence[float]
) -> dict[str, Any]:
    """Measure the similarity of the last layers' states between offsets, by system and side."""
    systems = {}
    for name, (path,) in files.items():
        model, task, *_ = load_model(path, data)
        if not isinstance(getattr(model.encoder, "encoding", None), Sinusoidal):
            raise UserError(f"{path} has no sinusoids to shift; give a sinpos, shape or cape model")
        task.load_dataset(subset)
        pairs = task.dataset(subset)
        chosen = Subset(pairs, range(min(sentences, len(pairs))))
        batches = tqdm(DataLoader(chosen, BATCH, collate_fn=pairs.collater), desc=name, delay=2)
        found = compute_similarities(model, (batch["net_input"] for batch in batches), offsets)
        systems[name] = {side: values.tolist() for side, values in found.items()}
    return {"offsets": list(offsets), "systems": systems}


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser(
        "shift-invariance",
        "Measure how similar hidden states stay when all positions are shifted.",
        EXAMPLES,
    )
    add_user_dir(parser)
    add_files(parser, "checkpoint of each system", several=False)
    add_results(parser, "similarities between all offsets (SHAPE, Figure 2)")
    parser.add_argument("--data", type=Path, help="binarized data (default: the training's)")
    parser.add_argument("--subset", default="valid", help="split of the data (default: valid)")
    parser.add_argument(
        "--sentences", type=parse_count, default=100, help="first N sentences (default: 100)"
    )
    parser.add_argument(
        "--offsets",
        type=parse_numbers,
        default="0,100,250,500",
        help="shifts of all positions (default: 0,100,250,500)",
    )
    args = parser.parse_args(argv)
    offsets, files = args.offsets, parse_files(args.files, several=False)
    result = measure(files, args.data, args.subset, args.sentences, offsets)
    head = ["system", "side", *(f"{offsets[0]:g} and {offset:g}" for offset in offsets[1:])]
    rows = [
        [name, side, *(f"{value:.4f}" for value in matrix[0][1:])]
        for name, sides in result["systems"].items()
        for side, matrix in sides.items()
    ]
    write_results(args, format_table(head, rows), result, plot)


def plot(result: dict[str, Any], path: Path) -> None:
    """Draw a matrix of similarities for each system and side."""
    from matplotlib.figure import Figure  # it takes half a second

    systems, labels = result["systems"], [f"{offset:g}" for offset in result["offsets"]]
    figure = Figure(figsize=(7, 3.2 * len(systems)), layout="constrained")
    axes = figure.subplots(len(systems), 2, squeeze=False)
    for row, (name, sides) in zip(axes, systems.items(), strict=True):
        for one, (side, matrix) in zip(row, sides.items(), strict=True):
            image = one.imshow(matrix, vmin=0, vmax=1)
            one.set(title=f"{name}, {side}", xlabel="offset", ylabel="offset")
            one.set_xticks(range(len(labels)), labels)
            one.set_yticks(range(len(labels)), labels)
    figure.colorbar(image, ax=axes, label="cosine similarity")
    save_figure(figure, path)
