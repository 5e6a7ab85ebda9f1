"""Recipes: shellcheck, dry runs, settings."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fairseq import options

from cape_fairseq.inference.checkpoints import find_junction
from tests.recipes.support import PATH, RECIPES, call, replace_programs
from tests.support import ROOT, run

SCRIPTS = sorted([*RECIPES.glob("*.sh"), *RECIPES.glob("prepare/*.sh"), *ROOT.glob("scripts/*.sh")])


def test_shellcheck():
    if shutil.which("shellcheck", path=PATH) is None:
        pytest.skip("shellcheck is not installed")
    call("shellcheck", "-x", "-e", "SC1091", *SCRIPTS, RECIPES / "papers" / "score.sh")


@pytest.mark.parametrize(
    "recipe", ["quickstart", "train", "compare", "floater", "documents", "pretrained"]
)
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


COMMANDS = [path for path in SCRIPTS if path.name not in ("environment.sh", "common.sh")]


@pytest.mark.parametrize("recipe", [path for path in COMMANDS if path.is_relative_to(RECIPES)])
def test_help_shows_the_command(recipe):
    assert str(recipe.relative_to(ROOT)) in call("bash", recipe, "--help")


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
    assert both == " ".join(translator.translate_sentences(["老师买了书。", "学生买了信。"]))


def test_the_dry_run_of_an_evaluation_prints_its_commands(tmp_path):
    out = tmp_path / "out"
    script = ("bash", RECIPES / "evaluate.sh", "--dry-run")
    output = call(*script, "a=a.pt", "b=b.pt", DATA="data-bin", OUT=str(out))
    tools = [shlex.split(line)[:2] for line in output.splitlines() if line.startswith("'cape")]
    assert [tool for _, tool in tools] == [
        "bleu-by-length",
        "compare",
        "position-loss",
        "compare",
        "token-wins",
    ]
    for line in output.splitlines():
        if line.startswith("'fairseq-generate'"):
            words = shlex.split(line.partition(" > ")[0])[1:]
            options.parse_args_and_arch(options.get_generation_parser(), words)
    assert not out.exists()


def test_a_document_checkpoint_is_evaluated_with_separators(document_checkpoint, cape_checkpoint):
    assert find_junction(str(document_checkpoint)) == "separator"
    assert find_junction(str(cape_checkpoint)) == "comma"


class TestOptionsOfTraining:
    def call(self, *arguments, **variables):
        environment = {**os.environ, "PATH": PATH, "TEXT": "text", "OUT": "it's/out", **variables}
        command = ["bash", str(RECIPES / "train.sh"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def test_options_after_two_hyphens_keep_their_words(self):
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


def run_recipe(name, path, *arguments, **variables):
    environment = {**os.environ, "PATH": path, **variables}
    command = ["bash", str(RECIPES / f"{name}.sh"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


class TestDocuments:
    @pytest.fixture
    def variables(self, tmp_path):
        for split in ("train", "valid", "test"):
            for lang in ("en", "de"):
                (tmp_path / f"{split}.{lang}").write_text("a\nb\n")
        (tmp_path / "train.documents").write_text("1\n1\n")
        return {"TEXT": str(tmp_path), "OUT": f"{tmp_path}/out", "LENGTHS": "60 100"}

    def test_a_sentence_model_with_more_updates_trains_documents_anew(self, tmp_path, variables):
        path = replace_programs(tmp_path / "bin")
        for updates in (10, 10, 20):
            result = run_recipe("documents", path, UPDATES=str(updates), **variables)
            assert result.returncode == 0, result.stderr
        sentences, documents = (
            tmp_path / "out" / f"rope_cross_transformer_tiny{name}" for name in ("", "-documents")
        )
        assert (sentences / "trainings").read_text().split() == ["new", "resumed"]
        assert (documents / "trainings").read_text().split() == ["new", "new"]
        assert (documents / "loss.100.txt").is_file()

    @pytest.mark.parametrize(
        ("lines", "more", "words"),
        [("1\n", {}, "train.documents"), ("1\n1\n", {"ARCH": "fire_transformer_tiny"}, "fire")],
    )
    def test_what_documents_lack_stops_before_the_training(
        self, lines, more, words, tmp_path, variables
    ):
        (tmp_path / "train.documents").write_text(lines)
        result = run_recipe("documents", replace_programs(tmp_path / "bin"), **variables, **more)
        assert result.returncode != 0
        assert words in result.stderr
        assert not (tmp_path / "out").exists()


def test_an_evaluation_stops_if_the_data_were_binarized_again(tmp_path):
    path = replace_programs(tmp_path / "bin")
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "model.pt").touch()
    variables = {"DATA": str(data), "OUT": f"{tmp_path}/out", "JUNCTION": "comma"}
    codes = []
    for text in ("a", "a", "b"):
        (data / "test.en-de.en.bin").write_text(text)
        result = run_recipe("evaluate", path, f"x={tmp_path}/model.pt", **variables)
        codes.append(result.returncode)
    assert codes == [0, 0, 1]
    assert "DATA_CHECKSUM" in result.stderr


def test_test_sets_that_were_not_binarized_are_an_error(tmp_path):
    binarized = tmp_path / "data-bin"
    binarized.mkdir()
    (binarized / "done").touch()
    config = [f"corpus={tmp_path}", f"out={tmp_path}/out", "connection=yes", "only=sinpos"]
    table = RECIPES / "papers" / "multi30k_tiny.yaml"
    command = [Path(sys.executable).parent / "snakemake", "-s", RECIPES / "papers" / "Snakefile"]
    result = run(*command, "--configfile", table, "-np", "--config", *config, check=False)
    assert result.returncode != 0
    assert "test_2017_flickr" in result.stdout + result.stderr
    assert "multi30k_tiny_en_de.sh" in result.stdout + result.stderr


class TestSettings:
    """The program ``fairseq-train`` is replaced by one that fails, or writes a file before."""

    def call(self, tmp_path, script, **variables):
        program = tmp_path / "bin" / "fairseq-train"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)
        settings = {"DATA": str(tmp_path), "OUT": f"{tmp_path}/out/", **variables}
        environment = {**os.environ, "PATH": f"{program.parent}:{PATH}", **settings}
        command = ["bash", str(RECIPES / "floater.sh")]
        result = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert result.returncode != 0
        return result.stderr

    def test_a_text_that_is_divided_in_another_way_is_another_text(self, tmp_path):
        program = tmp_path / "bin" / "sacremoses"
        program.parent.mkdir()
        program.write_text("#!/bin/bash\nexit 3\n")
        program.chmod(0o755)
        messages = []
        for count in (2, 2, 1):
            for lang in ("en", "de"):
                (tmp_path / f"train.{lang}").write_text("a\n" * count)
                (tmp_path / f"valid.{lang}").write_text("a\n" * (3 - count))
                (tmp_path / f"test.{lang}").write_text("a\n")
            environment = {"TEXT": str(tmp_path), "OUT": f"{tmp_path}/out", "LC_ALL": "C"}
            environment = {**os.environ, "PATH": f"{program.parent}:{PATH}", **environment}
            command = ["bash", str(RECIPES / "train.sh")]
            result = subprocess.run(command, capture_output=True, text=True, env=environment)
            messages.append(result.stderr)
        assert ["TEXT_CHECKSUM" in message for message in messages] == [False, False, True]

    def test_other_settings_are_an_error_once_something_was_made(self, tmp_path):
        assert "LR=" not in self.call(tmp_path, "exit 3", EXTRA="--wrong")
        made = "touch $OUT/sinpos/checkpoint_last.pt; exit 3"
        assert "LR=" not in self.call(tmp_path, made, LR="1e-3")
        assert "LR=" not in self.call(tmp_path, made, LR="1e-3")
        message = self.call(tmp_path, made, LR="2e-3")
        assert "LR=1e-3" in message
        assert "LR=2e-3" in message
        assert "SIZE=" not in message
        assert "LR=1e-3" in self.call(tmp_path, made, LR="1e")  # no pattern

    @pytest.mark.parametrize(
        "variables",
        [{"UPDATES": "400"}, {"MORE": "x"}, {"EVERY": "08"}, {"DATA": "nowhere"}],
        ids=str,
    )
    def test_numbers_that_cannot_work_stop_the_recipe_before_training(self, tmp_path, variables):
        message = self.call(tmp_path, "echo trained >&2; exit 3", **variables)
        assert "trained" not in message
        assert next(iter(variables.values())) in message


@pytest.mark.parametrize(
    ("recipe", "variables", "named"),
    [
        ("train", {}, "TEXT"),
        ("documents", {}, "TEXT"),
        ("evaluate", {}, "DATA"),
        ("floater", {}, "DATA"),
        ("pretrained", {"TEXT": "text"}, "MODEL"),
        ("train", {"TEXT": "text", "ARCH": "rope_tiny"}, "rope_transformer_tiny"),
    ],
)
def test_settings_are_checked_first(recipe, variables, named, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("TEXT", "DATA", "MODEL")}
    environment |= {"PATH": PATH, "OUT": f"{tmp_path}/out", **variables}
    command = ["bash", str(RECIPES / f"{recipe}.sh")]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode != 0
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{recipe}.sh: ")
    assert named in line
    assert not (tmp_path / "out").exists()
