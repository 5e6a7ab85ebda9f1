"""fairseq's hub interface with the search of documents."""

from argparse import Namespace

from fairseq.data import encoders
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks.translation import TranslationTask
from torch import nn

from cape_fairseq.command_line import UserError
from cape_fairseq.inference.segmentation import Segmentation, SentencePiece
from cape_fairseq.models.positional_side import UNLIMITED
from cape_fairseq.tasks.stacked_translation import StackedTranslationConfig, StackedTranslationTask

MAX_TOKENS = 50_000  # source tokens of a batch of the encoder
# Source tokens of sentences that are decoded side by side. Three matrices of a beam of 5, 200
# sentences and 60,000 subwords have 0.7 GB.
SEARCH_TOKENS = 4_000


def build_hub(
    model: nn.Module, task: TranslationTask, tokenizer: str | None, segmentation: Segmentation
) -> GeneratorHubInterface:
    """Build fairseq's hub interface of a model with the task of documents.

    Raises:
        UserError: the tokenizer is not installed.
    """
    languages = {"source_lang": task.cfg.source_lang, "target_lang": task.cfg.target_lang}
    config = StackedTranslationConfig(
        max_tokens=SEARCH_TOKENS,
        max_source_positions=UNLIMITED,
        max_target_positions=UNLIMITED,
        **languages,
    )
    task = StackedTranslationTask(config, task.source_dictionary, task.target_dictionary)
    options = Namespace(task="translation", tokenizer=tokenizer, **languages)
    try:
        hub = GeneratorHubInterface(convert_namespace_to_omegaconf(options), task, [model])
    except ImportError as error:
        raise UserError(f"--tokenizer {tokenizer}: {error}") from None
    if segmentation.source_model is not None:
        hub.bpe = SentencePiece(segmentation.source_model)
    elif segmentation.codes is not None:
        codes = {"bpe_codes": segmentation.codes, "bpe_separator": "@@"}
        hub.bpe = encoders.build_bpe(Namespace(bpe="subword_nmt", **codes))
    return hub
