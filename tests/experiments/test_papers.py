"""The table of the papers' experiments: what it would run, that fairseq takes it, and its costs."""

import itertools
import json
import math
import re
from dataclasses import replace

import pytest
from fairseq import options

from cape_fairseq.errors import UserError
from cape_fairseq.experiments import machine
from cape_fairseq.experiments.collected import cost_rows
from cape_fairseq.experiments.jobs import Plan
from cape_fairseq.experiments.papers import EXPERIMENTS, find
from cape_fairseq.experiments.plan import Settings, experiment_jobs
from cape_fairseq.experiments.table import Row
from cape_fairseq.experiments.training import TrainingRun
from tests.support import ROOT, cape

EFFECTIVE = {
    "cape_en_de_6l": 32768,
    "cape_en_fr_6l": 640_000,
    "shape_vanilla": 112_000,
    "floater_table6": 32_000,
}


def plan_of(name, **settings) -> Plan:
    plan = Plan()
    experiment_jobs(plan, EXPERIMENTS[name], Settings(**{"gpus": 1, **settings}))
    return plan


def trainings(name, **settings) -> list[list[str]]:
    """The words of every train-run of an experiment."""
    found = [
        list(job.commands[0])
        for job in plan_of(name, **settings).jobs
        if "train-run" in job.commands[0]
    ]
    assert found
    return found


def split(words):
    """The folder, the options of train-run, the data, and the options of fairseq-train."""
    middle = words.index("--")
    return words[2], words[3:middle], words[middle + 1], words[middle + 2 :]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_fairseq_accepts_every_training(name, tmp_path):
    experiment, rows = EXPERIMENTS[name], set()
    for words in trainings(name, seeds=(1,), rows=tuple(row.name for row in experiment.rows)):
        run, own, data, more = split(words)
        (tmp_path / "dict.en.txt").touch()
        command = TrainingRun(tmp_path / run, [data, *more], None).command()
        parsed = options.parse_args_and_arch(options.get_training_parser(), command[3:])
        rows.add(run.split("/")[1])
        assert parsed.share_all_embeddings
        assert parsed.update_epoch_batch_itr
        if "--parent" in own:
            parent = own[own.index("--parent") + 1]
            assert parent.split("/")[1] in rows  # a row comes after the one it starts from
        assert saved_checkpoints(parsed) >= experiment.average
    assert rows == {row.name for row in experiment.rows}


def saved_checkpoints(parsed) -> float:
    """How many numbered checkpoints a training leaves, of those saved at equal distances."""
    if not parsed.save_interval_updates:
        return 0 if parsed.no_epoch_checkpoints else min(parsed.max_epoch, parsed.keep_last_epochs)
    # Averaging leaves out ends of epochs between; an update that ends one is found by its name.
    assert parsed.no_epoch_checkpoints or parsed.keep_last_epochs > 0
    kept = math.inf if parsed.keep_interval_updates < 0 else parsed.keep_interval_updates
    most = parsed.max_update // parsed.save_interval_updates if parsed.max_update else math.inf
    return min(kept, most)


@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (3, 1), (8, 1), (8, 4), (64, 1)])
@pytest.mark.parametrize("name", EFFECTIVE)
def test_an_update_has_the_papers_tokens_on_any_number_of_gpus(name, gpus, nodes):
    words = trainings(name, seeds=(1,), gpus=gpus, nodes=nodes)[0]
    tokens, frequency = (int(words[words.index(o) + 1]) for o in ("--max-tokens", "--update-freq"))
    assert tokens * frequency * gpus * nodes == pytest.approx(EFFECTIVE[name], rel=0.005)
    assert tokens <= 8192
    assert words[words.index("--gpus") + 1 : words.index("--") : 2] == [str(gpus), str(nodes)]


def test_short_to_long_is_of_dynamics_that_go_on():
    """FLOATER, section 4.3: nothing is held where the texts of training ended, but in a row of its
    own."""
    rows = {row.name: row.options for row in find("floater_short_to_long").rows}
    for name, beyond in (("floater", "continue"), ("floater-held", "hold")):
        assert rows[name][rows[name].index("--floater-beyond") + 1] == beyond


@pytest.mark.parametrize("name", ["shape_interpolate", "floater_short_to_long"])
def test_translations_of_long_texts_are_not_cut(name):
    """fairseq stops at 200 tokens unless it is told otherwise."""
    lines = [
        " ".join(job.commands[-1])
        for job in plan_of(name).jobs
        if "--beam" in job.commands[-1] and job.commands[-1][0] == "fairseq-generate"
    ]
    assert lines
    assert all("--max-len-a 2 --max-len-b 200" in line for line in lines)


