"""Recipes: shellcheck, dry runs, the papers' tables, and preparation of small archives."""

from __future__ import annotations

import gzip
import io
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from fairseq import options

from cape_fairseq.data.synthetic import Corpus
from cape_fairseq.inference.checkpoints import find_junction
from tests.support import ROOT, run

RECIPES = ROOT / "recipes"
SCRIPTS = sorted([*RECIPES.glob("*.sh"), *RECIPES.glob("prepare/*.sh"), *ROOT.glob("scripts/*.sh")])
TABLES = {path.stem: yaml.safe_load(path.read_text()) for path in RECIPES.glob("papers/*.yaml")}
SHARED = ROOT.parent / "shared" / "data"
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
SYSTEMS = [(table, name) for table in TABLES for name in TABLES[table]["systems"]]


def call(*command, **variables) -> str:
    """Run a recipe from the root; return what it printed."""
    environment = {**os.environ, "PATH": PATH, "OMP_NUM_THREADS": "1", "LC_ALL": "C", **variables}
    environment.pop("LANG", None)
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


def test_shellcheck():
    if shutil.which("shellcheck", path=PATH) is None:
        pytest.skip("shellcheck is not installed")
    call("shellcheck", "-x", "-e", "SC1091", *SCRIPTS, RECIPES / "papers" / "score.sh")


@pytest.mark.parametrize(("table", "name"), SYSTEMS)
def test_fairseq_accepts_the_options_of_every_system(table, name, tmp_path):
    config = TABLES[table]
    system = config["systems"][name]
    assert system.get("parent", name) in config["systems"]
    if not system.get("extra") and "plot" not in config and table not in ("smoke", "multi30k_tiny"):
        assert "published" in system or name == "sinpos-input"
    arguments = [
        "data", "--user-dir", str(ROOT / "cape_fairseq"), "--task", "translation",
        "--arch", system.get("arch") or f"{system['encoding']}_transformer{config['size']}",
        *shlex.split(config["training"]), *shlex.split(system.get("options", "")),
    ]  # fmt: skip
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, arguments)
    from cape_fairseq.models.config import validate_options

    if "arch" not in system:  # fairseq's own models have other options
        validate_options(args)
    generation = options.get_generation_parser()
    options.parse_args_and_arch(generation, ["data", *shlex.split(config["decoding"])])


@pytest.mark.parametrize("table", ["cape_en_de_6l", "shape_interpolate", "floater_table2"])
def test_snakemake_prints_complete_commands_with_the_papers_batch(table, tmp_path):
    config, gpus = TABLES[table], 4
    command = ["snakemake", "-s", RECIPES / "papers" / "Snakefile", "-np", "--configfile"]
    output = call(
        *command,
        RECIPES / "papers" / f"{table}.yaml",
        "--config",
        f"gpus={gpus}",
        f"out={tmp_path}",
    )
    trainings = re.findall(r"fairseq-train .*", output)
    seeds = len(config.get("seeds", [1]))
    assert len(trainings) == seeds * sum(not s.get("extra") for s in config["systems"].values())
    # fairseq-generate with a tokenizer prints detokenized references.
    detokenizes = config["score"] == "sacrebleu"
    assert output.count("--tokenizer moses") == detokenizes * output.count("--gen-subset")
    for training in trainings:
        words = shlex.split(training.removeprefix("Shell command: "))
        tokens, frequency = (
            int(words[words.index(n) + 1]) for n in ("--max-tokens", "--update-freq")
        )
        assert abs(tokens * frequency * gpus - config["tokens_per_update"]) < gpus * frequency
        assert tokens <= config["tokens_per_gpu"]


