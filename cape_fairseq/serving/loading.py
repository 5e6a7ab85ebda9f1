"""Find what belongs to a model: its files, its text's settings, what runs it."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from cape_fairseq.data.segmentation import GOES_ON
from cape_fairseq.errors import UsageError, UserError
from cape_fairseq.serving.ctranslate2_engine import MODEL, CTranslate2Engine
from cape_fairseq.serving.text import SETTINGS, Text, TextSettings
from cape_fairseq.serving.translator import BATCH, LONGEST, Translator

EXPORTED = "model.pt"  # an exported model of fairseq, in its folder


def load(
    path: str | Path | Sequence[str | Path],
    *,
    data: str | Path | None = None,
    codes: str | Path | None = None,
    languages: tuple[str, str] | None = None,
    moses: bool | None = None,
    engine: str | None = None,
    longest: int = LONGEST,
    batch: int = BATCH,
    cpu: bool = False,
    parallel: bool = True,
) -> Translator:
    """A model that translates raw text.

    Args:
        path: a checkpoint of fairseq, a folder that ``cape-fairseq export`` wrote, or several
            checkpoints that translate together.
        data: folder with the dictionaries (default: beside the model, or where it was trained).
        codes: BPE codes (default: what ``text.json`` beside the model says).
        languages: of source and target (default: the model's).
        moses: whether text is tokenized as Moses does (default: what ``text.json`` says, else yes).
        engine: ``fairseq`` or ``ctranslate2`` (default: as the model is stored).
        longest: source tokens that are translated in one piece.
        batch: tokens of a batch.
        cpu: whether to leave a GPU alone.
        parallel: CTranslate2: a batch for each core, or all cores for a batch.

    Raises:
        UserError: the model cannot be loaded, or something that belongs to it is missing.
        UsageError: options make no sense together.
    """
    paths = [Path(one) for one in ([path] if isinstance(path, (str, Path)) else path)]
    found = "ctranslate2" if (paths[0] / MODEL).is_file() else "fairseq"
    if engine not in (None, found):
        raise UsageError(
            f"{paths[0]} is a model for {found}, not for {engine}; cape-fairseq export makes others"
        )
    if found == "ctranslate2":
        if languages or data:
            raise UsageError(
                f"{paths[0]} knows its languages and words; leave out --source-lang, "
                "--target-lang and --data-bin"
            )
        return exported(paths, codes, moses, longest, batch, (cpu, parallel))
    return trained(paths, data, codes, languages, moses, (longest, batch, cpu))


def trained(
    paths: Sequence[Path],
    data: str | Path | None,
    codes: Any,
    languages: tuple[str, str] | None,
    moses: bool | None,
    running: tuple[int, int, bool],
) -> Translator:
    """Checkpoints, or exported models, of fairseq; ``running`` are ``longest``, ``batch`` and
    ``cpu``.

    Raises:
        UserError: one cannot be loaded, something that belongs to it is missing, or they do not
            fit together.
    """
    from cape_fairseq.checkpoints.reading import read  # torch, which CTranslate2 does without

    longest, batch, cpu = running
    paths = [one / EXPORTED if one.is_dir() else one for one in paths]
    states = [read(one) for one in paths]
    stored = stored_settings(paths[0], states[0], languages)
    settings, folder = chosen(stored, paths[0].parent, codes, moses)
    for other, state in zip(paths[1:], states[1:], strict=True):
        if (other.parent / SETTINGS).is_file():  # else those of the first
            found = stored_settings(other, state, languages)
            taken = chosen(found, other.parent, codes, moses)
            check_together(paths[0], (settings, folder), other, taken)
    dictionaries = find_dictionaries(paths[0], states[0], settings, data)
    check_dictionary(settings, dictionaries)
    import cape_fairseq.models  # registers them
    import cape_fairseq.tasks  # noqa: F401
    from cape_fairseq.serving.fairseq_engine import FairseqEngine

    pair = settings.source, settings.target
    runner = FairseqEngine(states, dictionaries, pair, settings.source_bos, longest, cpu)
    return Translator(runner, Text(settings, folder), longest, batch)


def exported(
    paths: Sequence[Path],
    codes: Any,
    moses: bool | None,
    longest: int,
    batch: int,
    running: tuple[bool, bool],
) -> Translator:
    """A folder of CTranslate2; ``running`` are ``cpu`` and ``parallel``.

    Raises:
        UserError: it has no settings.
        UsageError: there are several.
    """
    if len(paths) > 1:
        raise UsageError("CTranslate2 translates with one model; give one folder")
    folder = paths[0]
    settings = TextSettings.read(folder / SETTINGS)
    settings, base = chosen(settings, folder, codes, moses)
    engine = CTranslate2Engine(folder, settings.max_positions, *running)
    check_codes(settings, engine.words, folder)
    return Translator(engine, Text(settings, base), longest, batch)


def stored_settings(
    path: Path, state: dict[str, Any], languages: tuple[str, str] | None
) -> TextSettings:
    """What lies beside a checkpoint; else what its languages tell.

    Raises:
        UserError: nothing says which languages it translates.
    """
    from cape_fairseq.checkpoints.reading import languages_of

    file = path.parent / SETTINGS
    if file.is_file():
        found = TextSettings.read(file)
        return replace(found, source=languages[0], target=languages[1]) if languages else found
    try:
        return TextSettings(*(languages or languages_of(state)))
    except KeyError:
        raise UserError(
            f"{path} does not say which languages it translates; give --source-lang and "
            "--target-lang, or put them beside it by cape-fairseq text-settings"
        ) from None


def chosen(
    settings: TextSettings, folder: Path, codes: Any, moses: bool | None
) -> tuple[TextSettings, Path]:
    """The settings with what was given instead, and the folder of their codes."""
    if moses is not None:
        settings = replace(settings, moses=moses)
    if codes is None:
        return settings, folder
    return replace(settings, codes=Path(codes).name), Path(codes).parent


def find_dictionaries(
    path: Path, state: dict[str, Any], settings: TextSettings, data: str | Path | None
) -> Path:
    """The folder with the dictionaries of both languages: the given one, or beside the model, or
    where it was trained.

    Raises:
        UserError: there is none.
    """
    from cape_fairseq.checkpoints.reading import task_of

    trained = (task_of(state).get("data") or "").split(":")[0]
    folders = [Path(data)] if data else [path.parent, *([Path(trained)] if trained else [])]
    names = [f"dict.{language}.txt" for language in (settings.source, settings.target)]
    for folder in folders:
        if all((folder / name).is_file() for name in names):
            return folder
    raise UserError(
        f"{' and '.join(names)} of {path} are not in {' or '.join(map(str, folders))}; "
        "give the folder of the binarized data with --data-bin"
    )


def check_together(
    first: Path, mine: tuple[TextSettings, Path], second: Path, theirs: tuple[TextSettings, Path]
) -> None:
    """Compare what two models take: settings, and the folders of their codes.

    Raises:
        UserError: their text is prepared in different ways, or they know other words.
    """
    (settings, folder), (other, others) = mine, theirs
    names = [field.name for field in fields(TextSettings) if field.name != "max_positions"]
    differ = [name for name in names if getattr(settings, name) != getattr(other, name)]
    files = [f"dict.{language}.txt" for language in (settings.source, settings.target)]
    pairs = {name: (first.parent / name, second.parent / name) for name in files}
    pairs |= {settings.codes: (folder / settings.codes, others / other.codes)}
    for name, (one, another) in pairs.items():
        if one.is_file() and another.is_file() and not filecmp.cmp(one, another, shallow=False):
            differ.append(name)
    if differ:
        raise UserError(
            f"{first} and {second} cannot translate together: their text is prepared in different "
            f"ways ({', '.join(differ)} beside them)"
        )


def check_dictionary(settings: TextSettings, folder: Path) -> None:
    """:func:`check_codes` with fairseq's dictionary of the source."""
    file = folder / f"dict.{settings.source}.txt"
    with open(file, encoding="utf-8") as lines:
        check_codes(settings, (line.split(" ")[0] for line in lines), file)


def check_codes(settings: TextSettings, words: Iterable[str], where: Path) -> None:
    """
    Raises:
        UserError: raw text would be looked up word by word in a vocabulary of subwords.
    """
    if settings.codes or not settings.moses:
        return
    piece = next((word for word in words if word.endswith(GOES_ON)), "")
    if piece:
        raise UserError(
            f"{where} has subwords ({piece}), and no BPE codes are known; put them beside the "
            "model by cape-fairseq text-settings (translate also takes --bpe-codes, or --tokenizer "
            "none for text that is segmented already)"
        )
