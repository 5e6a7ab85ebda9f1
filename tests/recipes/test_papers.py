"""The papers' recipes: what they would run, that fairseq takes it, and two of them on a small
slice."""

import itertools
import json
import math
import re
import shlex

import pytest
from fairseq import options

from cape_fairseq.evaluation.published import TABLES
from tests.support import ROOT, cape, run

RECIPES = ROOT / "recipes" / "papers"
EFFECTIVE = {
    "cape_en_de_6l": 32768,
    "cape_en_fr_6l": 640_000,
    "shape_vanilla": 112_000,
    "floater_table6": 32768,
}


def recipe(name, *arguments, **more):
    return run(["bash", RECIPES / f"{name}.sh", *arguments], **more)


def trainings(name, *arguments) -> list[list[str]]:
    """The options of every fairseq-train that a recipe would run."""
    lines = recipe(name, "--dry-run", *arguments).stdout.splitlines()
    return [
        (words := shlex.split(line))[words.index("fairseq-train") + 1 :]
        for line in lines
        if "fairseq-train" in line
    ]


@pytest.mark.parametrize("name", TABLES)
def test_fairseq_accepts_every_training(name):
    found = trainings(name, "--seeds", "1")
    rows = set()
    for arguments in found:
        parsed = options.parse_args_and_arch(options.get_training_parser(), arguments)
        rows.add(re.search(r"/([^/]+)/1/checkpoints$", parsed.save_dir)[1])
        assert parsed.share_all_embeddings
        assert parsed.distributed_world_size == 1
        if parsed.finetune_from_model:
            assert any(
                f"{a[a.index('--save-dir') + 1]}/checkpoint_best.pt" == parsed.finetune_from_model
                for a in found
            )
        assert saved_checkpoints(parsed) >= AVERAGED.get(name.split("_")[0], 0)
    assert rows == set(TABLES[name].rows)


AVERAGED = {"shape": 10, "floater": 5}


def saved_checkpoints(parsed) -> float:
    """How many numbered checkpoints a training leaves, of those that are saved at equal
    distances."""
    if parsed.save_interval_updates:
        kept = math.inf if parsed.keep_interval_updates < 0 else parsed.keep_interval_updates
        assert parsed.no_epoch_checkpoints  # ends of epochs would come between
        return min(
            kept,
            parsed.max_update // parsed.save_interval_updates if parsed.max_update else math.inf,
        )
    return 0 if parsed.no_epoch_checkpoints else min(parsed.max_epoch, parsed.keep_last_epochs)


@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (3, 1), (8, 1), (8, 4), (64, 1)])
@pytest.mark.parametrize("name", EFFECTIVE)
def test_an_update_has_the_papers_tokens_on_any_number_of_gpus(name, gpus, nodes):
    arguments = trainings(name, "--seeds", "1", "--gpus", gpus, "--nodes", nodes)[0]
    tokens, frequency = (
        int(arguments[arguments.index(option) + 1]) for option in ("--max-tokens", "--update-freq")
    )
    assert tokens * frequency * gpus * nodes == pytest.approx(EFFECTIVE[name], rel=0.005)
    assert tokens <= 8192
    assert int(arguments[arguments.index("--distributed-world-size") + 1]) == gpus * nodes


@pytest.mark.parametrize("name", ["shape_interpolate", "floater_short_to_long"])
def test_translations_of_long_texts_are_not_cut(name):
    """fairseq stops at 200 tokens unless it is told otherwise."""
    lines = [
        line
        for line in recipe(name, "--dry-run").stdout.splitlines()
        if line.startswith("fairseq-generate")
    ]
    assert lines
    assert all("--max-len-a 2 --max-len-b 200" in line for line in lines)


def test_several_gpus_use_torchrun():
    line = next(
        line
        for line in recipe(
            "cape_en_de_18l",
            "--dry-run",
            "--gpus",
            4,
            "--nodes",
            2,
            "--node-rank",
            1,
            "--master",
            "host:1234",
        ).stdout.splitlines()
    )
    assert line.startswith(
        "torchrun --nproc_per_node 4 --nnodes 2 --node_rank 1 --master_addr host --master_port "
        "1234 "
    )
    assert (
        "cape_transformer_wmt_en_de_18l"
        in recipe("cape_en_de_18l", "--dry-run", "--rows", "cape10").stdout
    )