@pytest.mark.parametrize("recipe", ["quickstart", "train", "floater", "documents", "pretrained"])
def test_dry_runs_print_commands_that_can_be_pasted(recipe, tmp_path):
    out = str(tmp_path / "out")
    variables = {"OUT": out, "TEXT": "text", "DATA": "data-bin", "MODEL": "model"}
    output = call("bash", RECIPES / f"{recipe}.sh", "--dry-run", **variables)
    trainings = [line for line in output.splitlines() if "fairseq-train" in line]
    assert trainings
    for line in trainings:
        words = shlex.split(line)
        assert words[0] == "fairseq-train"
        assert Path(words[words.index("--user-dir") + 1]).is_dir()
        options.parse_args_and_arch(options.get_training_parser(), words[1:])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_text_without_spaces_is_trained_on_and_translated(tmp_path):
    """Chinese to Thai: the pieces are joined again, and two sentences are translated as two."""
    people, things = ("老师", "学生", "农民", "医生"), ("书", "苹果", "钥匙", "信")
    words = "ครู นักเรียน ชาวนา หมอ หนังสือ แอปเปิ้ล กุญแจ จดหมาย".split()  # noqa: SIM905
    thai = dict(zip((*people, *things), words, strict=True))
    pairs = [(f"{a}买了{b}。", f"{thai[a]}ซื้อ{thai[b]}") for a in people for b in things]
    text = tmp_path / "text"
    text.mkdir()
    for split, count in (("train", 40), ("valid", 1), ("test", 1)):
        for lang, side in (("zh", 0), ("th", 1)):
            lines = [pair[side] for pair in pairs * count]
            (text / f"{split}.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    variables = {"TEXT": str(text), "OUT": str(tmp_path / "out"), "SRC": "zh", "TGT": "th"}
    variables |= {"BPE": "sentencepiece", "MERGES": "50", "UPDATES": "4"}
    call("bash", RECIPES / "train.sh", **variables)
    run_folder = tmp_path / "out" / "rope_cross_transformer_tiny"
    generated = (run_folder / "test.txt").read_text(encoding="utf-8")
    references = dict(re.findall(r"^T-(\d+)\t(.*)$", generated, re.M))
    assert [references[str(i)] for i in range(len(pairs))] == [pair[1] for pair in pairs]
    from cape_fairseq import load

    translator = load(run_folder / "checkpoint_best.pt")
    (both,) = translator.translate(["老师买了书。学生买了信。"])
    assert translator.encode_source("老师买了书。").ne(3).all()
    assert both == "".join(translator.translate_sentences(["老师买了书。", "学生买了信。"]))


def test_the_dry_run_of_an_evaluation_prints_its_commands(tmp_path):
    out = tmp_path / "out"
    script = ("bash", RECIPES / "evaluate.sh", "--dry-run")
    output = call(*script, "a=a.pt", "b=b.pt", DATA="data-bin", OUT=str(out))
    tools = [shlex.split(line)[:2] for line in output.splitlines() if line.startswith("'cape")]
    assert [tool for _, tool in tools] == [
        "bleu-by-length", "compare", "position-loss", "compare", "token-wins",
    ]  # fmt: skip
    for line in output.splitlines():
        if line.startswith("'fairseq-generate'"):
            words = shlex.split(line.partition(" > ")[0])[1:]
            options.parse_args_and_arch(options.get_generation_parser(), words)
    assert not out.exists()


def test_a_document_checkpoint_is_evaluated_with_separators(document_checkpoint, cape_checkpoint):
    assert find_junction(str(document_checkpoint)) == "separator"
    assert find_junction(str(cape_checkpoint)) == "comma"


def write_archive(path: Path, members: dict[str, list[str]]) -> None:
    """Write a tar archive, gzipped if its name says so; members that end in .gz are gzipped."""
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name, lines in members.items():
            data = "".join(f"{line}\n" for line in lines).encode()
            data = gzip.compress(data) if name.endswith(".gz") else data
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


PAIRS = [pair for document in Corpus().documents["test"] for pair in document]
TEXT = {side: [pair[i] for pair in PAIRS] for i, side in enumerate(("en", "xx"))}


def text(language: str, start: int = 0, count: int = 200) -> list[str]:
    return TEXT["en" if language == "en" else "xx"][start : start + count]


def sgml(language: str) -> list[str]:
    return ["<doc>", *(f'<seg id="{i}"> {s} </seg>' for i, s in enumerate(text(language, 200, 20)))]


def make_wmt(folder: Path, other: str) -> None:
    pair, languages = f"{other}-en", ("en", other)

    def members(pattern: str) -> dict[str, list[str]]:
        return {pattern.format(lang): text(lang) for lang in languages}

    write_archive(
        folder / "training-parallel-europarl-v7.tgz", members(f"training/europarl-v7.{pair}.{{}}")
    )
    write_archive(folder / "training-parallel-commoncrawl.tgz", members(f"commoncrawl.{pair}.{{}}"))
    for version, place in (
        ("v9", "training"),
        ("v11", "training-parallel-nc-v11"),
        ("v12", "training"),
    ):
        pattern = f"{place}/news-commentary-{version}.{pair}.{{}}"
        write_archive(folder / f"training-parallel-nc-{version}.tgz", members(pattern))
    write_archive(folder / "training-parallel-un.tgz", members(f"un/undoc.2000.{pair}.{{}}"))
    write_archive(folder / "training-giga-fren.tar", members("giga-fren.release2.fixed.{}.gz"))
    kinds = {"en": "src", other: "ref"}
    tests = {
        f"test-full/newstest2014-{other}en-{k}.{lang}.sgm": sgml(lang) for lang, k in kinds.items()
    }
    write_archive(folder / "test-full.tgz", tests)
    dev = {
        f"dev/newstest{y}.{lang}": text(lang, 220, 9)
        for y in range(2010, 2014)
        for lang in languages
    }
    dev |= {f"dev/newstest2015-en{other}-{k}.{lang}.sgm": sgml(lang) for lang, k in kinds.items()}
    write_archive(folder / "dev.tgz", dev)
    last = {f"test/newstest2016-en{other}-{k}.{lang}.sgm": sgml(lang) for lang, k in kinds.items()}
    write_archive(folder / "test.tgz", last)


def make_iwslt(folder: Path, _: str) -> None:
    members = {}
    for lang in ("de", "en"):
        tags = ["<url>x</url>", "<title>Title</title>", *text(lang)]
        members[f"de-en/train.tags.de-en.{lang}"] = tags
        for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = sgml(lang)
    write_archive(folder / "de-en.tgz", members)


def make_bible(folder: Path, _: str) -> None:
    books = ["Genesis"] * 150 + ["Ruth"] * 10 + ["Joshua"] * 10
    for name, lang in (("BSB", "en"), ("GerElb1905", "de")):
        rows = [f'{b},1,{i},"{s}"' for i, (b, s) in enumerate(zip(books, text(lang), strict=False))]
        (folder / f"{name}.csv").write_text("\n".join(["Book,Chapter,Verse,Text", *rows]) + "\n")


def make_multi30k(folder: Path, _: str) -> None:
    parts = {"train": (0, 200), "val": (200, 30), "test_2016_flickr": (230, 30)}
    for name, (start, count) in parts.items():
        for lang in ("en", "de"):
            lines = "".join(f"{line}\n" for line in text(lang, start, count))
            (folder / f"{name}.{lang}.gz").write_bytes(gzip.compress(lines.encode()))


def make_libreoffice(folder: Path, _: str) -> None:
    """Packages of pages with a few paragraphs, in the layout of Debian's."""
    for package, name, lang in (("en-us", "en-US", "en"), ("de", "de", "de")):
        root = folder / f"root-{package}"
        pages = root / "usr/share/libreoffice/help" / name / "text" / "swriter"
        pages.mkdir(parents=True)
        for number in range(60):
            lines = text(lang, 4 * number, 4)
            body = f"<h1 id='hd_id1'>{lines[0]}</h1><p id='par_id2'>{' '.join(lines[1:])}</p>"
            (pages / f"page{number}.html").write_text(f"<html><body>{body}</body></html>")
        build_package(root, folder, f"libreoffice-help-{package}")


def build_package(root: Path, folder: Path, name: str) -> None:
    """Build a package of Debian from its files."""
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\n"
        "Maintainer: x <x@example.org>\nDescription: x\n"
    )
    target = folder / f"{name}_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", root, target], check=True, capture_output=True)