def test_several_gpus_use_torchrun_at_a_port_of_their_own(tmp_path, monkeypatch):
    run = TrainingRun(tmp_path / "run", ["data", "--arch", "x"], None, gpus=4)
    words = " ".join(run.command())
    assert "torch.distributed.run --nproc-per-node 4 --standalone" in words
    assert "--distributed-world-size 4" in words
    many = TrainingRun(tmp_path / "run", ["data", "--arch", "x"], None, gpus=4, nodes=2)
    with pytest.raises(UserError, match="2 nodes need Slurm"):
        many.command()
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    words = " ".join(many.command())
    assert words.startswith("srun --overlap --nodes 2 --ntasks-per-node 1 ")
    assert re.search(r"--nnodes 2 --rdzv-backend c10d --rdzv-endpoint \S+:\d+ --rdzv-id 77", words)
    assert "--distributed-world-size 8" in words


def test_seeds_are_further_apart_than_runs_are_long():
    for experiment in EXPERIMENTS.values():
        for row in experiment.rows:
            seeds = sorted(experiment.seeds_of(row))
            assert all(b - a >= 1_000_000 for a, b in itertools.pairwise(seeds))


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ("cape_en_de_6l", "--rows", "cape7"),
            1,
            "there is no row cape7; choose from sinpos abspos relpos cape5 cape10 cape50",
        ),
        (("cape_en_de_6l", "--seeds", "1 $(x)"), 2, "$(x) is not a whole number above 0"),
        (("cape_en_de_6l", "--seeds", ""), 2, "there is none; give at least one number"),
        (("cape_en_de_6l", "--gpus", "0"), 2, "0 is not a whole number above 0"),
        (("cape9",), 1, "there is no experiment cape9; choose from cape_en_de_6l"),
        (("floater_table6", "--rows", "ode"), 1, 'from row sinpos; add it: --rows "sinpos ode"'),
        (("cape_en_de_6l",), 1, "there is no GPU here"),
        (("cape_en_de_6l", "--gpus", "4"), 1, "there is no GPU here"),
    ],
)
def test_bad_options_are_one_sentence(arguments, status, message, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    smoke = () if message.startswith("there is no GPU") else ("--smoke",)
    result = cape("papers", *arguments, *smoke, "--out", tmp_path / "out", check=False)
    assert result.returncode == status
    assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_dry_run_prints_what_would_run_on_gpus():
    printed = cape("papers", "cape_en_de_6l", "--rows", "cape50", "--gpus", 4, "--dry-run").stdout
    assert "--gpus 4 --nodes 1 -- corpora/wmt14_en_de/data-bin" in printed
    assert "--cpu" not in printed
    assert re.search(r"--fp16$", printed, re.M)


def test_rows_that_no_paper_has_run_only_when_asked_for():
    by_default = {row.name for row in EXPERIMENTS["cape_en_de_18l"].chosen([])}
    assert by_default == {"sinpos", "abspos", "cape10"}
    assert [row.name for row in EXPERIMENTS["cape_en_de_18l"].chosen(["relpos"])] == ["relpos"]


def test_experiments_share_their_corpus():
    plan = Plan()
    for name in ("cape_en_de_6l", "cape_en_de_18l"):
        experiment_jobs(plan, find(name), Settings(rows=("sinpos",), seeds=(1,)))
    assert [job.name for job in plan.jobs].count("corpora/wmt14_en_de") == 1
    assert {"cape_en_de_6l/sinpos/1/train", "cape_en_de_18l/sinpos/1/train"} <= {
        job.name for job in plan.jobs
    }


def test_published_means_are_of_the_published_years():
    """SHAPE's Table 2 has the means of Table 5: a number typed wrong would show."""
    for name in ("shape_vanilla", "shape_extrapolate", "shape_interpolate"):
        for row in EXPERIMENTS[name].rows:
            if "2010" in row.published:
                for column in EXPERIMENTS[name].columns[-3:]:
                    mean = sum(row.published[test] for test in column.tests) / len(column.tests)
                    # The paper's valid of Interpolate, SHAPE and APE are of the joint set.
                    assert row.published[column.name] == pytest.approx(mean, abs=0.03)


def test_every_experiment_has_a_recipe_of_its_name():
    recipes = {path.stem for path in (ROOT / "recipes" / "papers").glob("*.sh")}
    assert recipes == set(EXPERIMENTS)


def test_listing_has_costs_and_states(tmp_path):
    run = tmp_path / "shape_vanilla" / "ape" / "1"
    (run / "logs").mkdir(parents=True)
    line = "| INFO | train_inner | epoch 001: 40 / 90 loss=9, ups=2, num_updates=56000, lr=1\n"
    (run / "logs" / "training.log").write_text(line)
    printed = cape("experiments", "shape_vanilla", "--out", tmp_path).stdout
    ape = next(line for line in printed.splitlines() if " ape " in line)
    assert "1,079" in ape  # 97,073 s x 8 GPUs x 5 seeds
    assert "56,000 updates, 20.0 h to go" in ape


def results(folder, tokenized=True, **values):
    folder.mkdir(parents=True)
    tests = {
        test: {"bleu": value - 1, **({"tokenized_bleu": value} if tokenized else {})}
        for test, value in values.items()
    }
    (folder / "results.json").write_text(json.dumps({"tests": tests}))


def test_collected_results_stand_beside_the_papers(tmp_path):
    results(tmp_path / "cape5" / "1", valid=26.0, test=27.0)
    results(tmp_path / "cape5" / "2", valid=26.0, test=28.0)
    results(tmp_path / "sinpos" / "1", valid=25.0, test=26.5)
    command = ("collect", tmp_path, "--table", "cape_en_de_6l")
    printed = cape(*command).stdout.split("\n\n")[0]
    rows = {line.split()[0]: re.split(r"\s{2,}", line)[1:] for line in printed.splitlines()[2:]}
    assert rows["cape5"] == ["26.86 ± 0.13", "26.00 ± 0.00", "27.89 ± 0.07", "27.50 ± 0.71", "2"]
    assert rows["sinpos"] == ["26.88 ± 0.05", "25.00", "27.66 ± 0.10", "26.50", "1"]
    assert rows["relpos"] == ["26.81 ± 0.16", "-", "27.92 ± 0.07", "-", "0"]
    assert "cape10" not in rows
    swap = {"models": {"shape": {"original": 28.0, "swapped": 27.5}}}
    (tmp_path / "swap.json").write_text(json.dumps(swap))
    printed = cape(*command[:-1], "shape_interpolate").stdout.split("\n\n")[-1].splitlines()
    assert [line.split() for line in printed[1:]] == [
        ["row", "published", "swapped", "ours", "swapped"],
        ["ape", "28.81", "20.74", "-", "-"],
        ["shape", "28.51", "27.06", "28.00", "27.50"],
    ]
    results(tmp_path / "relpos" / "1", tokenized=False, test=27.0)
    refused = cape(*command, check=False)
    assert refused.returncode == 1
    assert "has no tokenized_bleu; score the run again with --tokenized" in refused.stderr


def test_collected_costs_stand_beside_the_first_rows(tmp_path):
    """FLOATER's Table 6: what each row adds to the parameters of the first, and its speed."""
    costs = {
        "sinpos": [(1000, 500.0, 3600), (1000, 700.0, 7200)],  # median 600
        "floater-all": [(1250, 300.0, 1800)],
    }
    for row, runs in costs.items():
        for seed, (parameters, speed, seconds) in enumerate(runs):
            results(tmp_path / row / str(seed), test=27.0)
            path = tmp_path / row / str(seed) / "results.json"
            cost = {"parameters": parameters, "words_per_second": speed, "wall_seconds": seconds}
            path.write_text(json.dumps({**json.loads(path.read_text()), **cost, "device": "X"}))
    rows = (Row("sinpos", "sinpos"), Row("floater-all", "floater"))
    experiment = replace(EXPERIMENTS["floater_table2"], rows=rows)
    other_first = replace(experiment, rows=(Row("rpe", "relpos"), *rows))
    lines = {line[0]: line[1:] for line in cost_rows(tmp_path, other_first).lines}
    assert lines["sinpos"][:4] == ["1,000", "-", "-", "-"]  # the first row has no cost yet
    lines = {line[0]: line[1:] for line in cost_rows(tmp_path, experiment).lines}
    assert lines["sinpos"] == ["1,000", "0", "-", "1.00", "1.50", "-", "X"]
    assert lines["floater-all"] == ["1,250", "250", "-", "0.50", "0.50", "-", "X"]


def test_floater_has_its_additive_form_caching_and_a_plain_model_of_equal_compute():
    rows = {row.name: row for row in EXPERIMENTS["floater_table2"].rows}
    options = {name: " ".join(row.options) for name, row in rows.items()}
    assert "--floater-form additive" in options["floater-additive"]
    assert not rows["floater-additive"].parent
    assert "--floater-refresh 400" in options["floater-authors"]
    longer, floater = rows["sinpos-longer"], rows["floater-all"]
    assert longer.parent == floater.parent == "sinpos-input"
    assert longer.options == floater.options[: len(longer.options)]
    assert all(
        rows[name].extra for name in ("floater-additive", "floater-authors", "sinpos-longer")
    )
