"""Small models and batches, and fairseq's commands."""

import contextlib
import importlib
import io
import logging
import multiprocessing
import os
import socket
import subprocess
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import fairseq_cli.train  # before the plugin, as when they run
import fairseq_cli.validate  # noqa: F401
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.logging import metrics
from fairseq.models import build_model

import cape_fairseq.models
import cape_fairseq.tasks  # noqa: F401
from cape_fairseq.options import list_fields
from cape_fairseq.positions import ENCODINGS, Side

ROOT = Path(__file__).resolve().parent.parent
PAD, EOS, WORDS = 1, 2, 60
# Every encoding with its defaults, and options that compute something else.
SYSTEMS = {
    **{name: {} for name in ENCODINGS},
    "sinpos-all": {"position_layers": "all"},
    "abspos-all": {"position_layers": "all"},
    "cape-mean": {"cape_mean_normalize": True, "cape_global_scale": 2.0},
    "relpos-short": {"relpos_max_distance": 3},
    "relpos-shared": {"relpos_terms": "shared"},
    "sinpos-randpos": {"position_augmentation": "randpos"},
    "alibi-randpos": {"position_augmentation": "randpos"},
    "floater-cape": {"floater_base_encoding": "cape"},
    "floater-relpos": {"floater_base_encoding": "relpos", "floater_layers": "input"},
    "floater-rope_cross": {"floater_base_encoding": "rope_cross"},
    "floater-additive": {"floater_form": "additive"},
    "floater-rnn": {"floater_dynamics": "rnn2-scalar"},
    "floater-both": {"floater_share": "both"},
}
SMALL = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 32,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "dropout": 0.0,
}
STOCK = {"decoder_ffn_embed_dim": 32, "share_all_embeddings": True, **SMALL}


class SmallTask:
    """As much of a translation task as building a model needs."""

    cfg = None

    def __init__(self) -> None:
        self.source_dictionary = self.target_dictionary = Dictionary()
        for number in range(WORDS - 4):
            self.source_dictionary.add_symbol(f"w{number}")

    def max_positions(self) -> tuple[int, int]:
        return 1024, 1024


def build(system: str, seed: int = 1, **options):
    """A small model with random weights, in evaluation mode; FLOATER has dynamics that move."""
    torch.manual_seed(seed)
    encoding = system.partition("-")[0]
    given = {**SMALL, "source_scale": None, **SYSTEMS.get(system, {}), **options}
    args = Namespace(arch=f"{encoding}_transformer_tiny", **given)
    model = build_model(args, SmallTask()).eval()
    for name, parameter in model.named_parameters():
        if ".dynamics." in name and "weight" in name:
            torch.nn.init.normal_(parameter, 0, 0.3)
    return model


def build_stock(seed: int = 1, **options):
    """fairseq's own transformer of the same size."""
    torch.manual_seed(seed)
    args = Namespace(arch="transformer", decoder_embed_dim=32, **{**STOCK, **options})
    return build_model(args, SmallTask()).eval()


def build_encoding(name: str, side: str = "encoder", layers: int = 2, dim: int = 16, **options):
    """An encoding alone, with 4 heads."""
    cls = ENCODINGS[name]
    names = {item.name for item in list_fields(cls.config_class)}
    own = {name: options.pop(name) for name in names & options.keys()}
    config = cls.config_class(**own) if own else None
    return cls(Side(side, layers, dim, 4, 50, PAD), config, **options)


def make_batch(lengths: list[int], left: bool = False, seed: int = 0, begin: bool = False):
    """Random sentences of these lengths, EOS last (or first), padded on one side."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(tokens, lengths, strict=True):
        words = torch.randint(4, WORDS, (length,), generator=generator)
        words[0 if begin else -1] = EOS
        row[slice(-length, None) if left else slice(length)] = words
    return tokens


def make_sample(source: torch.Tensor, previous: torch.Tensor, target: torch.Tensor) -> dict:
    """A batch as fairseq's criterions get it."""
    net_input = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": previous}
    return {"net_input": net_input, "target": target, "ntokens": int(target.ne(PAD).sum())}