def write_catalog(path: Path, texts: dict[str, str]) -> None:
    """Write translations as gettext's .mo file."""
    texts = {"": "Content-Type: text/plain; charset=UTF-8\n", **texts}
    entries = [(key.encode(), texts[key].encode()) for key in sorted(texts)]
    data, tables = b"", ([], [])
    start = 28 + 16 * len(entries)
    for side in (0, 1):
        for entry in entries:
            tables[side].append(struct.pack("<II", len(entry[side]), start + len(data)))
            data += entry[side] + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    path.write_bytes(head + b"".join(tables[0]) + b"".join(tables[1]) + data)


def make_wesnoth(folder: Path, other: str) -> None:
    """Packages of a scenario each, in the layout of Debian's."""
    campaigns = {"ttb": "Two_Brothers", "nr": "Northern_Rebirth"}
    for package in "httt ei dm trow nr low l did dw sof sota sotbe thot tsg ttb".split():  # noqa: SIM905
        game = folder / f"root-{package}" / "usr/share/games/wesnoth/1.16"
        scenarios = game / "data/campaigns" / campaigns.get(package, package) / "scenarios"
        catalogs = game / "locale" / other / "LC_MESSAGES"
        scenarios.mkdir(parents=True)
        catalogs.mkdir(parents=True)
        sides = [text(lang, 10, 12) for lang in ("en", other)]
        lines = [f'name= _ "{sides[0][0]}"']  # no dialogue
        lines += [f'message= _ "speech^<i>{line}</i>"' for line in sides[0]]
        (scenarios / "1.cfg").write_text("#textdomain wesnoth-x\n" + "\n".join(lines))
        keys = [sides[0][0], *(f"speech^<i>{line}</i>" for line in sides[0])]
        write_catalog(
            catalogs / "wesnoth-x.mo",
            dict(zip(keys, [sides[1][0], *(f"<i>{line}</i>" for line in sides[1])], strict=True)),
        )
        build_package(folder / f"root-{package}", folder, f"wesnoth-1.16-{package}")


