"""Tokens and subwords of raw text, by fairseq's encoders."""

import copy
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, encoders
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from cape_fairseq.command_line import UserError, read_lines


def hide_separator(tokens: Tensor, dictionary: Dictionary) -> Tensor:
    """Make a word <s> in the text unknown; it is no separator."""
    return tokens.masked_fill(tokens == dictionary.bos(), dictionary.unk())


def build_target_tokenizer(cfg: Any, target_lang: str) -> Any:
    """Build the tokenizer of fairseq for the target language, or None."""
    cfg = copy.deepcopy(cfg)
    if OmegaConf.is_config(cfg) and "source_lang" in cfg:
        with open_dict(cfg):
            cfg.source_lang = target_lang
    return encoders.build_tokenizer(cfg)


def find_segmentation(checkpoint: Path, bpe_codes: str | Path | None) -> dict[str, str]:
    """Return fairseq's options of the subword segmentation, or none.

    Raises:
        UserError: there is no such file, or it has no codes.
    """
    codes = Path(bpe_codes) if bpe_codes else checkpoint.parent / "bpecodes"
    if not codes.is_file():
        if bpe_codes:
            raise UserError(f"there are no BPE codes {codes}")
        return {}
    lines = [line for line in read_lines(codes) if not line.startswith("#version")]
    pairs = [line.rstrip(" ").split(" ") for line in lines if line.strip()]
    is_vocabulary = all(pair[-1].isdigit() for pair in pairs)  # words and counts
    wrong = next((number for number, pair in enumerate(pairs, 1) if len(pair) != 2), None)
    if is_vocabulary or wrong is not None:
        raise UserError(
            f"{codes} is not a file of BPE codes, two symbols separated by a space in each line "
            f"({'a vocabulary does not work' if is_vocabulary else f'see code {wrong}'}); give the "
            "output of subword-nmt learn-bpe or learn-joint-bpe-and-vocab"
        )
    return {"bpe": "subword_nmt", "bpe_codes": str(codes)}
