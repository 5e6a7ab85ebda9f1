"""Tables of the papers: options, commands, scores."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
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
    is_published = table not in ("smoke", "multi30k_tiny", "length") and "plot" not in config
    if is_published and not system.get("extra"):
        assert "published" in system or name == "sinpos-input"
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
    if "references" in config:  # Interpolate: of ten sentences
        for test in config["tests"].values():
            assert f" {config['references'].format(test=test)} > " in output
    for training in trainings:
        words = shlex.split(training.removeprefix("Shell command: "))
        tokens, frequency = (
            int(words[words.index(n) + 1]) for n in ("--max-tokens", "--update-freq")
        )
        assert abs(tokens * frequency * gpus - config["tokens_per_update"]) < gpus * frequency
        assert tokens <= config["tokens_per_gpu"]


def record_calls(script: str, folder: Path, **variables: str) -> list[list[str]]:
    """Run commands of a table; the programs that they call only write down their arguments."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("fairseq-generate", "fairseq-preprocess", "cape-fairseq"):
        record = f'echo "{name} ${{*@Q}}" >> {folder}/calls'
        output = f'[[ "$*" =~ (test[78]) ]] && cat {folder}/${{BASH_REMATCH[1]}}'  # of SWAPPED
        (programs / name).write_text(f"#!/bin/bash\n{record}\n{output}\ntrue\n")
        (programs / name).chmod(0o755)
    environment = {**variables, "PATH": f"{programs}:/usr/bin:/bin"}
    command = ["bash", "-euo", "pipefail", "-c", script]
    subprocess.run(command, env=environment, cwd=folder, check=True)
    return [shlex.split(line) for line in (folder / "calls").read_text().splitlines()]


def record_figures(table: str, folder: Path) -> list[list[str]]:
    """Record the calls of the figures of a table whose systems are all trained."""
    config, out = TABLES[table], folder / "out"
    for system in config["systems"]:
        for seed in config.get("seeds", [1]):
            (out / system / str(seed)).mkdir(parents=True)
            (out / system / str(seed) / "model.pt").touch()
    for name, text in SWAPPED.items():
        (folder / name).write_text(text)
    variables = {"OUT": str(out), "DATA": "data", "CORPUS": "corpus"}
    variables["SEEDS"] = " ".join(map(str, config.get("seeds", [1])))
    variables["USER_DIR"] = str(ROOT / "cape_fairseq")
    return record_calls(config["figures"], folder, **variables)


# Outputs for a text of three sentences, and for the same with the first sentence moved.
SWAPPED = {
    "test7": "T-0\ta <sep> b <sep> c\nH-0\t-1\tx\nD-0\t-0.5\tA <sep> B <sep> C\n",
    "test8": "T-0\tb <sep> c <sep> a\nH-0\t-1\tx\nD-0\t-0.5\tB <sep> C <sep> A\n",
}


@pytest.mark.parametrize("table", [name for name in TABLES if "figures" in TABLES[name]])
def test_figures_use_every_seed_that_was_trained(table, tmp_path):
    """fairseq's parser and the list of tools know the commands."""
    calls = record_figures(table, tmp_path)
    for name, *arguments in calls:
        if name == "fairseq-generate":
            options.parse_args_and_arch(options.get_generation_parser(), arguments)
        else:
            assert arguments[0] in TOOLS
    losses = [c for c in calls if c[:2] == ["cape-fairseq", "position-loss"]]
    for loss in losses:
        files = dict(word.split("=") for word in loss[2:] if "=" in word)
        counts = {len(paths.split(",")) for paths in files.values()}
        assert counts == {len(TABLES[table]["seeds"])}
    assert len(losses) == table.startswith("cape")