@pytest.mark.parametrize(
    ("script", "make", "other", "tests", "variables"),
    [
        ("wmt14_en_de", make_wmt, "de", 1, {}),
        ("wmt14_en_de", make_wmt, "de", 1, {"VARIANT": "icml17"}),
        ("wmt14_en_fr", make_wmt, "fr", 1, {"VALID_EVERY": "20"}),
        ("wmt16_en_de", make_wmt, "de", 7, {}),
        ("iwslt14_de_en", make_iwslt, "de", 1, {}),
        ("bible_en_de", make_bible, "de", 1, {}),
        ("multi30k_en_de", make_multi30k, "de", 1, {}),
        ("multi30k_tiny_en_de", make_multi30k, "de", 1, {}),
        pytest.param("libreoffice_en_de", make_libreoffice, "de", 1, {}, marks=needs_dpkg),
        pytest.param("wesnoth_en_de", make_wesnoth, "de", 1, {}, marks=needs_dpkg),
    ],
)
def test_small_archives_in_the_real_formats_are_prepared(
    script, make, other, tests, variables, tmp_path
):
    archives, out = tmp_path / "archives", tmp_path / "out"
    archives.mkdir()
    make(archives, other)
    variables = {"OUT": str(out), "DATA": str(archives), "WORKERS": "1", **variables}
    output = call("bash", RECIPES / "prepare" / f"{script}.sh", **variables)
    assert "pairs" in output
    names = {path.name.split(".")[0] for path in (out / "data-bin").glob("*.idx")}
    assert names == {"train", "valid", *(f"test{n or ''}" for n in range(tests))}
    sides = [(out / "bpe" / f"train.{lang}").read_text().splitlines() for lang in ("en", other)]
    assert len(sides[0]) == len(sides[1]) > 100
    stamp = (out / "data-bin" / "dict.en.txt").stat().st_mtime_ns
    call("bash", RECIPES / "prepare" / f"{script}.sh", **variables)  # nothing is made again
    assert (out / "data-bin" / "dict.en.txt").stat().st_mtime_ns == stamp


