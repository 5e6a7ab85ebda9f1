"""Tools that measure speed and memory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from cape_fairseq.cli.tool import Found, Tool, positive
from cape_fairseq.errors import UsageError, UserError
from cape_fairseq.system import cores

PARTS = ("training", "table9", "memory", "decoding")
PRECISIONS = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def add_benchmark(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="(all)")
    add("--device", help="(cuda where there is a GPU, else cpu)")
    add("--precision", choices=list(PRECISIONS), default="fp32", help="(fp32)")
    add("--size", default="_tiny", help="suffix of the architectures (_tiny)")
    add("--words", type=positive, default=4000, help="words of the dictionary (4000)")
    add("--tokens", type=positive, default=4096, help="of a batch, on each side (4096)")
    add(
        "--lengths",
        type=positive,
        nargs="+",
        default=[10, 30, 100, 300],
        help="tokens of a sentence, training (10 30 100 300)",
    )
    add(
        "--variants",
        nargs="+",
        metavar="VARIANT",
        help='what to compare (all; also "sinpos, fast": with the chunked loss, fused adam and '
        '--fast-dropout, and "sinpos, fast, bf16": with --autocast bf16, too)',
    )
    add("--batch", type=positive, default=50, help="sentences of a batch, table9 (50)")
    add("--batch-tokens", type=positive, help="of a batch, table9 (5000 on a CPU, else no limit)")
    add("--memory-length", type=positive, default=1000, help="tokens of a sentence (1000)")
    add("--decoding-length", type=positive, default=25, help="tokens of a sentence (25)")
    add("--rounds", type=positive, default=15, help="of a comparison, at least 5 (15)")
    add("--seconds", type=float, default=120, help="no new round of a comparison after this (120)")
    add("--threads", type=positive, help="on the CPU (PyTorch's default)")


def benchmark(args: Namespace) -> Found:
    import torch

    from cape_fairseq.benchmark import parts, tables
    from cape_fairseq.benchmark.timing import keep_freed_memory

    if args.threads:
        torch.set_num_threads(args.threads)
    args.device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if args.device.split(":")[0] not in ("cpu", "cuda"):
        raise UsageError(f"--device is {args.device}, but it must be cpu or cuda")
    on_gpu = args.device.startswith("cuda")
    if on_gpu and not torch.cuda.is_available():
        raise UserError(f"--device is {args.device}, but PyTorch finds no GPU")
    parts.check(args.size, args.variants or ())
    keep_freed_memory()
    threads = f"{torch.get_num_threads()} CPU threads"
    place = torch.cuda.get_device_name() if on_gpu else threads
    print(
        f"torch {torch.__version__}, {place}, {args.precision}, {args.size or 'base size'}, "
        f"{args.tokens} tokens\n"
    )
    settings = {key: value for key, value in vars(args).items() if key not in ("run", "json")}
    data = {"settings": settings | {"where": place, "torch": torch.__version__}, "measured": []}

    def found():
        dtype = getattr(torch, PRECISIONS[args.precision])
        for part in args.parts:
            measured = list(parts.measure(part, args, dtype))
            data["measured"] += measured
            yield from tables.TABLES[part](measured)

    return Found(found(), data)


def add_serving(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path)
    add("source", type=Path, help="raw text")
    add("reference", type=Path, help="its translation, for BLEU")
    where = "folder with the dictionaries (beside the checkpoint, or where it was trained)"
    add("--data-bin", type=Path, metavar="DIR", help=where)
    add("--beam", type=positive, default=4, help="(4)")
    add("--rounds", type=positive, default=3, help="(3)")
    add("--threads", type=positive, default=cores(), help="(OMP_NUM_THREADS, or all cores)")
    add("--max-positions", type=positive, default=1024, metavar="N", help="of the exports (1024)")


def benchmark_serving(args: Namespace) -> Found:
    from cape_fairseq.benchmark import serving
    from cape_fairseq.data.parallel import read_lines

    result = serving.measure(
        args.checkpoint,
        args.data_bin,
        list(read_lines(args.source)),
        list(read_lines(args.reference)),
        beam=args.beam,
        rounds=args.rounds,
        threads=args.threads,
        positions=args.max_positions,
    )
    return Found([serving.rows(result)], result)


RATIOS = """\
Four parts: training steps against fairseq's own Transformer; CAPE's Table 9 (what relative
positions cost); peak memory; beam search. All variants are measured in turn, in one process; ratios
are medians over rounds, with quartiles in parentheses."""

SYSTEMS = """\
The checkpoint is exported, and each form translates the text in a process of its own, in turn:
fairseq's own transformer, this plugin, CTranslate2 in float32 and in int8. Words a second are those
of the source; loading the model is not counted."""

TOOLS = (
    Tool("benchmark", "measure how fast the encodings are", add_benchmark, benchmark, RATIOS),
    Tool(
        "benchmark-serving",
        "measure how fast a trained model translates, exported and not",
        add_serving,
        benchmark_serving,
        SYSTEMS,
    ),
)
