"""recipes/compare.sh: its systems and tests, and its report."""

import shlex
import sys
from pathlib import Path

from cape_fairseq.evaluation.compare import format_result, measure
from tests.evaluation.support import make_rows, write_output
from tests.recipes.support import PROGRAMS, RECIPES, call, replace_programs
from tests.recipes.test_recipes import run_recipe


def list_commands(output, program):
    return [words for line in output.splitlines() if (words := shlex.split(line))[0] == program]


def read_option(words, name):
    return words[words.index(name) + 1]


def test_every_system_is_trained_with_every_seed(tmp_path):
    systems = "sinpos;\ncape50: cape --cape-global-shift 50;"
    variables = {"TEXT": "text", "OUT": str(tmp_path), "SEEDS": "1\n5", "LONGEST": "40"}
    output = call("bash", RECIPES / "compare.sh", "--dry-run", ENCODINGS=systems, **variables)
    trainings = list_commands(output, "fairseq-train")
    found = {
        (read_option(words, "--save-dir"), read_option(words, "--arch"), words[-1])
        for words in trainings
    }
    assert found == {
        (f"{tmp_path}/{name}/{seed}", f"{arch}_transformer_tiny", last)
        for seed in (1, 5)
        for name, arch, last in (("sinpos", "sinpos", "40"), ("cape50", "cape", "50"))
    }
    assert all(read_option(words, "--stack-max-tokens") == "40" for words in trainings)
    tests = list_commands(output, "fairseq-generate")
    lengths = [words[words.index("--stack-min-tokens") + 1] for words in tests if "--task" in words]
    assert sorted(lengths) == ["160"] * 8 + ["20"] * 8  # translated and scored, four trainings


GENERATE = """for word; do
    case $word in */checkpoint_last.pt) run=${word%/*} ;; --score-reference) kind=.loss ;; esac
done
cat "$PREPARED/$(basename "${run%/*}").${run##*/}$kind" """
TRAINING = """echo "valid on 'valid' subset | loss 4 | nll_loss 2.0 | ppl 4 | num_updates 40 | x"
"""


def test_the_report_has_scores_losses_and_curves(tmp_path):
    for name, seeds in {"sinpos": (1, 2), "cape": (4, 5)}.items():
        for number, seed in enumerate(seeds, 1):
            write_output(tmp_path / f"{name}.{number}", make_rows(seed))
            write_output(tmp_path / f"{name}.{number}.loss", make_rows(seed), True)
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            (tmp_path / f"{split}.{lang}").write_text("a\n")
    tool = Path(sys.executable).parent / "cape-fairseq"
    scripts = {"fairseq-generate": GENERATE, "cape-fairseq": f'exec {tool} "$@"'}
    scripts["fairseq-train"] = TRAINING + PROGRAMS["fairseq-train"]
    path = replace_programs(tmp_path / "bin", **scripts)
    variables = {"TEXT": str(tmp_path), "OUT": f"{tmp_path}/out", "PREPARED": str(tmp_path)}
    variables |= {"ENCODINGS": "sinpos; cape", "SEEDS": "1 2", "UPDATES": "40"}
    result = run_recipe("compare", path, **variables)
    assert result.returncode == 0, result.stderr
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert report in result.stdout
    files = {
        name: [tmp_path / "out" / name / seed / "sentences.txt" for seed in "12"]
        for name in ("sinpos", "cape")
    }
    assert format_result(measure(files, language="de")) in report
    assert "- cape: 40 updates" in report
    for figure in ("loss.sentences.png", "learning_curves.png"):
        assert figure in report
        assert (tmp_path / "out" / figure).stat().st_size > 1000