@pytest.mark.parametrize(
    ("table", "source"),
    [("shape_interpolate", "data/2014.en"), ("shape_extrapolate", "corpus/bpe/2014.en")],
)
def test_figures_3_and_4_of_shape_count_subwords_and_score_validation_texts(
    table, source, tmp_path
):
    calls = record_figures(table, tmp_path)
    (figure3,) = [call for call in calls if call[1] == "bleu-by-length"]
    assert figure3[figure3.index("--source") + 1] == source
    has_relative = "rpe" in TABLES[table]["systems"]  # not on Interpolate: too slow
    assert any(word.startswith("rpe=") for word in figure3) == has_relative
    scored = [call for call in calls if "--score-reference" in call]
    assert [call[call.index("--gen-subset") + 1] for call in scored] == ["valid", "valid"]
    assert [call[1] for call in calls].count("token-wins") == 1


def test_figure_2_of_shape_compares_hidden_states_of_shifted_sources(tmp_path):
    calls = record_figures("shape_interpolate", tmp_path)
    (figure2,) = [call for call in calls if call[1] == "shift-invariance"]
    assert figure2[figure2.index("--offsets") + 1] == "0,100,250,500"
    assert "--plot" in figure2


def test_interpolate_scores_whole_outputs_with_their_separators(tmp_path):
    """SHAPE, footnote 12: detokenized text by 13a, which cuts a separator into three tokens."""
    config = TABLES["shape_interpolate"]
    assert config["score"] == "sacrebleu"
    (tmp_path / "out.txt").write_text(
        "".join(f"H-{n}\t-1\tx\nD-{n}\t-1\tein Satz <sep> noch {n}.\n" for n in range(3))
    )
    (tmp_path / "ref").write_text("".join(f"kein Wort <sep> noch {n}.\n" for n in range(3)))
    script = RECIPES / "papers" / "score.sh"
    ours = float(call("bash", script, config["score"], tmp_path / "out.txt", tmp_path / "ref"))
    # Tokens: ein Satz < sep > noch 0 . (6 of 8 match, then 5 of 7 pairs, 4 of 6 and 3 of 5).
    expected = 100 * (6 / 8 * 5 / 7 * 4 / 6 * 3 / 5) ** 0.25
    assert ours == pytest.approx(expected, abs=0.01)


def test_table_1_of_shape_scores_whole_outputs_and_moved_sentences(tmp_path):
    calls = record_figures("shape_interpolate", tmp_path)
    compared = [call[2:] for call in calls if call[1] == "compare"]
    assert ["moved." in " ".join(files) for files in compared] == [False, True]
    for name in ("test7", "test8"):
        moved = (tmp_path / "out" / "ape" / "1" / f"moved.{name}.txt").read_text()
        assert moved == "T-0\ta\nH-0\t-1\tx\nD-0\t-0.5\tA\n"


def test_table_1_of_shape_has_10_000_training_sequences(tmp_path):
    derived = tmp_path / "derived"
    derived.mkdir()
    for language in ("en", "de"):
        (derived / f"train.{language}").write_text("x\n" * 10_001)
    script = TABLES["shape_interpolate"]["derive"]
    calls = record_calls(script, tmp_path, CORPUS="corpus", DERIVED=str(derived))
    assert (derived / "table1.de").read_text() == "x\n" * 10_000
    swaps = [call for call in calls if call[2] == "swap"]
    assert [call[call.index("--source") + 1] for call in swaps] == [f"{derived}/table1.en"]
    joined = [call[call.index("--target") + 1] for call in calls if call[2] == "concatenate"]
    assert "corpus/raw/2014.de" in joined  # references of ten sentences


def test_short_to_long_chooses_checkpoints_by_short_pairs(tmp_path):
    script = TABLES["floater_short_to_long"]["derive"]
    *derivations, binarize = record_calls(script, tmp_path, CORPUS="corpus", DERIVED="derived")
    outputs = {call[call.index("--source") + 1]: call[-3] for call in derivations}
    assert outputs == {"corpus/bpe/train.en": "derived/x", "corpus/bpe/valid.en": "derived/v"}
    assert binarize[binarize.index("--validpref") + 1] == "derived/v.0-80"


