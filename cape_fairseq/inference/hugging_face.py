"""Folders of Hugging Face's translation models: configuration, parameters and vocabulary."""

import itertools
import json
import logging
import re
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from cape_fairseq.command_line import UserError
from cape_fairseq.inference.checkpoints import load_tensors

logger = logging.getLogger(__name__)

SUPPORTED = ("marian", "m2m_100")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # a dictionary of fairseq begins with these
CODE = re.compile(r"__(\w+)__|>>(.+)<<|([a-z]{2,3}_[A-Z]\w+)")  # of M2M-100, OPUS-MT, NLLB
SPECIAL_WORD = re.compile(rf"<.*>|{CODE.pattern}")  # added words that are no text
# Languages of M2M-100 and of WMT21's models in the order of their codes, which transformers has in
# its code and folders do not list.
LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
        "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
        "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl "
        "tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}


class Vocabulary(NamedTuple):
    """The words of one side in fairseq's order, the rows that their vectors have, and words that
    the tokenizer's files add to its pieces."""

    words: list[str]
    rows: list[int]
    added: frozenset[str]

    def find_code(self, *candidates: str) -> str:
        """Return the first candidate that is the code of a language. A name as it is, such as en,
        may be a piece of text, unless it was added.

        Raises:
            UserError: there is none.
        """
        for code in candidates:
            if code in self.words and (CODE.fullmatch(code) or code in self.added):
                return code
        found = [match for match in map(CODE.fullmatch, self.words) if match]
        names = ", ".join(match[match.lastindex] for match in found[:5])
        raise UserError(
            f"the vocabulary has no language {candidates[-1].strip('<>')}; give --source-lang and "
            f"--target-lang as the model names them, such as {names or 'its documentation says'}"
        )


def read_json(path: Path, missing: Any = None) -> Any:
    """Read a JSON file; return ``missing`` if it is given and there is no file.

    Raises:
        UserError: there is no file, or it is not JSON.
    """
    if missing is not None and not path.is_file():
        return missing
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"there is no {path}") from None
    except ValueError as error:
        raise UserError(f"{path} is not a JSON file: {error}") from None


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration of a model, or raise UserError."""
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise UserError(f"{folder / 'config.json'} is not the configuration of a model")
    kind = config.get("model_type")
    if kind not in SUPPORTED:
        raise UserError(
            f"{folder} has a model of type {kind}; supported are marian (OPUS-MT) and m2m_100 "
            "(M2M-100, NLLB)"
        )
    return config


def read_parameters(folder: Path) -> dict[str, Tensor]:
    """Read the parameters, from one file or several; pickles may hold tensors only.

    Raises:
        UserError: there are none, or they cannot be read.
    """
    paths = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
    if not paths:
        raise UserError(f"{folder} has neither model.safetensors nor pytorch_model.bin")
    state: dict[str, Tensor] = {}
    for path in paths:
        state |= load_tensors(path)
    return {name: value.float() for name, value in state.items()}


def read_vocabulary(folder: Path, name: str, size: int) -> Vocabulary:
    """Read ``vocab.json`` or another file of pieces and indices. Without one, as in NLLB, the
    indices are those of the SentencePiece model + 1. Codes of languages follow.

    Raises:
        UserError: the vocabulary does not fit a model of ``size`` words.
    """
    path = folder / name
    if path.is_file() or not (folder / "sentencepiece.bpe.model").is_file():
        indices = read_json(path)
    else:
        path = folder / "sentencepiece.bpe.model"
        indices = read_pieces(path)
    has_indices = isinstance(indices, dict) and all(type(i) is int for i in indices.values())
    if not indices or not has_indices:
        raise UserError(f"{path} is no vocabulary: words and their indices")
    added = find_added(indices, folder)
    indices = {**added, **indices}
    if max(indices.values()) >= size or len(set(indices.values())) < len(indices):
        raise UserError(
            f"{path} does not fit the model: it has indices up to {max(indices.values())}, and the "
            f"model {size} words"
        )
    missing = [word for word in SPECIAL[1:] if word not in indices]
    if missing:
        raise UserError(f"{path} has no {missing[0]}")
    indices.setdefault("<s>", indices["</s>"])
    used = set(indices.values())
    indices |= {f"madeupword{i:04}": i for i in range(size) if i not in used}
    others = sorted(indices.keys() - set(SPECIAL), key=lambda word: indices[word])
    words = [*SPECIAL, *others]
    return Vocabulary(words, [indices[word] for word in words], frozenset(added))


def read_pieces(path: Path) -> dict[str, int]:
    """Read the pieces of a SentencePiece model, whose first three are <unk>, <s> and </s>."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    pieces = [model.id_to_piece(i) for i in range(3, len(model))]
    return {word: index for index, word in enumerate((*SPECIAL, *pieces))}


def find_added(indices: dict[str, int], folder: Path) -> dict[str, int]:
    """Find the words that only the tokenizer's files have, such as codes of languages, with their
    indices. As in transformers, tokenizer.json and ``added_tokens_decoder`` come before
    added_tokens.json; words without an index follow the vocabulary."""
    config = read_json(folder / "tokenizer_config.json", {})
    tokens = read_json(folder / "tokenizer.json", {}).get("added_tokens")
    decoder = config.get("added_tokens_decoder")
    if tokens is not None:
        added = {token["content"]: token["id"] for token in tokens}
    elif decoder is not None:
        added = {token["content"]: int(index) for index, token in decoder.items()}
    else:
        added = read_json(folder / "added_tokens.json", {})
    is_m2m = (folder / "vocab.json").is_file() and (folder / "sentencepiece.bpe.model").is_file()
    if is_m2m:
        return {**count_codes(config, len(indices), added), **added}
    if tokens is not None or decoder is not None:
        return added
    config |= read_json(folder / "special_tokens_map.json", {})
    listed = config.get("additional_special_tokens") or []
    words = [word for word in listed if isinstance(word, str) and word not in indices]
    words.sort(key=lambda word: CODE.fullmatch(word) is None)  # codes come first
    return {**dict(zip(words, itertools.count(max(indices.values()) + 1), strict=False)), **added}


def count_codes(config: dict[str, Any], first: int, added: dict[str, int]) -> dict[str, int]:
    """Return M2M-100's codes of languages with their indices from ``first`` on, unless some are
    among the words added. Indices of added words are theirs.

    Raises:
        UserError: the configuration of the tokenizer names an unknown list.
    """
    name = config.get("language_codes", "m2m100")
    if name not in LANGUAGES:
        raise UserError(
            f"tokenizer_config.json has language_codes {name}; supported are "
            f"{' and '.join(LANGUAGES)}"
        )
    codes = [f"__{language}__" for language in LANGUAGES[name].split()]
    if any(code in added for code in codes):
        return {}
    taken = set(added.values())
    return {code: i for i, code in enumerate(codes, first) if i not in taken}


def warn_of_added_words(vocabulary: Vocabulary, model: Path) -> None:
    """Warn of words that were added to a vocabulary and that SentencePiece does not produce."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    words = [
        word
        for word in sorted(vocabulary.added)
        if not SPECIAL_WORD.fullmatch(word) and pieces.piece_to_id(word) == pieces.unk_id()
    ]
    if words:
        logger.warning(
            "%s was added to the vocabulary, but SentencePiece cuts it into pieces: in text it "
            "does not become this word",
            ", ".join(words),
        )