def run(*command, check: bool = True, gpu: bool = False, **options) -> subprocess.CompletedProcess:
    """Run a command with one thread, and without a GPU by default."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment |= {} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment, **options
    )
    assert not check or result.returncode == 0, result.stdout[-2000:] + result.stderr[-3000:]
    return result


def run_forked(count: int, function: Callable[[int], str]) -> list[str]:
    """Call a function in as many processes side by side, which import nothing again; return what
    each returned, by its number."""
    with multiprocessing.get_context("fork").Manager() as manager:
        found = manager.dict()

        def call(number: int) -> None:
            found[number] = function(number)

        torch.multiprocessing.start_processes(call, nprocs=count, start_method="fork")
        return [found[number] for number in range(count)]


def start_forked(function: Callable[[], None]) -> tuple[int, TextIO]:
    """Call a function in a process that imports nothing again; return the number of the process,
    and a stream of what it prints and logs."""
    read, write = os.pipe()
    process = os.fork()
    if process:
        os.close(write)
        return process, os.fdopen(read)
    status = 1
    try:
        os.dup2(write, 1)
        os.dup2(write, 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
        logging.basicConfig(stream=sys.stdout, level=logging.INFO, force=True)
        function()
        status = 0
    except SystemExit as stop:
        status = stop.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


@contextlib.contextmanager
def capture():
    """Yield a stream of all that is printed and logged."""
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s | %(name)s | %(message)s"))
    level, handlers = root.level, root.handlers
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            yield stream
    finally:
        root.handlers = handlers
        root.setLevel(level)


def make_command(tool: str, *arguments) -> list[str]:
    """The command of fairseq-TOOL with the plugin, for a process of its own."""
    return [sys.executable, "-m", f"fairseq_cli.{tool}", *add_options(tool, arguments)]


def add_options(tool: str, arguments) -> list[str]:
    """Arguments with those that every run of the tests has."""
    arguments = [str(argument) for argument in arguments]
    if tool != "preprocess":
        arguments += ["--user-dir", str(ROOT / "cape_fairseq")]
    if tool not in ("preprocess", "interactive") and "--num-workers" not in arguments:
        # A thread that still reads ahead when a run ends can abort it.
        arguments += ["--num-workers", "0", "--data-buffer-size", "0"]
    return arguments


def fairseq(tool: str, *arguments, check: bool = True, input: str | None = None) -> str:
    """Run fairseq-TOOL with the plugin in this process; return what it printed."""
    main = importlib.import_module(f"fairseq_cli.{tool}").cli_main
    vars(checkpoint_utils.save_checkpoint).pop("best", None)  # of an earlier run
    metrics.reset()
    saved, threads = (sys.argv, sys.stdin), torch.get_num_threads()
    sys.argv, sys.stdin = (
        [f"fairseq-{tool}", *add_options(tool, arguments)],
        io.StringIO(input or ""),
    )
    error = None
    with capture() as stream:
        try:
            main()
        except (Exception, SystemExit) as raised:
            error = raised
            traceback.print_exception(raised)
        finally:
            sys.argv, sys.stdin = saved
            torch.set_num_threads(threads)
    assert not check or error is None, stream.getvalue()[-4000:]
    return stream.getvalue()


def train_options(data: Path, save: Path, arch: str, updates: int) -> list:
    """Options of fairseq-train for a very small model that resumes exactly."""
    return [
        *(data, "--save-dir", save, "--arch", arch, "--max-update", updates, "--cpu"),
        *("--encoder-layers", 1, "--decoder-layers", 1, "--encoder-embed-dim", 32),
        *("--encoder-ffn-embed-dim", 64, "--optimizer", "adam", "--lr", "1e-3"),
        *("--criterion", "label_smoothed_cross_entropy", "--max-tokens", 400),
        *("--no-epoch-checkpoints", "--log-format", "json", "--log-interval", 1),
        *("--update-epoch-batch-itr", "True"),
    ]


def train(
    data: Path, save: Path, *more, arch: str = "cape_transformer_tiny", updates: int = 6, **options
) -> str:
    """Train a very small model; return what fairseq-train printed."""
    return fairseq("train", *train_options(data, save, arch, updates), *more, **options)


def train_in_two(data: Path, save: Path, *more, arch: str, updates: int) -> list[str]:
    """Train in two processes, which use the CPU; return what each printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = ["--distributed-no-spawn", "--distributed-init-method", f"tcp://127.0.0.1:{port}"]
    common += ["--distributed-world-size", 2, "--distributed-backend", "gloo", *more]
    options = [*train_options(data, save, arch, updates), *common, "--distributed-rank"]
    return run_forked(2, lambda rank: fairseq("train", *options, rank))