def prepare_iwslt(tmp_path, german: list[str], english: list[str], **variables):
    """Run the preparation of IWSLT14 with other training text."""
    archives, out = tmp_path / "archives", tmp_path / "out"
    archives.mkdir()
    members = {}
    for lang, lines in (("de", german), ("en", english)):
        members[f"de-en/train.tags.de-en.{lang}"] = lines
        for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = sgml(lang)
    write_archive(archives / "de-en.tgz", members)
    variables = {"OUT": str(out), "DATA": str(archives), "WORKERS": "1", **variables}
    return out, ["bash", RECIPES / "prepare" / "iwslt14_de_en.sh"], variables


def test_breaks_inside_lines_keep_pairs_together(tmp_path):
    """News Commentary has hundreds of carriage returns, where several tools end a line."""
    german = [*text("de"), "Über A\rund\u2028B \x85."]
    english = [*text("en"), "About A\rand B ."]
    out, script, variables = prepare_iwslt(tmp_path, german, english)
    call(*script, **variables)
    lines = [(out / "tok" / f"lower.{lang}").read_bytes().split(b"\n") for lang in ("de", "en")]
    assert len(lines[0]) == len(lines[1])
    assert lines[0][-2].decode() == "über a und b ."
    assert lines[1][-2].decode() == "about a and b ."


def test_sides_of_unequal_length_stop_the_preparation(tmp_path):
    out, script, variables = prepare_iwslt(tmp_path, text("de"), text("en")[:-1])
    environment = {**os.environ, "PATH": PATH, **variables}
    result = subprocess.run(
        [str(part) for part in script], capture_output=True, text=True, env=environment
    )
    assert result.returncode != 0
    for part in ("all.de", "200 lines", "all.en", "199"):
        assert part in result.stderr
    assert not (out / "data-bin").exists()