def test_options_that_the_authors_code_has():
    """SHAPE is OpenNMT's: epsilon, frequencies, one table for keys and values. FLOATER: ReLU, and a
    solution for 400 batches."""
    for table in ("shape_vanilla", "shape_extrapolate", "shape_interpolate"):
        assert "--adam-eps 1e-9" in TABLES[table]["training"]
        for system in TABLES[table]["systems"].values():
            is_relative = system["encoding"] == "relpos"
            expected = "--relpos-terms shared" if is_relative else "--sinusoid vaswani"
            assert expected in system["options"]
    for table in (name for name in TABLES if name.startswith("floater")):
        systems = TABLES[table]["systems"].values()
        found = [s["options"] for s in systems if s["encoding"] == "floater"]
        assert any("--floater-dynamics" not in text for text in found)
        for text in found:
            if "--floater-dynamics" not in text:
                assert "--floater-nonlinearity relu --floater-refresh 200" in text


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
    assert table.endswith("published 1.0337, counted not run\n")
    line = "--source-scale is 1.0337; counted in the training data: 1.0329\n"
    (tmp_path / "sinpos" / "1" / "train.log").write_text(line)
    table = run(*script, RECIPES / "papers" / "cape_en_de_6l.yaml", tmp_path).stdout
    assert table.endswith("published 1.0337, counted 1.0329\n")


def test_the_table_averages_years_as_the_paper_does(tmp_path):
    """SHAPE, Table 2: Valid is the mean of 2010 to 2013, Test that of 2014 to 2016."""
    years = {"test3": 20, "test4": 21, "test5": 22, "test6": 23}
    years |= {"test": 30, "test1": 31, "test2": 35}
    (tmp_path / "ape" / "1").mkdir(parents=True)
    for test, score in years.items():
        (tmp_path / "ape" / "1" / f"{test}.bleu").write_text(f"{score}\n")
    script = [sys.executable, RECIPES / "papers" / "table.py"]
    published = {
        "vanilla": {"ape": ("23.61", "30.46", "26.55"), "rpe": ("23.67", "30.54", "26.61")},
        "extrapolate": {"ape": ("22.18", "29.22", "25.19"), "rpe": ("22.97", "29.86", "25.92")},
        "interpolate": {"ape": ("31.40", "38.23", "34.33"), "shape": ("32.50", "39.09", "35.32")},
    }
    for name, systems in published.items():
        table = run(*script, RECIPES / "papers" / f"shape_{name}.yaml", tmp_path).stdout
        for system, (valid, test, average) in systems.items():
            (row,) = [line for line in table.splitlines() if line.startswith(f"| {system} ")]
            ours = ("21.50", "32.00", "26.00", 1) if system == "ape" else ("not run",) * 3 + (0,)
            expected = f"| {valid} | {ours[0]} | {test} | {ours[1]} | {average} | {ours[2]} |"
            assert f"{expected} {ours[3]} |" in row


def test_the_table_has_the_speed_of_training_beside_the_first_system(tmp_path):
    """SHAPE, Table 2. Two seeds count together; other lines of the log do not count."""
    rates = {("ape", 1): [90, 100], ("ape", 2): [110], ("rpe", 1): [40, 50, 60]}
    for (system, seed), values in rates.items():
        folder = tmp_path / system / str(seed)
        folder.mkdir(parents=True)
        lines = [f"| train_inner | epoch 001: 31 / 62 loss=1.5, wps={x}, ups=0.5" for x in values]
        (folder / "train.log").write_text("\n".join([*lines, "| train | wps 9 | wps=9", ""]))
    script = [sys.executable, RECIPES / "papers" / "table.py"]
    table = run(*script, RECIPES / "papers" / "shape_vanilla.yaml", tmp_path).stdout
    speeds = {line.split(" | ")[0]: line.split(" | ")[-2:] for line in table.splitlines()}
    assert speeds["| ape"] == ["x1.00", "x1.00 |"]
    assert speeds["| rpe"] == ["x0.91", "x0.50 |"]
    assert speeds["| shape"] == ["x1.01", "- |"]
