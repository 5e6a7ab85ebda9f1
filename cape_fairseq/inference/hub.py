"""fairseq's hub interface with the search of documents."""

from argparse import Namespace
from pathlib import Path

from fairseq import hub_utils
from fairseq.data import encoders

from cape_fairseq.command_line import UserError
from cape_fairseq.inference.segmentation import Segmentation, SentencePiece
from cape_fairseq.models.positional_side import UNLIMITED
from cape_fairseq.tasks.stacked_translation import StackedTranslationConfig, StackedTranslationTask

MAX_TOKENS = 50_000  # source tokens of a batch of the encoder
# Source tokens of sentences that are decoded side by side. Three matrices of a beam of 5, 200
# sentences and 60,000 subwords have 0.7 GB.
SEARCH_TOKENS = 4_000


def load_hub(
    path: Path,
    data: Path,
    languages: dict[str, str],
    tokenizer: str | None,
    segmentation: Segmentation,
) -> hub_utils.GeneratorHubInterface:
    """Load a checkpoint into fairseq's hub interface, with the search of documents.

    Raises:
        UserError: the tokenizer is not installed, or checkpoint and dictionaries do not fit.
    """
    try:
        return build_hub(path, data, languages, tokenizer, segmentation)
    except ImportError as error:
        raise UserError(f"--tokenizer {tokenizer}: {error}") from None
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} and the dictionaries in {data}: {reason}") from None


def build_hub(
    path: Path,
    data: Path,
    languages: dict[str, str],
    tokenizer: str | None,
    segmentation: Segmentation,
) -> hub_utils.GeneratorHubInterface:
    """Build fairseq's hub interface of a checkpoint with the task of documents."""
    loaded = hub_utils.from_pretrained(
        str(path.parent.resolve()),
        path.name,
        str(data.resolve()),
        tokenizer=tokenizer,
        task="translation",
        **languages,
        **segmentation.options,
    )
    config = StackedTranslationConfig(
        max_tokens=SEARCH_TOKENS,
        max_source_positions=UNLIMITED,
        max_target_positions=UNLIMITED,
        **languages,
    )
    dictionaries = loaded["task"].source_dictionary, loaded["task"].target_dictionary
    task = StackedTranslationTask(config, *dictionaries)
    hub = hub_utils.GeneratorHubInterface(loaded["args"], task, loaded["models"])
    # fairseq prefers files of its own names beside the checkpoint.
    if segmentation.uses_sentencepiece:
        hub.bpe = SentencePiece(segmentation.source_model)
    elif segmentation.options:
        hub.bpe = encoders.build_bpe(Namespace(**segmentation.options))
    return hub