class TestOptionsOfTraining:
    def call(self, *arguments, check=True, **variables):
        environment = {**os.environ, "PATH": PATH, "TEXT": "text", "OUT": "it's/out", **variables}
        command = ["bash", str(RECIPES / "train.sh"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def test_options_behind_two_hyphens_keep_their_words(self):
        result = self.call("--dry-run", "--", "--adam-betas", "(0.9, 0.997)", EXTRA="--dropout 0.3")
        (line,) = [line for line in result.stdout.splitlines() if "fairseq-train" in line]
        words = shlex.split(line)
        assert words[-4:] == ["--dropout", "0.3", "--adam-betas", "(0.9, 0.997)"]
        assert "it's/out/rope_cross_transformer_tiny" in words
        for line in result.stdout.splitlines():
            subprocess.run(["bash", "-n", "-c", line], check=True)

    def test_extra_options_may_have_several_lines(self):
        result = self.call("--dry-run", EXTRA="--dropout 0.3\n  --lr 1e-3")
        (line,) = [line for line in result.stdout.splitlines() if "fairseq-train" in line]
        assert shlex.split(line)[-4:] == ["--dropout", "0.3", "--lr", "1e-3"]

    @pytest.mark.parametrize(
        ("arguments", "variables"),
        [(("--dry-run",), {"EXTRA": "--adam-betas '(0.9, 0.997)'"}), (("--dropout", "0.3"), {})],
    )
    def test_what_would_be_misread_is_an_error(self, arguments, variables):
        result = self.call(*arguments, **variables)
        assert result.returncode != 0
        assert "--" in result.stderr


@pytest.mark.skipif(not SHARED.is_dir(), reason="the data are not here")
def test_multi30k_is_prepared_as_in_the_paper(tmp_path):
    """Their segmented files, but for a line on each side with other spaces or quotes."""
    out, archives = tmp_path / "out", tmp_path / "archives"
    archives.mkdir()
    for path in (SHARED / "multi30k").glob("*.[ed][ne].gz"):
        (archives / path.name).symlink_to(path)
    variables = {"OUT": str(out), "DATA": str(archives), "WORKERS": "1"}
    call("bash", RECIPES / "prepare" / "multi30k_tiny_en_de.sh", **variables)
    for split, other in (("train", "train"), ("valid", "valid"), ("test_2016_flickr", "test.2016")):
        for lang in ("en", "de"):
            ours = (out / "bpe" / f"{split}.{lang}").read_text(encoding="utf-8").splitlines()
            path = SHARED / "multi30k_tiny" / f"{other}.{lang}.gz"
            theirs = gzip.decompress(path.read_bytes()).decode().splitlines()
            assert len(ours) == len(theirs)
            assert sum(a != b for a, b in zip(ours, theirs, strict=True)) <= 1


def test_a_missing_member_of_an_archive_stops_the_preparation(tmp_path):
    make_iwslt(tmp_path, "")
    write_archive(tmp_path / "de-en.tgz", {"de-en/other": ["x"]})
    variables = {"OUT": str(tmp_path / "out"), "DATA": str(tmp_path), "PATH": PATH}
    script = ["bash", str(RECIPES / "prepare" / "iwslt14_de_en.sh")]
    result = subprocess.run(script, capture_output=True, text=True, env={**os.environ, **variables})
    assert result.returncode != 0
    assert not (tmp_path / "out" / "data-bin").exists()


def test_scores_equal_sacrebleus(tmp_path):
    from sacrebleu.metrics import BLEU

    pairs = [(f"ein well-known Wort {n} .", f"ein well-known Satz {n} .") for n in range(12)]
    lines = [f"T-{n}\t{r}\nH-{n}\t-1\t{h}\nD-{n}\t-1\t{h}" for n, (h, r) in enumerate(pairs)]
    (tmp_path / "out.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "ref").write_text("".join(f"{r}\n" for _, r in pairs))
    script = ["bash", RECIPES / "papers" / "score.sh"]
    hypotheses, references = zip(*pairs, strict=True)
    for kind, split in (("sacrebleu", False), ("tokenized", False), ("compound", True)):
        ours = float(call(*script, kind, tmp_path / "out.txt", tmp_path / "ref"))
        sides = [
            [re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", s) if split else s for s in side]
            for side in (hypotheses, references)
        ]
        tokenize = "13a" if kind == "sacrebleu" else "none"
        expected = BLEU(tokenize=tokenize, force=True).corpus_score(sides[0], [sides[1]]).score
        assert ours == pytest.approx(expected, abs=0.01)


def test_the_table_has_published_numbers_beside_ours(tmp_path):
    for seed, score in ((1, 20.0), (2, 22.0)):
        (tmp_path / "sinpos" / str(seed)).mkdir(parents=True)
        (tmp_path / "sinpos" / str(seed) / "test.bleu").write_text(f"{score}\n")
    script = [sys.executable, RECIPES / "papers" / "table.py"]
    table = run(*script, RECIPES / "papers" / "cape_en_de_6l.yaml", tmp_path).stdout
    (row,) = [line for line in table.splitlines() if line.startswith("| sinpos")]
    assert "27.66 ± 0.10 | 21.00 ± 1.41 | 2" in row


def test_the_table_averages_years_as_the_paper_does(tmp_path):
    """SHAPE, Table 2: Valid is the mean of 2010 to 2013, Test that of 2014 to 2016."""
    years = {"test3": 20, "test4": 21, "test5": 22, "test6": 23}
    years |= {"test": 30, "test1": 31, "test2": 35}
    (tmp_path / "ape" / "1").mkdir(parents=True)
    for test, score in years.items():
        (tmp_path / "ape" / "1" / f"{test}.bleu").write_text(f"{score}\n")
    script = [sys.executable, RECIPES / "papers" / "table.py"]
    published = {
        "vanilla": {"ape": ("23.61", "30.46"), "rpe": ("23.67", "30.54")},
        "extrapolate": {"ape": ("22.18", "29.22"), "rpe": ("22.97", "29.86")},
        "interpolate": {"ape": ("31.40", "38.23"), "shape": ("32.49", "39.09")},
    }
    for name, systems in published.items():
        table = run(*script, RECIPES / "papers" / f"shape_{name}.yaml", tmp_path).stdout
        for system, (valid, test) in systems.items():
            (row,) = [line for line in table.splitlines() if line.startswith(f"| {system} ")]
            ours = ("21.50", "32.00", 1) if system == "ape" else ("-", "-", 0)
            assert f"| {valid} | {ours[0]} | {test} | {ours[1]} | {ours[2]} |" in row
