"""Recipes: shellcheck, dry runs, settings."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from fairseq import options

from tests.recipes.support import PATH, RECIPES, call, replace_programs
from tests.support import ROOT

SCRIPTS = sorted([*RECIPES.glob("*.sh"), *RECIPES.glob("prepare/*.sh"), *ROOT.glob("scripts/*.sh")])


def test_shellcheck():
    if shutil.which("shellcheck", path=PATH) is None:
        pytest.skip("shellcheck is not installed")
    call("shellcheck", "-x", "-e", "SC1091", *SCRIPTS, RECIPES / "papers" / "score.sh")


@pytest.mark.parametrize(
    "recipe",
    ["quickstart", "train", "compare", "floater", "documents", "pretrained", "evaluate a=a.pt"],
)
def test_dry_runs_print_commands_that_can_be_pasted(recipe, tmp_path):
    name, *arguments = recipe.split()
    variables = {"OUT": f"{tmp_path}/out", "TEXT": "text", "DATA": "data-bin", "MODEL": "model"}
    output = call("bash", RECIPES / f"{name}.sh", "--dry-run", *arguments, **variables)
    parsers = {
        "fairseq-train": options.get_training_parser,
        "fairseq-generate": options.get_generation_parser,
    }
    lines = [line for line in output.splitlines() if re.match(r"'?fairseq-(train|generate)", line)]
    assert lines
    for line in lines:
        program, *words = shlex.split(line.partition(" > ")[0])
        assert Path(words[words.index("--user-dir") + 1]).is_dir()
        options.parse_args_and_arch(parsers[program](), words)
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
    assert translator.text.encode_source("老师买了书。").words.ne(3).all()
    assert both == " ".join(translator.translate_sentences(["老师买了书。", "学生买了信。"]))


def test_options_after_two_hyphens_keep_their_words(tmp_path):
    variables = {"TEXT": "text", "OUT": "it's/out", "EXTRA": "--dropout 0.3\n  --lr 1e-3"}
    betas = ("--", "--adam-betas", "(0.9, 0.997)")
    result = run_recipe("train", PATH, "--dry-run", *betas, **variables)
    (line,) = [line for line in result.stdout.splitlines() if "fairseq-train" in line]
    words = shlex.split(line)
    assert words[-6:] == ["--dropout", "0.3", "--lr", "1e-3", "--adam-betas", "(0.9, 0.997)"]
    assert "it's/out/rope_cross_transformer_tiny" in words
    for line in result.stdout.splitlines():
        subprocess.run(["bash", "-n", "-c", line], check=True)
    variables["EXTRA"] = "--adam-betas '(0.9, 0.997)'"  # its quotes would be misread
    assert run_recipe("train", PATH, "--dry-run", **variables).returncode != 0


def run_recipe(name, path, *arguments, **variables):
    environment = {**os.environ, "PATH": path, **variables}
    command = ["bash", str(RECIPES / f"{name}.sh"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_misspelt_setting_is_an_error(tmp_path):
    result = run_recipe("train", PATH, "--dry-run", TEXT=str(tmp_path), UPDATE="50")
    assert result.returncode == 1
    assert "UPDATES" in result.stderr


def test_a_misspelt_model_leaves_no_settings(tmp_path):
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (tmp_path / f"{split}.{lang}").write_text("a\n")
    (tmp_path / "model").mkdir()
    variables = {"TEXT": str(tmp_path), "OUT": f"{tmp_path}/out"}
    failing = replace_programs(tmp_path / "bin", **{"cape-fairseq": "echo failed >&2; exit 1"})
    for model, message in (("nosuch", "nosuch"), ("model", "failed"), ("bin", "failed")):
        result = run_recipe("pretrained", failing, MODEL=f"{tmp_path}/{model}", **variables)
        assert result.returncode == 1
        assert message in result.stderr


def test_a_sentence_model_with_more_updates_trains_rows_anew(tmp_path):
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (tmp_path / f"{split}.{lang}").write_text("a\nb\n")
    (tmp_path / "train.documents").write_text("1\n1\n")
    variables = {"TEXT": str(tmp_path), "OUT": f"{tmp_path}/out"}
    path = replace_programs(tmp_path / "bin")
    first = tmp_path / "out" / "rope_cross_transformer_tiny-sentences" / "before.txt"
    times = []
    for updates in (10, 10, 20):
        result = run_recipe("documents", path, UPDATES=str(updates), **variables)
        assert result.returncode == 0, result.stderr
        times.append(first.stat().st_mtime_ns)
    assert times[0] == times[1] < times[2]
    names = ("", "-sentences", "-rows")
    folders = [tmp_path / "out" / f"rope_cross_transformer_tiny{name}" for name in names]
    trainings = [(folder / "trainings").read_text().split() for folder in folders]
    assert trainings == [["new", "resumed"], ["new", "new"], ["new", "new"]]
    assert (folders[2] / "rows.txt").is_file()
    result = run_recipe("documents", path, **variables, TARGET_CONTEXT="1")
    assert result.returncode == 1
    assert "TARGET_CONTEXT" in result.stderr


def test_an_evaluation_is_repeated_once_if_the_model_was_trained_again(tmp_path):
    record = f"echo run >> {tmp_path}/calls; printf 'D-0\\t-1\\tx\\n'"
    path = replace_programs(tmp_path / "bin", **{"fairseq-generate": record})
    model, settings = tmp_path / "model.pt", tmp_path / "out" / "x" / "settings"
    model.touch()
    start = model.stat().st_mtime
    os.utime(model, (start - 30, start - 30))
    variables = {"DATA": str(tmp_path), "OUT": f"{tmp_path}/out", "JUNCTION": "comma"}
    counts = []
    for is_trained in (False, False, True, False):
        if is_trained:
            os.utime(settings, (start - 20, start - 20))
            os.utime(model, (start - 10, start - 10))
        result = run_recipe("evaluate", path, f"x={tmp_path}/model.pt", **variables)
        assert result.returncode == 0, result.stderr
        counts.append((tmp_path / "calls").read_text().count("run"))
    assert counts == [5, 5, 10, 10]


def test_a_text_that_is_divided_in_another_way_is_another_text(tmp_path):
    path, messages = replace_programs(tmp_path / "bin", sacremoses="exit 3"), []
    for count in (2, 2, 1):
        for lang in ("en", "de"):
            (tmp_path / f"train.{lang}").write_text("a\n" * count)
            (tmp_path / f"valid.{lang}").write_text("a\n" * (3 - count))
            (tmp_path / f"test.{lang}").write_text("a\n")
        result = run_recipe("train", path, TEXT=str(tmp_path), OUT=f"{tmp_path}/out")
        messages.append(result.stderr)
    assert ["TEXT_CHECKSUM" in message for message in messages] == [False, False, True]


def test_other_settings_are_an_error_once_something_was_made(tmp_path):
    """A training fails before it leaves something, or after; then another rate is given."""
    made, refused = "touch $OUT/sinpos/checkpoint_last.pt; exit 3", []
    for script, rate in (("exit 3", "3e-3"), (made, "1e-3"), (made, "1e-3"), (made, "1e")):
        path = replace_programs(tmp_path / "bin", **{"fairseq-train": script})
        result = run_recipe("floater", path, DATA=str(tmp_path), OUT=f"{tmp_path}/out/", LR=rate)
        assert result.returncode != 0
        refused.append("LR=1e-3" in result.stderr)
    assert refused == [False, False, False, True]