def test_seeds_are_further_apart_than_runs_are_long():
    for name in TABLES:
        seeds = sorted({int(a[a.index("--seed") + 1]) for a in trainings(name)})
        assert all(later - earlier >= 1_000_000 for earlier, later in itertools.pairwise(seeds))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--rows", "cape7"),
            "there is no row cape7; choose from sinpos abspos relpos cape5 cape10 cape50",
        ),
        (("--seeds", "1 $(x)"), "--seeds has $(x), but seeds must be whole numbers above 0"),
        (("--gpus", "0"), "--gpus is 0, but it must be a whole number above 0"),
        (("--node-rank", "1"), "--node-rank is 1, but it must be a number from 0 to 0"),
        (("--nonsense",), "unknown option --nonsense; try --help"),
    ],
)
def test_bad_options_are_one_sentence(arguments, message):
    result = recipe("cape_en_de_6l", *arguments, check=False)
    assert result.returncode == 1
    assert result.stderr.strip() == f"cape_en_de_6l: {message}"


@pytest.mark.parametrize(
    ("name", "rows"), [("cape_en_de_6l", ["cape5"]), ("shape_interpolate", ["shape"])]
)
def test_smoke(name, rows, tmp_path):
    out = tmp_path / "out"
    arguments = ("--smoke", "--rows", " ".join(rows), "--out", out)
    printed = recipe(name, *arguments).stdout
    assert TABLES[name].title in printed
    for row in rows:
        (path,) = out.glob(f"{row}/*/results.json")
        result = json.loads(path.read_text())
        assert result["updates"] == 6
        for scores in result["tests"].values():
            assert {"bleu", "tokenized_bleu", "compound_bleu", "signature"} <= set(scores)
        line = next(
            line
            for line in printed.splitlines()
            if line.startswith(f"{row} ") and line.endswith(" 1")
        )
        assert str(TABLES[name].rows[row]) in line
    if name == "shape_interpolate":
        assert json.loads((out / "swap.json").read_text())["models"]["shape"]["stacks"] > 10
        return
    again = recipe(name, *arguments).stdout
    made = printed.count(" ...\n")
    # Results are collected anew, stand-ins are simply there.
    assert again.count("done before") == made - 2 >= 4


def test_every_bin_of_lengths_has_a_column(tmp_path):
    folder = tmp_path / "floater" / "1"
    folder.mkdir(parents=True)
    tests = {
        name: {"compound_bleu": value} for name, value in (("80-100", 20.0), ("100-120", 10.0))
    }
    (folder / "results.json").write_text(json.dumps({"tests": tests}))
    command = ("collect", tmp_path, "--table", "floater_short_to_long")
    lines = cape(*command).stdout.splitlines()
    assert lines[1].split() == ["row", "published", "ours,", "80-100", "ours,", "100-120", "seeds"]
    assert lines[2].split() == ["sinpos", "-", "-", "-", "0"]
    assert lines[-1].split() == ["floater", "-", "20.00", "10.00", "1"]


def test_a_row_that_starts_from_another_needs_it(tmp_path):
    result = recipe("floater_table6", "--rows", "ode", "--out", tmp_path / "out", check=False)
    assert result.returncode == 1
    assert (
        result.stderr.strip()
        == 'floater_table6: row ode starts from row sinpos; add it: --rows "sinpos ode"'
    )
    assert not (tmp_path / "out").exists()


def results(folder, value, tokenized=True):
    folder.mkdir(parents=True)
    scores = {"bleu": value - 1, **({"tokenized_bleu": value} if tokenized else {})}
    (folder / "results.json").write_text(json.dumps({"tests": {"test": scores}}))


def test_collected_results_stand_beside_the_papers(tmp_path):
    results(tmp_path / "cape5" / "1", 27.0)
    results(tmp_path / "cape5" / "2", 28.0)
    results(tmp_path / "sinpos" / "1", 26.5)
    command = ("collect", tmp_path, "--table", "cape_en_de_6l")
    rows = {line.split()[0]: line.split()[1:] for line in cape(*command).stdout.splitlines()[2:]}
    assert rows["cape5"] == ["27.89", "27.50", "±", "0.71", "2"]
    assert rows["sinpos"] == ["27.66", "26.50", "1"]
    assert rows["relpos"] == ["27.92", "-", "0"]
    assert rows["cape10"] == ["-", "-", "0"]
    (tmp_path / "swap.json").write_text(
        json.dumps({"models": {"shape": {"original": 28.0, "swapped": 27.5}}})
    )
    printed = cape(*command[:-1], "shape_interpolate").stdout.splitlines()
    swapped = next(i for i, line in enumerate(printed) if line.split()[2:3] == ["swapped"])
    assert [line.split() for line in printed[swapped:]] == [
        ["row", "published", "swapped", "ours", "swapped"],
        ["ape", "28.81", "20.74", "-", "-"],
        ["shape", "28.51", "27.06", "28.00", "27.50"],
    ]
    results(tmp_path / "relpos" / "1", 27.0, tokenized=False)
    refused = cape(*command, check=False)
    assert refused.returncode == 1
    assert "has no tokenized_bleu; score the run again with --tokenized" in refused.stderr
