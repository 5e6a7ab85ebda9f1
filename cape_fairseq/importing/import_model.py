"""``cape-fairseq import``: translation models of Hugging Face become checkpoints."""

import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

import cape_fairseq.models  # noqa: F401  (registers the architecture)
from cape_fairseq.command_line import build_parser
from cape_fairseq.data.prefixes import PREFIXES
from cape_fairseq.errors import UserError
from cape_fairseq.files import write_folder
from cape_fairseq.importing import import_checkpoint
from cape_fairseq.importing.hugging_face import PretrainedModel, read_folder, warn_of_added_words
from cape_fairseq.inference.checkpoints import build_checkpoint
from cape_fairseq.inference.segmentation import build_sentencepiece
from cape_fairseq.options import format_flag

EXAMPLES = """
  cape-fairseq import opus-mt-en-de imported
  cape-fairseq import nllb-200-distilled-600M imported --source-lang eng_Latn --target-lang deu_Latn
  cape-fairseq import checkpoint_best.pt imported
  cape-fairseq translate imported/model.pt < text.en > text.de
"""
DESCRIPTION = (
    "Import a translation model of Hugging Face: Marian (OPUS-MT), M2M-100 or NLLB. MODEL has "
    "config.json, model.safetensors or pytorch_model.bin, and the files of the tokenizer. OUT gets "
    "a checkpoint of sinpos_transformer, dictionaries, SentencePiece models, options.txt (what "
    "fairseq-train needs to fine-tune it) and prefixes.json (codes of languages for translate). "
    "MODEL may also be a checkpoint of fairseq, whose dictionaries and segmentation lie beside it."
)
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# What configuration, vocabulary and parameters raise that do not fit together.
MISMATCHES = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
NO_SCORE = -100.0  # of <s> and <pad>: their probability is zero in float32
TOKENIZER_FILES = {  # models of SentencePiece, with their names beside a checkpoint
    "marian": {"source.spm": "source.spm", "target.spm": "target.spm"},
    "m2m_100": {"sentencepiece.bpe.model": "sentencepiece.model"},
}


class Languages(NamedTuple):
    """The languages of a pair, and the codes that begin each text."""

    source: str
    target: str
    prefixes: dict[str, list[str]]  # of "source" and "target"


def read_eos(config: dict[str, Any]) -> int:
    """Return the index of EOS; M2M-100's is 2."""
    eos = config.get("eos_token_id", 2)
    return eos[0] if isinstance(eos, list) else eos


def read_start(config: dict[str, Any]) -> int:
    """Return the index of the token that decoding starts with: EOS, if M2M-100 has none."""
    start = config["decoder_start_token_id"]
    return read_eos(config) if start is None else start


def choose_options(config: dict[str, Any]) -> dict[str, Any]:
    """Return the options of ``sinpos_transformer`` that a configuration asks for.

    Raises:
        UserError: fairseq lacks the activation.
    """
    activation = config.get("activation_function", "relu")
    if activation not in ACTIVATIONS:
        raise UserError(
            f"the model's activation is {activation}; supported are {', '.join(ACTIVATIONS)}"
        )
    is_marian = config["model_type"] == "marian"
    options: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        options[f"{side}_embed_dim"] = config["d_model"]
        options[f"{side}_ffn_embed_dim"] = config[f"{side}_ffn_dim"]
        options[f"{side}_layers"] = config[f"{side}_layers"]
        options[f"{side}_attention_heads"] = config[f"{side}_attention_heads"]
    options |= {
        "activation_fn": ACTIVATIONS[activation],
        "sinusoid": "vaswani" if is_marian else "fairseq",
        "no_scale_embedding": not config.get("scale_embedding", not is_marian),
        "encoder_normalize_before": not is_marian,
        "decoder_normalize_before": not is_marian,
        "output_bias": is_marian,
    }
    # Marian decodes from another token than EOS, whose embedding becomes that of the decoder's EOS.
    shares = config.get("share_encoder_decoder_embeddings", True)
    ties = config.get("tie_word_embeddings", True)
    starts_with_eos = read_start(config) == read_eos(config)
    options["share_all_embeddings"] = shares and ties and starts_with_eos and not is_marian
    return options


def convert_parameters(model: PretrainedModel) -> dict[str, Tensor]:
    """Return the parameters by fairseq's names, rows of words in the dictionaries' order."""
    config, state, source, target = model[:4]
    layers = {
        name.removeprefix("model."): value
        for name, value in state.items()
        if name.startswith(("model.encoder.layer", "model.decoder.layer"))
    }
    encoder, decoder = (state[f"model.{s}.embed_tokens.weight"] for s in ("encoder", "decoder"))
    eos = Dictionary().eos()
    converted = {
        **layers,
        "encoder.embed_tokens.weight": encoder[source.rows],
        "decoder.embed_tokens.weight": decoder[target.rows],
        "decoder.output_projection.weight": state["lm_head.weight"][target.rows],
    }
    converted["decoder.embed_tokens.weight"][eos] = decoder[read_start(config)]
    if config["model_type"] == "marian":
        # Marian has no <s>, and never trained the score of <pad>, which its search forbids. The
        # bias is finite, because label smoothing sums all scores.
        silent = [Dictionary().bos(), Dictionary().pad()]
        bias = state["final_logits_bias"].flatten()[target.rows]
        bias[silent] = NO_SCORE
        converted["decoder.output_projection.bias"] = bias
        converted["decoder.output_projection.weight"][silent] = 0
    return converted


