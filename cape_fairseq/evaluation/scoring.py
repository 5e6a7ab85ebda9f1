"""From the output of fairseq-generate to detokenized translations and a BLEU score with its
signature."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU

from cape_fairseq.data.books import detokenize
from cape_fairseq.data.moses import base
from cape_fairseq.data.parallel import read_lines
from cape_fairseq.data.segmentation import join_subwords
from cape_fairseq.errors import UserError
from cape_fairseq.evaluation.generated import Sentence, check_references, read_generated


def metric(language: str | None = None) -> BLEU:
    """sacreBLEU's BLEU. Where a language has no spaces between words, sacreBLEU splits them.

    Raises:
        UserError: it needs a package for that.
    """
    name = base(language or "")
    try:
        return BLEU(trg_lang=name)
    except RuntimeError:
        raise UserError(
            f"sacreBLEU needs a package to split {name} into words; pip install 'sacrebleu[{name}]'"
        ) from None


def signature(language: str | None = None) -> str:
    """sacreBLEU's signature of scores in this language."""
    found = metric(language)
    found.corpus_score(["one"], [["one"]])  # it counts references then
    return str(found.get_signature())


def splitter(language: str | None = None) -> Callable[[str], list[str]]:
    """What splits a text into words: spaces, or sacreBLEU where a language has none."""
    found = metric(language)
    if found.tokenizer.signature() == BLEU.TOKENIZER_DEFAULT:
        return str.split
    return lambda text: found.tokenizer(text).split()


def score(
    generated: Path,
    reference: Path | None,
    language: str | None,
    tokenized: bool = False,
    separator: str | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Score an output file of fairseq-generate.

    Args:
        generated: what fairseq-generate printed.
        reference: detokenized reference, plain or gzipped; None takes the references in the
            output, detokenized.
        language: detokenize by this language's rules, and score as it is scored; None leaves the
            text as it is.
        tokenized: also score the tokenized text, as multi-bleu does.
        separator: also score without this token.

    Returns:
        the translations, and a dictionary: ``bleu``, ``signature``, ``sentences``, and with
        ``tokenized`` also ``tokenized_bleu`` and ``compound_bleu``.
    """
    sentences = read_generated(generated)
    given = None if reference is None else list(read_lines(reference))
    translations, references = texts(sentences, language, str(generated), given)
    scored = metric(language)
    bleu = scored.corpus_score(translations, [references])
    result = {
        "bleu": round(bleu.score, 2),
        "signature": str(scored.get_signature()),
        "sentences": len(references),
    }
    if tokenized:
        result |= tokenized_scores(*texts(sentences, None, str(generated)))
    if separator:
        sides = [[drop(line, separator) for line in side] for side in (translations, references)]
        bare = scored.corpus_score(sides[0], [sides[1]]).score
        result["bleu_without_separator"] = round(bare, 2)
    return translations, result


def drop(line: str, token: str) -> str:
    """A line without a token."""
    return " ".join(line.replace(token, " ").split())


def tokenized_scores(translations: list[str], references: list[str]) -> dict[str, float]:
    """BLEU of tokenized text, as Moses' multi-bleu counts it: plain, and with compounds split at
    hyphens.

    The second is what WMT14 en-de is usually reported with: a hyphen between characters stands
    alone, in translation and reference alike.
    """

    def bleu(split: bool) -> float:
        sides = [
            [split_compounds(line) if split else line for line in side]
            for side in (translations, references)
        ]
        # The text is tokenized on purpose.
        plain = BLEU(tokenize="none", smooth_method="none", force=True)
        return round(plain.corpus_score(sides[0], [sides[1]]).score, 2)

    return {"tokenized_bleu": bleu(False), "compound_bleu": bleu(True)}


def split_compounds(line: str) -> str:
    """``well-known`` -> ``well ##AT##-##AT## known``, and what Moses' ``-a`` made ``well @-@
    known`` -> ``well @ ##AT##-##AT## @ known``, as the usual script does."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def texts(
    sentences: list[Sentence], language: str | None, name: str, references: list[str] | None = None
) -> tuple[list[str], list[str]]:
    """Translations and references as they are scored.

    Args:
        sentences: an output of fairseq-generate.
        language: undo Moses' tokenization by this language's rules; None leaves the text as it is.
        name: of the system, for messages.
        references: use these, as they are, instead of the references in the output.

    Raises:
        UserError: there are no references, or not one for each sentence.
    """
    hypotheses = [
        join_subwords(sentence.detokenized or sentence.hypothesis) for sentence in sentences
    ]
    own = references is None
    if own:
        check_references(sentences, name, "give --reference")
        references = [join_subwords(sentence.reference) for sentence in sentences]
    elif len(references) != len(sentences):
        raise UserError(
            f"{name} has {len(sentences)} sentences, but the reference has {len(references)}"
        )
    if language is not None:
        hypotheses = list(detokenize(hypotheses, language))
        references = list(detokenize(references, language)) if own else references
    return hypotheses, references
