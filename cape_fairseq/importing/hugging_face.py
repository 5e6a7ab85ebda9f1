"""Folders of Hugging Face's translation models, read by transformers."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from cape_fairseq.errors import UserError

logger = logging.getLogger(__name__)

SUPPORTED = ("marian", "m2m_100")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # a dictionary of fairseq begins with these
VOCABULARIES = ("vocab.json", "tokenizer.json")  # of OPUS-MT and M2M-100, of NLLB
CODE = re.compile(r"__(\w+)__|>>(.+)<<|([a-z]{2,3}_[A-Z]\w+)")  # of M2M-100, OPUS-MT, NLLB
SPECIAL_WORD = re.compile(rf"<.*>|{CODE.pattern}")  # added words that are no text


class Vocabulary(NamedTuple):
    """The words of one side in fairseq's order, the rows that their vectors have, and words that
    were added to the pieces of SentencePiece."""

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
        codes = ", ".join([word for word in self.words if CODE.fullmatch(word)][:5])
        raise UserError(
            f"the vocabulary has no language {candidates[-1].strip('<>')}; give --source-lang and "
            f"--target-lang as the model names them (codes: {codes or 'none'})"
        )


class PretrainedModel(NamedTuple):
    """The content of a folder: the configuration with its defaults, parameters in float32, both
    vocabularies, and settings of the tokenizer."""

    config: dict[str, Any]
    parameters: dict[str, Tensor]
    source: Vocabulary
    target: Vocabulary
    tokenizer: dict[str, Any]


def read_folder(path: Path) -> PretrainedModel:
    """Read a folder; nothing is fetched, and no code of the folder runs.

    Raises:
        UserError: transformers is missing, or cannot read the folder as a supported model.
    """
    try:
        import transformers
    except ImportError:
        raise UserError("import needs transformers: pip install 'cape_fairseq[import]'") from None
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    if not (path / "config.json").is_file():
        raise UserError(f"there is no {path / 'config.json'}")
    if not any((path / name).is_file() for name in VOCABULARIES):
        # NLLB's codes of languages are in tokenizer.json; transformers puts them elsewhere without.
        raise UserError(f"{path} has no {' and no '.join(VOCABULARIES)}")
    config = load_part(transformers.AutoConfig, path)
    if config.model_type not in SUPPORTED:
        raise UserError(
            f"{path} has a model of type {config.model_type}; supported are marian (OPUS-MT) and "
            "m2m_100 (M2M-100, NLLB)"
        )
    tokenizer = load_part(transformers.AutoTokenizer, path)
    options = {"config": config, "output_loading_info": True, "dtype": "float32"}
    model, report = load_part(transformers.AutoModelForSeq2SeqLM, path, **options)
    check_parameters(path, report)
    source = target = build_vocabulary(path, *read_indices(tokenizer), config.vocab_size)
    if getattr(tokenizer, "separate_vocabs", False):
        size = getattr(config, "decoder_vocab_size", None) or config.vocab_size
        target = build_vocabulary(path, tokenizer.target_encoder, {}, size)
    parameters = {name: value.detach() for name, value in model.state_dict().items()}
    return PretrainedModel(config.to_dict(), parameters, source, target, tokenizer.init_kwargs)


def load_part(kind: Any, path: Path, **options: Any) -> Any:
    """Load the configuration, the tokenizer or the model of a folder by a class of transformers.

    Raises:
        UserError: it cannot be loaded.
    """
    try:
        return kind.from_pretrained(path, local_files_only=True, trust_remote_code=False, **options)
    except Exception as error:  # transformers raises many kinds
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"transformers cannot read {path}: {type(error).__name__} {reason}"
        ) from None


def check_parameters(path: Path, report: dict[str, Any]) -> None:
    """Raise UserError if parameters are missing, which transformers fills at random, or are there
    that such a model does not have."""
    odd = sorted({*report["missing_keys"], *report["unexpected_keys"]})
    if odd:
        raise UserError(
            f"{path} lacks parameters of its model, or has others, such as {odd[0]}; are all of "
            "its files there, and adapters merged into the model?"
        )


def read_indices(tokenizer: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Return the indices of a tokenizer's words, and of those that were added to the pieces of
    SentencePiece. Tokenizers in Python have the vocabulary's file in ``encoder``; M2M-100 finds its
    codes of languages in a table before it looks elsewhere."""
    added = tokenizer.get_added_vocab()
    if not hasattr(tokenizer, "encoder"):
        return tokenizer.get_vocab(), added
    codes = getattr(tokenizer, "lang_token_to_id", {})
    taken = {*tokenizer.encoder.values(), *codes.values()}
    others = {word: index for word, index in added.items() if index not in taken}
    return {**others, **codes, **tokenizer.encoder}, {**added, **codes}


def build_vocabulary(
    path: Path, indices: dict[str, int], added: Iterable[str], size: int
) -> Vocabulary:
    """Return the vocabulary of a side.

    Raises:
        UserError: it does not fit a model of ``size`` words.
    """
    if max(indices.values()) >= size or len(set(indices.values())) < len(indices):
        raise UserError(
            f"the vocabulary in {path} does not fit the model: it has indices up to "
            f"{max(indices.values())}, and the model {size} words"
        )
    missing = [word for word in SPECIAL[1:] if word not in indices]
    if missing:
        raise UserError(f"the vocabulary in {path} has no {missing[0]}")
    indices = {"<s>": indices["</s>"], **indices}
    used = set(indices.values())
    indices |= {f"madeupword{i:04}": i for i in range(size) if i not in used}
    others = sorted(indices.keys() - set(SPECIAL), key=lambda word: indices[word])
    words = [*SPECIAL, *others]
    return Vocabulary(words, [indices[word] for word in words], frozenset(added))


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
