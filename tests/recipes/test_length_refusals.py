"""What recipes/length.sh refuses, in a sentence, before it writes anything."""

import pytest

from tests.support import cape


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("--rows", "cape7"), 1, "there is no row cape7; choose from sinpos abspos"),
        (("--seeds", "0"), 2, "argument --seeds: 0 is not a whole number above 0"),
        (("--seeds", ""), 2, "argument --seeds: there is none; give at least one number"),
        (("--max-update", "many"), 2, "argument --max-update: many is not a whole number above 0"),
        (("--data", "/nowhere"), 1, "there is no folder /nowhere"),
        (
            ("--stack", "1536"),
            1,
            "--stack 1536 makes stacks of up to 2,048 tokens and an end mark",
        ),
        (("--own", "sinpos=cape"), 1, "--own sinpos=cape: the name sinpos is taken; choose"),
        (("--own", "data-bin=cape"), 1, "--own data-bin=cape: the name data-bin is taken"),
        (("--own", "mine=cap"), 1, "--own mine=cap: there is no cap; choose from sinpos abspos"),
        (("--own", "mine=cape --from cap"), 1, "there is no row cap; --from takes another row"),
        *(
            (("--own", text), 1, f"--own {text}: write NAME=MODEL [--from ROW] [OPTIONS], such as")
            for text in ("cape", "mine=", "mine=cape --from", "a/b=cape", "mine=cape 'open")
        ),
        *(
            (words, 2, "languages, splits and --bpe are those of your own text; give --data, too")
            for words in (("--bpe", "2500"), ("--tgt", "fr"), ("--test", "news"))
        ),
        (("--nonsense",), 2, "unrecognized arguments: --nonsense"),
        (("--", "--max-update", "9"), 1, "--max-update does not stand after --; give --max-update"),
        (("--", "--seed=9"), 1, "--seed does not stand after --; give --seeds before it"),
        (("--", "--warmup-updates", "900"), 1, "--warmup-updates is 900, but the training has 900"),
        (("--", "--arch", "x"), 1, "--arch does not stand after --; give --size, or --own"),
        *(
            (
                ("--own", f"mine=cape {own}"),
                1,
                f"{own.split()[0]} does not stand in --own mine; {x}",
            )
            for own, x in (
                ("--max-update 2000", "give --max-update beside it"),
                ("--seed 5", "give --seeds beside it"),
                ("--arch rope_transformer_tiny", "give another model beside it"),
            )
        ),
        (("--own", "mine=cape --warmup-updates 900"), 1, "the training has 900 updates"),
        (
            ("--own", "mine=cape --from sinpos --warmup-updates 300"),
            1,
            "the training has 300 updates",
        ),
        (
            ("--own", "mine=cape --stack-max-tokens 3000"),
            1,
            "--own mine makes stacks of up to 3,000",
        ),
    ],
)
def test_bad_options_are_one_sentence(tmp_path, options, status, message):
    result = cape("lengths", "--out", tmp_path / "out", *options, check=False)
    assert result.returncode == status
    assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_small_batches_and_few_epochs_are_looked_at():
    late = ("lengths", "--rows", "rope-cross-mixed", "--seeds", 1, "--dry-run")
    (plain,) = (line for line in cape(*late).stdout.splitlines() if " check-lengths " in line)
    assert "--longest 1024 --stack 100" in plain
    small = cape(*late, "--", "--max-tokens", 512).stdout.splitlines()
    (own,) = (line for line in small if " check-lengths " in line)
    assert "--longest 1024 --batch 512 --stack 100" in own
    valid = ("--max-tokens", 512, "--max-tokens-valid", 1024)
    assert "--batch" not in cape(*late, "--", *valid).stdout
    refused = cape(*late, "--", "--max-epoch", 2, check=False)
    assert refused.returncode == 1
    assert "--max-epoch 2 ends the training before epoch 3, which has the first" in refused.stderr
    assert cape(*late, "--", "--max-epoch", 3).returncode == 0
