"""Options and text of recipes/train.sh: bad input is one sentence and nothing written."""

from dataclasses import fields

import pytest

from cape_fairseq.errors import UserError
from cape_fairseq.experiments.recipes.train import Training
from tests.recipes.support import command_line, write_corpus
from tests.support import cape


def damage(folder, kind):
    path = folder / "data" / "valid.de"
    lines = path.read_bytes().splitlines(keepends=True)
    if kind == "missing":
        path.unlink()
        return
    if kind == "unequal":
        del lines[3]
    elif kind == "empty":
        lines[2] = b" \n"
    else:
        lines[1] = b"\xff\xfe\n"
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "there is no valid.de or valid.de.gz in "),
        ("unequal", "valid.en has 5 lines and "),
        ("empty", "valid.de, line 3: empty; "),
        ("not UTF-8", "valid.de, line 2: not UTF-8; "),
    ],
)
def test_bad_text_is_one_sentence_and_nothing_written(tmp_path, kind, message):
    write_corpus(tmp_path / "data", train=9, valid=5, test=4)
    damage(tmp_path, kind)
    result = cape("train", *command_line(tmp_path)[2:], check=False)
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_bleu_of_fairseq_chooses_no_checkpoint_where_words_have_no_spaces():
    def selection(target):
        left_open = dict.fromkeys(field.name for field in fields(Training))
        return Training(**{**left_open, "target": target, "select": "bleu"}).selection()

    assert "--eval-bleu" in selection("de")
    with pytest.raises(UserError, match="between spaces, and zh has none; give --select loss"):
        selection("zh")


def test_models_take_the_stacks_that_they_are_trained_on(tmp_path):
    """And the first training stays what it is without them, but for the length of a table."""
    write_corpus(tmp_path / "data", train=9, valid=5, test=4)

    def trainings(*more):
        words = [str(word) for word in command_line(tmp_path)[2:]]
        lines = cape("train", *words, "--dry-run", *more).stdout.splitlines()
        assert any("check-lengths data-bin" in line for line in lines)
        translated = [line for line in lines if line.startswith("fairseq-generate")]
        found = [line for line in lines if " train-run " in line]
        assert len(translated) == len(found)
        assert all("--max-len-a 2 --max-len-b 200" in line for line in translated)
        return found

    (plain,) = trainings()
    short, long = trainings("--long", 1100)
    assert short == plain
    assert "--max-source-positions 1101 --max-target-positions 1101" in long
    both = trainings("--arch", "abspos_transformer_tiny", "--long", 1100)
    assert ["--max-source-positions 1101" in line for line in both] == [True, True]
    for arch, *more in (
        ("floater_transformer_tiny", "--floater-parent", "abspos"),
        ("transformer", "--encoder-learned-pos", "--decoder-learned-pos"),
    ):
        both = trainings("--arch", arch, "--long", 1100, "--", *more)
        assert ["--max-source-positions 1101" in line for line in both] == [True, True]
    (line,) = trainings("--long", 1100, "--long-from-epoch", 2)
    assert "--max-source-positions 1101" in line


def copy_split(folder, source, target):
    for language in ("en", "de"):
        text = (folder / f"{source}.{language}").read_text()
        (folder / f"{target}.{language}").write_text(text)


