"""The task ``stacked_translation``."""

from cape_fairseq.tasks.stacked_translation import StackedTranslationConfig, StackedTranslationTask


def make_task(data_bin, **options) -> StackedTranslationTask:
    """The task on binarized data, with defaults but for ``options``."""
    cfg = StackedTranslationConfig(data=str(data_bin), source_lang="en", target_lang="de")
    cfg.train_subset, cfg.dataset_impl, cfg.required_seq_len_multiple = "train", None, 1
    cfg.stack_bpe, cfg.seed, cfg.max_tokens = None, 1, None
    for name, value in options.items():
        setattr(cfg, name, value)
    return StackedTranslationTask.setup_task(cfg)
