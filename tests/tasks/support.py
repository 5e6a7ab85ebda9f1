"""The task ``stacked_translation``."""

from pathlib import Path

from cape_fairseq.tasks.stacked_translation import StackedTranslationConfig, StackedTranslationTask
from tests.support import fairseq


def make_task(data_bin, **options) -> StackedTranslationTask:
    """The task on binarized data, with defaults but for ``options``."""
    cfg = StackedTranslationConfig(data=str(data_bin), source_lang="en", target_lang="de")
    cfg.train_subset, cfg.dataset_impl, cfg.required_seq_len_multiple = "train", None, 1
    cfg.stack_bpe, cfg.seed, cfg.max_tokens = None, 1, None
    for name, value in options.items():
        setattr(cfg, name, value)
    return StackedTranslationTask.setup_task(cfg)


def binarize_test(text: dict[str, str], data_bin: Path, folder: Path) -> None:
    """Binarize a test set, the text of each language, in ``folder``/bin by the dictionary of
    ``data_bin``."""
    for language, lines in text.items():
        (folder / f"test.{language}").write_text(lines, encoding="utf-8")
    languages = ("--source-lang", "en", "--target-lang", "de")
    dictionary = ("--srcdict", data_bin / "dict.en.txt", "--joined-dictionary")
    folders = ("--testpref", folder / "test", "--destdir", folder / "bin")
    fairseq("preprocess", *languages, *dictionary, *folders)