def test_a_test_set_may_have_any_name(tmp_path):
    write_corpus(tmp_path / "data", train=9, valid=5)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    for name in ("train", "training", "valid"):
        copy_split(tmp_path / "data", "valid", name)
        printed = cape("train", *words, "--test", name, "--dry-run").stdout
        output = name if name == "valid" else "test"
        assert f"> cape_transformer_tiny/{output}.out\n" in printed
        assert f"--test {output}={tmp_path}/data/{name}.de" in printed


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--long", "4096", "--", "--max-tokens=4000"], 1, "and batches have 4,000"),
        (["--long", "4096"], 1, "--long 4096 makes stacks of up to 4,096 tokens and an end mark"),
        (["--", "--max-source-positions", "x"], 1, "is x, but it must be a whole number"),
        (["--bpe", "many"], 2, "argument --bpe: many is not a whole number above 0"),
        (["--max-update", "-5"], 2, "argument --max-update: -5 is not a whole number above 0"),
        (["--max-update", "0"], 2, "argument --max-update: 0 is not a whole number above 0"),
        (["--select", "luck"], 2, "argument --select: invalid choice: 'luck'"),
        (["--frobnicate"], 2, "unrecognized arguments: --frobnicate"),
        (["--seed"], 2, "argument --seed: expected one argument"),
        (["--data", "/nowhere"], 1, "there is no folder /nowhere; give --data a folder with"),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, options, status, message):
    write_corpus(tmp_path / "data", train=9, valid=5, test=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    result = cape("train", *words, *options, check=False)
    assert result.returncode == status
    assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_run_goes_on_from_another(tmp_path):
    write_corpus(tmp_path / "data", train=9, valid=5, test=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    for parent, message in (
        ("sinpos", "has no trained run sinpos; train it first, with the same --out"),
        ("cape_transformer_tiny", "--parent cape_transformer_tiny is this run itself"),
    ):
        refused = cape("train", *words, "--parent", parent, check=False)
        assert refused.returncode == 1
        assert message in refused.stderr
    ready = tmp_path / "out" / "sinpos" / "checkpoints" / "trained.json"
    ready.parent.mkdir(parents=True)
    ready.touch()
    printed = cape("train", *words, "--parent", "sinpos", "--long", 50, "--dry-run").stdout
    (line,) = (line for line in printed.splitlines() if " train-run " in line)
    assert "--parent sinpos/checkpoints/checkpoint_best.pt" in line
    assert "--stack-from-epoch 1" in line
    assert line.rindex("--lr 2e-3") > line.rindex("--lr 4e-3")


def test_a_model_of_fairseq_gets_no_option_of_this_project(tmp_path):
    write_corpus(tmp_path / "data", train=9, valid=5, test=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    for arch, known in (
        ("cape_transformer_tiny", True),
        ("transformer_iwslt_de_en", False),
        ("cmlm_transformer", False),
        ("rope_cross_transformer", True),
    ):
        printed = cape("train", *words, "--arch", arch, "--dry-run").stdout
        (line,) = (line for line in printed.splitlines() if " train-run " in line)
        assert ("--fast-dropout" in line) == known


def test_larger_models_learn_with_less(tmp_path):
    write_corpus(tmp_path / "data", train=9, valid=5, test=4)
    words = [str(word) for word in command_line(tmp_path)[2:-1]]
    options = ("rope_cross_transformer_iwslt_de_en", "--long", 50)
    printed = cape("train", *words, *options, "--dry-run").stdout
    short, long = (line for line in printed.splitlines() if " train-run " in line)
    assert "--lr 5e-4 --warmup-updates 4000 --max-update 20000" in short
    refused = cape("train", *words, options[0], "--max-update", 4000, "--dry-run", check=False)
    assert "--warmup-updates is 4000, but the training has 4,000 updates; give" in refused.stderr
    for given in (("--warmup-updates", 400), ("--max-update", 20000)):  # the user's come last
        cape("train", *words, options[0], "--max-update", 900, "--dry-run", "--", *given)
    assert "--lr 2e-3 --warmup-updates 100 --lr 0.00025 --max-update 6666" in long
    further = ("--parent", "base", "--max-update", 3000, "--dry-run")  # which needs no 4,000
    assert "--warmup-updates 100 " in cape("train", *words, options[0], *further).stdout
    brief = (*further[:3], 80, "--dry-run")  # fewer than 100
    assert "--warmup-updates 40 " in cape("train", *words, options[0], *brief).stdout


def test_long_text_comes_after_short_text(tmp_path):
    write_corpus(tmp_path / "data", train=9, valid=5, test=4)
    words = [str(word) for word in command_line(tmp_path)[2:]]
    options = ("--long", 50, "--max-update", 90, "--dry-run")
    printed = cape("train", *words, *options).stdout
    short, long = (line for line in printed.splitlines() if " train-run " in line)
    assert "train-run cape_transformer_tiny --" in short
    assert "--warmup-updates 45 --max-update 90" in short  # half of them, not 500
    assert "stacked" not in short
    assert "train-run cape_transformer_tiny-long --parent cape_transformer_tiny/" in long
    assert "--max-update 30" in long
    assert "--stack-max-tokens 50 --stack-from-epoch 1" in long
    assert "source-positions" not in printed
    assert "compare cape_transformer_tiny/results.json cape_transformer_tiny-long/" in printed
    printed = cape("train", *words, *options, "--", "--lr", "5e-4", "--warmup-updates", 40).stdout
    short, long = (line for line in printed.splitlines() if " train-run " in line)
    assert short.endswith("--lr 5e-4 --warmup-updates 40")
    assert "--warmup-updates 100 --lr 0.00025 --warmup-updates 15 --max-update 30" in long
    refused = cape("train", *words, *options, "--", "--warmup-updates", 4000, check=False)
    assert "--warmup-updates is 4000, but the training has 90 updates; give" in refused.stderr
    cape("train", *words, "--long", 50, "--max-update", 2, "--dry-run")
    printed = cape("train", *words, *options, "--", "--max-update", 120).stdout
    (long,) = (line for line in printed.splitlines() if "tiny-long --parent" in line)
    assert long.endswith("--max-update 40")
    own = ("--", "--stack-probability", 0.3, "--stack-max-tokens", 40)
    printed = cape("train", *words, *options, *own).stdout
    (check,) = (line for line in printed.splitlines() if "check-lengths" in line)
    assert "--stack-probability 0.3 --stack-max-tokens 40 >" in check
    refused = cape("train", *words, *options, "--", "--lr", "5e-4,1e-4", check=False)
    assert "--lr is 5e-4,1e-4, and a training goes on at half of it" in refused.stderr
    printed = cape("train", *words, *options, "--long-from-epoch", 2).stdout
    (both,) = (line for line in printed.splitlines() if " train-run " in line)
    assert "--stack-max-tokens 50 --stack-from-epoch 2" in both
    refused = cape("train", *words, "--name", "data-bin", "--dry-run", check=False)
    assert "--name data-bin is a folder that the recipe fills; choose another" in refused.stderr
    refused = cape("train", *words, "--long-from-epoch", 2, check=False)
    assert refused.returncode == 2
    assert "--long-from-epoch is for the stacks of --long N" in refused.stderr
