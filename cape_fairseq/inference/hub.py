"""fairseq's hub interface of a model."""

from typing import Any

from fairseq.dataclass.configs import FairseqConfig
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks.translation import TranslationTask
from omegaconf import OmegaConf

from cape_fairseq.positions.base import UNLIMITED
from cape_fairseq.tasks.stacked_translation import StackedTranslationConfig, StackedTranslationTask

MAX_TOKENS = 50_000  # source tokens of a batch of the encoder
# Of a batch of long texts: three matrices of a beam of 5, 200 texts, 60,000 subwords have 0.7 GB.
SEARCH_TOKENS = 4_000


def build_hub(
    model: FairseqEncoderDecoderModel, loaded: TranslationTask, tokenizer: Any, bpe: Any
) -> GeneratorHubInterface:
    """Build fairseq's hub interface of a model, with a search that limits each text by its own
    length."""
    config = StackedTranslationConfig(
        max_tokens=SEARCH_TOKENS,
        max_source_positions=UNLIMITED,
        max_target_positions=UNLIMITED,
        source_lang=loaded.cfg.source_lang,
        target_lang=loaded.cfg.target_lang,
    )
    task = StackedTranslationTask(config, loaded.source_dictionary, loaded.target_dictionary)
    hub = GeneratorHubInterface(OmegaConf.structured(FairseqConfig()), task, [model])
    hub.tokenizer, hub.bpe = tokenizer, bpe
    return hub.eval()
