"""Tables of the papers: options, commands, scores."""

import json
import re
import runpy
import shlex
import sys

import pytest
import yaml
from fairseq import options

from cape_fairseq.cli import TOOLS
from cape_fairseq.positions import ENCODINGS
from tests.recipes.support import RECIPES, call
from tests.support import ROOT, run

read_table = runpy.run_path(str(RECIPES / "papers" / "table.py"))["read_table"]
TABLES = {path.stem: read_table(path) for path in RECIPES.glob("papers/*.yaml")}
SYSTEMS = [
    (table, name)
    for table, config in TABLES.items()
    for name, system in config["systems"].items()
    if "checkpoint" not in system  # of another system
    and system["encoding"] in ENCODINGS  # the others are those of ablations
]


@pytest.mark.parametrize(("table", "name"), SYSTEMS)
def test_fairseq_accepts_the_options_of_every_system(table, name, tmp_path):
    config = TABLES[table]
    system = config["systems"][name]
    assert system.get("parent", name) in config["systems"]
    arch = system.get("arch") or f"{system['encoding']}_transformer{config['size']}"
    arguments = [
        *("data", "--user-dir", str(ROOT / "cape_fairseq")),
        *("--task", "translation", "--arch", arch),
        *shlex.split(config["training"]),
        *shlex.split(config.get("options", "")),
        *shlex.split(system.get("options", "")),
    ]
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, arguments)
    from cape_fairseq.models.config import validate_options

    if "arch" not in system:  # fairseq's own models have other options
        validate_options(args)


def test_commands_of_the_tables_are_those_of_shell_fairseq_and_tools():
    for table, config in TABLES.items():
        decoding = ["data", *shlex.split(config["decoding"])]
        options.parse_args_and_arch(options.get_generation_parser(), decoding)
        script = "\n".join(config.get(key, "") for key in ("prepare", "derive", "table", "figures"))
        run("bash", "-n", "-c", script)
        for tool in re.findall(r"cape-fairseq ([a-z-]+)", script):
            assert tool in TOOLS, table


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


def test_the_table_has_means_averages_and_speed_beside_published_numbers(tmp_path):
    """Two seeds count together; an average of which a part is missing has no score."""
    published = {"test": "27.66 ± 0.10", "Mean": 26}
    systems = {"sinpos": {"published": published}, "cape": {}, "rope": {}}
    config = {"title": "x", "score": "tokenized", "systems": systems, "source_scale": 1.03}
    config |= {"tests": {"test": "A", "test1": "B"}, "averages": {"Mean": ["test", "test1"]}}
    config["speed"] = {"sinpos": 1, "cape": 0.9}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    runs = [("sinpos", 1, (20, 30), (90, 100)), ("sinpos", 2, (22, 32), (110,))]
    for system, seed, scores, rates in [*runs, ("cape", 1, (21,), (40, 50, 60))]:
        folder = tmp_path / system / str(seed)
        folder.mkdir(parents=True)
        for test, score in zip(config["tests"], scores, strict=False):
            (folder / f"{test}.bleu").write_text(f"{score}\n")
        lines = ["--source-scale is 1; counted in the training data: 1.0329", "| train | wps=9"]
        lines += [f"| train_inner | epoch 001: 31 / 62 loss=1.5, wps={x}, ups=0.5" for x in rates]
        (folder / "train.log").write_text("\n".join(lines))
    script = [sys.executable, RECIPES / "papers" / "table.py", tmp_path / "x.yaml", tmp_path]
    table = run(*script).stdout
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", re.sub(" +", " ", table), re.M))
    means = "27.66 ± 0.10 | 21.00 ± 1.41 | - | 31.00 ± 1.41 | 26.00 | 26.00 ± 1.41 | 2"
    assert rows["sinpos"] == f"{means} | x1.00 | x1.00"
    assert rows["cape"] == "- | 21.00 | - | not run | - | - | 1 | x0.90 | x0.50"
    assert rows["rope"] == "- | not run | - | not run | - | not run | 0 | - | -"
    assert table.endswith("published 1.03, counted 1.0329\n")


def test_rules_have_paired_intervals_and_ratios(tmp_path):
    """Seeds are paired; the interval is Student's."""
    scores = {"M7": (10, 12, 14), "M7.end": (11, 14, 15), "one_by_one.M7": (20, 20, 10)}
    aligned = dict.fromkeys(("chrf", "aligned_chrf", "aligned_missing", "aligned_repeated"), 0.5)
    rows = [
        {
            "system": name,
            "seed": seed,
            "test": "640 tokens",
            "bleu": x,
            "aligned_bleu": x,
            **aligned,
        }
        for name, values in scores.items()
        for seed, x in enumerate(values)
    ]
    (tmp_path / "x.json").write_text(json.dumps({"valid": rows}))
    table = run(sys.executable, RECIPES / "papers" / "rule_table.py", tmp_path / "x.json").stdout
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    interval = 4.302653 * (1 / 3) ** 0.5 / 3**0.5  # differences 1, 2, 1 have the variance 1 / 3
    added = f"+1.33 ± {interval:.2f}"
    assert ["640 tokens", "M7", "windows", "", "", "50.0 to 140.0"] in lines
    assert ["640 tokens", "M7", "windows, end", added, "+0.00 ± 0.00", "55.0 to 150.0"] in lines
