"""``cape-fairseq export``: from absolute positions to fairseq's ``transformer``, and from there to
CTranslate2."""

import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from cape_fairseq.command_line import UserError, build_parser
from cape_fairseq.inference.checkpoints import find_data, get_options, load_model, read_checkpoint

EXAMPLES = """
  cape-fairseq export checkpoints/checkpoint_best.pt --output exported
  ct2-fairseq-converter --user_dir $(cape-fairseq path) --model_path exported/model.pt \\
      --data_dir exported --source_lang en --target_lang de --output_dir ct2
"""
DESCRIPTION = (
    "Export a model with absolute positions (sinpos, abspos, nopos, cape, shape, additive floater "
    "at the input) as fairseq's transformer, with its positions as learned tables. CTranslate2 "
    "converts the result."
)
PLUGIN_KEYS = ("positions.", "source_scale", "position_options", "words")


def check_exportable(model: nn.Module, path: Path) -> None:
    """Raise UserError if the model has parts that fairseq's ``transformer`` has not."""
    encoding = getattr(model.encoder, "positions", None)
    if encoding is None:
        raise UserError(f"{path} is a model of stock fairseq already")
    numbers = torch.arange(4.0).unsqueeze(0)
    acts_in_attention = (
        encoding.score_bias(numbers, numbers) is not None
        or encoding.rotation(numbers) is not None
        or encoding.attention_biases(numbers, None, 4)
        or encoding.summarize(numbers, numbers < 0) is not None
        or any(True for _ in model.encoder.layers[0].self_attn.kernel.parameters())
    )
    if acts_in_attention or len(encoding.embed(numbers, 4)) > 1:
        raise UserError(
            f"{path}: {encoding.name} acts in the attention or at several layers; only positions "
            "that are added to the input can be exported"
        )
    if model.cfg.residual_init != "default" or model.encoder.window is not None:
        raise UserError(f"{path}: models with ADMIN or --sentence-context cannot be exported")


@torch.no_grad()
def build_table(side: nn.Module, length: int) -> Tensor:
    """Return the table of ``embed_positions``: zeros up to padding, then ``length`` positions."""
    numbers = torch.arange(float(length)).unsqueeze(0)
    embeddings = side.positions.embed(side.scale_positions(numbers), length)
    dim = side.embed_tokens.embedding_dim
    table = embeddings[0][0] if embeddings else torch.zeros(length, dim)
    return nn.functional.pad(table, (0, 0, side.padding_idx + 1, 0))


def convert(
    model: nn.Module, options: Namespace, languages: tuple[str, str], length: int
) -> dict[str, Any]:
    """Return a checkpoint of fairseq's ``transformer`` with tables of ``length`` positions."""
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, TransformerConfig(), delete_default=True, with_prefix="")
    known = {action.dest for action in parser._actions}
    arguments = {name: value for name, value in vars(options).items() if name in known}
    arguments |= {
        "arch": "transformer",
        "task": "translation",
        "criterion": "cross_entropy",
        "data": "",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "left_pad_source": True,
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "max_source_positions": length,
        "max_target_positions": length,
    }
    state = {
        name: value
        for name, value in model.state_dict().items()
        if not name.partition(".")[2].startswith(PLUGIN_KEYS)
    }
    for name in ("encoder", "decoder"):
        state[f"{name}.embed_positions.weight"] = build_table(getattr(model, name), length)
    return {
        "args": Namespace(**arguments),
        "cfg": None,
        "model": state,
        "optimizer_history": [{"num_updates": 0, "criterion_name": "", "lr_scheduler_state": {}}],
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": {"epoch": 1}},
    }


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("export", DESCRIPTION, EXAMPLES)
    parser.add_argument("checkpoint", type=Path, help="checkpoint of this plugin")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="new folder")
    parser.add_argument("--data", type=Path, help="folder with dict.*.txt")
    parser.add_argument(
        "--max-positions", type=int, default=1024, help="tokens of the longest text (default: 1024)"
    )
    args = parser.parse_args(argv)
    if args.output.exists():
        raise UserError(f"{args.output} exists already; choose another folder")
    options, task = get_options(read_checkpoint(args.checkpoint))
    data, source, target = find_data(args.checkpoint, args.data, task)
    model, _ = load_model(args.checkpoint, data)
    check_exportable(model, args.checkpoint)
    limits = [s.positions.max_length for s in (model.encoder, model.decoder)]
    length = min([args.max_positions, *(limit for limit in limits if limit)])
    state = convert(model, options, (source, target), length)
    args.output.mkdir(parents=True)
    torch.save(state, args.output / "model.pt")
    for language in (source, target):
        shutil.copy(data / f"dict.{language}.txt", args.output)
    if (codes := args.checkpoint.parent / "bpecodes").is_file():
        shutil.copy(codes, args.output)
    print(f"wrote {args.output}/model.pt, up to {length} tokens")
    if model.encoder.bos is not None:
        print("put the token <s> before every source sentence: the model has --source-bos on")
    print(
        f"next: ct2-fairseq-converter --user_dir $(cape-fairseq path) --model_path "
        f"{args.output}/model.pt --data_dir {args.output} --source_lang {source} --target_lang "
        f"{target} --output_dir ct2"
    )