def build_dictionary(words: list[str], path: Path) -> Dictionary:
    """Write a dictionary, and return it as it is read.

    Raises:
        UserError: a word cannot be stored.
    """
    dictionary = Dictionary()
    for word in words[len(dictionary) :]:
        dictionary.add_symbol(word)
    try:
        dictionary.save(str(path))
        stored = Dictionary.load(str(path))
    except (ValueError, RuntimeError):  # line breaks, half of a character
        stored = None
    if stored is None or stored.symbols != words:
        odd = [w for w in words if w.splitlines() != [w] or not w.isprintable()]
        raise UserError(f"a dictionary of fairseq cannot store the pieces; look at {odd[:3]}")
    return stored


def choose_languages(folder: Path, args: Namespace, read: PretrainedModel) -> Languages:
    """Choose the languages, and the codes that begin each source and target.

    Raises:
        UserError: they are unknown, or the model has none of that name.
    """
    tokenizer, vocabulary = read.tokenizer, read.source
    source = args.source_lang or tokenizer.get("source_lang")
    target = args.target_lang or tokenizer.get("target_lang")
    if not (source and target):
        raise UserError(f"{folder} does not name its languages; give --source-lang, --target-lang")
    if tokenizer.get("legacy_behaviour"):
        raise UserError(
            f"{folder} has legacy_behaviour: its sources end with </s> and a language's code; "
            "documents and CTranslate2 have nothing after </s>"
        )
    if read.config["model_type"] == "m2m_100":
        codes = [vocabulary.find_code(f"__{name}__", name) for name in (source, target)]
        return Languages(source, target, {"source": codes[:1], "target": codes[1:]})
    has_codes = any(word.startswith(">>") and word.endswith("<<") for word in vocabulary.words)
    code = [vocabulary.find_code(f">>{target}<<")] if has_codes else []
    return Languages(source, target, {"source": code, "target": []})


def format_options(options: dict[str, Any]) -> str:
    """Return options as words of the command line."""
    flags = {format_flag(name): value for name, value in options.items() if value}
    words = [flag if value is True else f"{flag} {value}" for flag, value in flags.items()]
    return " ".join(words)


def convert(folder: Path, output: Path, args: Namespace) -> dict[str, Any]:
    """Write the checkpoint of a model and what belongs to it into ``output``; return the options
    that a model of its shape needs."""
    read = read_folder(folder)
    options = choose_options(read.config)
    files = TOKENIZER_FILES[read.config["model_type"]]
    for name in files:
        build_sentencepiece([folder / name])
    languages = choose_languages(folder, args, read)
    if languages.source == languages.target and read.source.words != read.target.words:
        raise UserError(
            f"{folder} has a vocabulary for each side, and both languages are {languages.source}; "
            "give two names as --source-lang and --target-lang"
        )
    warn_of_added_words(read.source, folder / next(iter(files)))
    state = convert_parameters(read)
    dictionaries = [
        build_dictionary(vocabulary.words, output / f"dict.{language}.txt")
        for vocabulary, language in zip((read.source, read.target), languages[:2], strict=True)
    ]
    arguments = Namespace(arch="sinpos_transformer", **options)
    model = build_model(arguments, TranslationTask(TranslationConfig(), *dictionaries))
    # Without a version fairseq takes a checkpoint for an old one, without a final layer norm.
    state |= {name: model.state_dict()[name] for name in ("encoder.version", "decoder.version")}
    model.load_state_dict(state, strict=True)
    names = {"source_lang": languages.source, "target_lang": languages.target}
    arguments = Namespace(**vars(arguments), data="", task="translation", **names)
    torch.save(build_checkpoint(arguments, model.state_dict()), output / "model.pt")
    (output / PREFIXES).write_text(json.dumps(languages.prefixes) + "\n", encoding="utf-8")
    for name, new_name in files.items():
        shutil.copy(folder / name, output / new_name)
    return options


def main(argv: list[str]) -> None:
    """Run the tool."""
    parser = build_parser("import", DESCRIPTION, EXAMPLES)
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder or checkpoint")
    parser.add_argument("output", type=Path, metavar="OUT", help="new folder")
    parser.add_argument("--source-lang", help="source language, as the model calls it")
    parser.add_argument("--target-lang", help="target language, as the model calls it")
    args = parser.parse_args(argv)
    try:
        with write_folder(args.output) as folder:
            read = import_checkpoint.convert if args.model.is_file() else convert
            options = read(args.model, folder, args)
            text = format_options(options) + "\n"
            (folder / "options.txt").write_text(text, encoding="utf-8")
    except UserError:
        raise
    except MISMATCHES as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"{args.model} does not fit together, its config.json and parameters: "
            f"{type(error).__name__} {reason}"
        ) from None
    print(f"wrote {args.output}/model.pt; to fine-tune it add the options in options.txt")
