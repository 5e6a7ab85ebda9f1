"""recipes/compare.sh: its systems and tests, and its report."""

import shlex
import sys

from tests.evaluation.support import make_rows, write_output
from tests.recipes.support import PATH, RECIPES, call
from tests.recipes.test_recipes import run_recipe
from tests.support import run


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


def test_an_encoding_of_your_own_is_known(tmp_path):
    variables = {"TEXT": "text", "OUT": str(tmp_path), "ENCODINGS": "rope_only_cros"}
    variables["USER_DIR"] = str(RECIPES / "papers" / "ablations")
    result = run_recipe("compare", PATH, **variables)
    assert result.returncode == 1
    assert "did you mean rope_only_cross_transformer_tiny" in result.stderr


def test_the_report_has_scores_losses_and_curves(tmp_path):
    for name, seeds in {"sinpos": (1, 2, 3), "cape": (4, 5, 6)}.items():
        for number, seed in enumerate(seeds, 1):
            folder = tmp_path / name / str(number)
            folder.mkdir(parents=True)
            write_output(folder / "sentences.txt", make_rows(seed))
            write_output(folder / "sentences.loss.txt", make_rows(seed), True)
            (folder / "trained").write_text("40\n")
            (folder / "seconds").write_text("at least 7\n" if seed == 1 else f"{seed}0\n")
            line = "valid on 'valid' subset | loss 4 | nll_loss 2.0 | ppl 4 | num_updates 40 | x"
            (folder / "train.log").write_text(f"{line}\n")
    options = ["--systems", "sinpos", "cape", "--seeds", 1, 2, 3, "--language", "de"]
    script = RECIPES / "compare_report.py"
    run(sys.executable, script, tmp_path, *options, "--longest", 0)
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "too few seeds" not in report
    assert "Seeds: 1, 2, 3." in report
    assert "| cape   | 40      | 50 ± 10 " in report
    assert "| sinpos | 40      | 25 ± 7 " in report  # the interrupted training is left out
    for figure in ("loss_by_position.png", "learning_curves.png"):
        assert figure in report
        assert (tmp_path / figure).stat().st_size > 1000
