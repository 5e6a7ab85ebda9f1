"""Raw text in, raw text out, and nothing lost: the command, and models in Python."""

import json
import math
import re
import subprocess
import sys

import pytest

from cape_fairseq import load
from cape_fairseq.checkpoints.reading import read, write
from cape_fairseq.serving.text import SETTINGS
from tests.support import cape, fairseq, run

LOADED = {}
PLAIN = {"source": "en", "target": "de", "moses": False}
SHORT = ("--beam", 1, "--max-len-a", 0, "--max-len-b", 3)
HOSTILE = [
    b"w1 w2",
    b"",
    b"nul \x00 byte\x01",
    b"windows line\r",
    "\u202eright to left \u05e9\u05dc\u05d5\u05dd".encode(),
    b"\xff\xfe not utf-8",
    "line\u2028separator\u0085next\x0bvertical\x0cpage".encode(),
    b"   ",
    b"\t\r",
    "\U0001f600 \ufeff zero\u200bwidth".encode(),
    b"carriage \r return within",
    b"w3 w4 w5",
]


def command(*arguments):
    return [sys.executable, "-m", "cape_fairseq", *map(str, arguments)]


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
def test_nothing_is_lost(engine, model, request):
    path = model if engine == "fairseq" else request.getfixturevalue("exported")
    text = b"\n".join(HOSTILE)
    for last in (b"", b"\n") if engine == "ctranslate2" else (b"",):
        result = subprocess.run(
            command("translate", path, "--cpu", "--max-len-b", 5, "--no-progress-bar"),
            input=text + last,
            capture_output=True,
            check=False,
        )
        lines = result.stdout.split(b"\n")
        assert len(lines) == len((text + last).split(b"\n"))
        for source, translation in zip(HOSTILE, lines, strict=False):
            assert translation.endswith(b"\r") == source.endswith(b"\r")
            translation.decode("utf-8")
            assert bool(translation.strip()) == bool(source.split()), source
        assert result.returncode == 1
        assert "line 6: not UTF-8" in result.stderr.decode()
        assert re.search(r"does not know .*\bnul\b", result.stderr.decode())


@pytest.mark.parametrize("more", [(), ("--document", "whole")])
def test_a_pipe_is_answered_line_by_line(more, model):
    process = subprocess.Popen(
        command("translate", model, "--cpu", "--max-len-b", 5, *more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    for line in (b"w1 w2\n", b"\n", b"w3\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    process.stdin.close()
    assert process.wait() == 0


def test_a_reader_that_has_enough_ends_it_quietly(model, tmp_path):
    (tmp_path / "in").write_text("w1 w2 w3\n" * 30_000)
    with open(tmp_path / "err", "wb") as errors:
        process = subprocess.Popen(
            command("translate", model, tmp_path / "in", "--cpu", "--no-progress-bar", *SHORT),
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 0
    assert (tmp_path / "err").read_bytes() == b""


@pytest.mark.parametrize("way", ["whole", "sentences", "windows"])
def test_a_document_of_two_thousand_tokens(way, exported, lines, tmp_path):
    paragraphs = [" ".join(lines[start : start + 10]) for start in range(0, 190, 10)]
    assert len(" ".join(paragraphs).split()) > 1900
    (tmp_path / "in").write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")
    options = ("--document", way, "--beam", 1, "--no-progress-bar")
    result = cape("translate", exported, tmp_path / "in", *options)
    found = result.stdout.split("\n")
    assert len(found) == 2 * len(paragraphs)
    assert all(found[0:-1:2])
    assert not any(found[1::2])
    count = re.search(r"(\d+) sentences from (\d+)", result.stderr)
    assert int(count[2]) == 190


def test_scores_nbest_and_json(model, tmp_path):
    (tmp_path / "in").write_text("w1 w2\n\n")
    options = ("translate", model, tmp_path / "in", "--cpu", "--max-len-b", 5)
    score, text = cape(*options, "--scores").stdout.splitlines()[0].split("\t")
    rows = [row.split("\t") for row in cape(*options, "--nbest", 2).stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2"]
    assert rows[0][1:] == [score, text]
    objects = [json.loads(line) for line in cape(*options, "--json-lines").stdout.splitlines()]
    assert [one["line"] for one in objects] == [1, 2]
    assert objects[0]["text"] == text
    assert len(objects[0]["log_probabilities"]) == len(objects[0]["tokens"]) + 1


def test_the_score_of_a_sentence_in_its_context(model, tmp_path):
    """Of the sentence alone, with its tokens or without."""
    (tmp_path / "in").write_text("w1 w2\nw3 w4 w5\n")
    options = ("translate", model, tmp_path / "in", "--cpu", "--document", "windows")
    options += ("--max-len-b", 5)
    printed = [line.split("\t") for line in cape(*options, "--scores").stdout.splitlines()]
    objects = [json.loads(line) for line in cape(*options, "--json-lines").stdout.splitlines()]
    assert len(printed) == len(objects) == 2
    for (score, text), one in zip(printed, objects, strict=True):
        values = one["log_probabilities"]
        assert (text, len(values)) == (one["text"], len(one["tokens"]) + 1)
        assert float(score) == pytest.approx(sum(values) / len(values), abs=1e-4)


def test_options_of_the_search_and_of_pieces(model, lines, tmp_path):
    (tmp_path / "in").write_text(" ".join(lines[:3]) + "\n", encoding="utf-8")
    options = ("translate", model, tmp_path / "in", "--cpu", "--json-lines")
    cut = cape(*options, "--longest", 9, "--max-len-a", 0, "--max-len-b", 2)
    one = json.loads(cut.stdout)
    assert one["pieces"] > 1
    assert f"more than 9; it was translated in {one['pieces']} pieces" in cut.stderr
    assert "the search ended at its limit of length in line 1; --max-len-b" in cut.stderr
    scores = {}
    for lenpen in (0, 1):
        found = json.loads(cape(*options, "--beam", 1, "--lenpen", lenpen).stdout)
        scores[lenpen] = found["score"], sum(found["log_probabilities"]), len(found["tokens"]) + 1
    assert scores[0][0] == pytest.approx(scores[0][1], abs=1e-3)
    assert scores[1][0] == pytest.approx(scores[1][1] / scores[1][2], abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.pt"], "there is no checkpoint"),
        (["MODEL", "--nbest", "2", "--document", "sentences"], "take --document whole"),
        (["MODEL", "--nbest", "9"], "needs a --beam of at least 9"),
        (["MODEL", "--engine", "ctranslate2"], "is a model for fairseq"),
        (["MODEL", "--source-lang", "en"], "give both"),
        (["MODEL", "--data-bin", "nowhere"], "--data-bin"),
        (["MODEL", "--bpe-codes", "nowhere"], "cannot be used as BPE codes"),
        (["MODEL", "no/such/file"], "no/such/file"),
    ],
)
def test_wrong_use_is_told_in_a_sentence(arguments, words, model):
    given = [str(model) if word == "MODEL" else word for word in arguments]
    result = cape("translate", *given, check=False)
    assert result.returncode in (1, 2)
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_model_that_does_not_fit_is_told_with_the_reason(model, tmp_path):
    for language in ("en", "de"):
        (tmp_path / f"dict.{language}.txt").write_text("w1 1\nw2 1\n")
    result = cape("translate", model, "--data-bin", tmp_path, check=False)
    assert "size mismatch for encoder.embed_tokens.weight" in result.stderr
    state = read(model)
    state["cfg"]["model"].arch = state["cfg"]["model"]._name = "of_another_plugin"
    write(state, model.parent / "other.pt")
    result = cape("translate", model.parent / "other.pt", check=False)
    assert result.returncode == 1
    assert "it is a of_another_plugin, which neither fairseq nor this plugin" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_closed_input_is_told_in_a_sentence(model, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    result = cape("translate", model, check=False)
    assert result.returncode == 2
    assert result.stderr == "cape-fairseq translate: standard input is closed; give a FILE\n"


def test_a_closed_output_is_told_before_anything_is_translated(model):
    closed = ["bash", "-c", '"$@" >&-', "bash", *command("translate", model)]
    result = subprocess.run(closed, input="w1\n", stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    said = "cape-fairseq translate: standard output is closed; translations go there\n"
    assert result.stderr == said


def test_lines_of_several_files_stay_apart(model, tmp_path):
    (tmp_path / "one").write_text("w1 w2\n\nw3")
    (tmp_path / "two").write_text("w4\n")
    words = ("translate", model, tmp_path / "one", "--cpu", "--max-len-b", 5, tmp_path / "two")
    texts = cape(*words).stdout.split("\n")
    assert len(texts) == 5
    for more in ((), ("--document", "sentences")):
        rows = [json.loads(row) for row in cape(*words, "--json-lines", *more).stdout.splitlines()]
        assert [(row["line"], row["text"]) for row in rows] == list(enumerate(texts[:-1], 1))


def test_settings_of_a_later_version_are_refused(model, tmp_path):
    (tmp_path / SETTINGS).write_text(json.dumps({**PLAIN, "new": 1}))
    (tmp_path / "checkpoint.pt").write_bytes(model.read_bytes())
    result = cape("translate", tmp_path / "checkpoint.pt", check=False)
    assert result.returncode == 1
    assert "new" in result.stderr


def test_subwords_without_their_codes_are_refused(model, tmp_path):
    (tmp_path / SETTINGS).write_text(json.dumps({**PLAIN, "moses": True}))
    (tmp_path / "checkpoint.pt").write_bytes(model.read_bytes())
    for language in ("en", "de"):
        first, *more = (model.parent / f"dict.{language}.txt").read_text().splitlines()
        word, count = first.split()
        text = "\n".join([f"{word}@@ {count}", *more])
        (tmp_path / f"dict.{language}.txt").write_text(text + "\n")
    (tmp_path / "in").write_text("w1 w2\n")
    words = ("translate", tmp_path / "checkpoint.pt", tmp_path / "in", "--cpu")
    result = cape(*words, check=False)
    assert result.returncode == 1
    assert f"has subwords ({word}@@), and no BPE codes are known" in result.stderr
    assert result.stdout == ""
    result = cape("export", "fairseq", words[1], tmp_path / "out", check=False)
    assert "put them beside the model by cape-fairseq text-settings" in result.stderr
    assert not (tmp_path / "out").exists()
    assert cape(*words, "--tokenizer", "none").stdout.count("\n") == 1


def test_languages_that_nobody_named(model, tmp_path):
    (tmp_path / "checkpoint.pt").write_bytes(model.read_bytes())
    result = cape("translate", tmp_path / "checkpoint.pt", check=False)
    assert result.returncode == 1
    assert "give --source-lang and --target-lang" in result.stderr


def load_once(path):
    if path not in LOADED:
        LOADED[path] = load(path)
    return LOADED[path]


def test_it_translates_as_fairseq_does(model, lines, tmp_path):
    """fairseq-interactive, with the same search."""
    (tmp_path / "in").write_text("\n".join(lines[-20:]) + "\n")
    printed = fairseq(
        *("interactive", model.parent, "--path", model, "--source-lang", "en", "--target-lang"),
        *("de", "--input", tmp_path / "in", "--cpu", "--beam", 4, "--max-len-a", 2),
        *("--buffer-size", 10, "--max-len-b", 200),
    )
    rows = [line.split("\t") for line in printed.splitlines() if line.startswith("H-")]
    expected = {int(row[0][2:]): (float(row[1]), row[2]) for row in rows}
    for number, one in enumerate(load_once(model).translate(lines[-20:])):
        score, text = expected[number]
        assert one.text == text
        assert one.score / math.log(2) == pytest.approx(score, abs=1e-3)


def test_batches_do_not_matter(model, lines):
    found = load(model, batch=64).translate([*lines[-20:], "", "a"])
    for line, one in zip([*lines[-20:], "", "a"], found, strict=True):
        (alone,) = load_once(model).translate([line])
        assert one.text == alone.text
        assert one.score == pytest.approx(alone.score, abs=1e-4)


def test_details_belong_together(model, lines):
    for line, one in zip(lines[:6], load_once(model).translate(lines[:6], nbest=3), strict=True):
        assert one.source_tokens == line.split()
        assert len(one.others) == 2
        for best in (one, *one.others):
            values = best.log_probabilities
            assert len(values) == len(best.tokens) + 1
            assert sum(values) / len(values) == pytest.approx(best.score, abs=1e-5)
        assert [target for _, target in one.alignment] == list(range(len(one.tokens)))
        assert all(0 <= source < len(one.source_tokens) for source, _ in one.alignment)
        (scored,) = load_once(model).score([line], [one.text])
        assert scored.tokens == one.tokens
        assert scored.log_probabilities == pytest.approx(one.log_probabilities, abs=1e-4)


def test_both_engines_agree(model, exported, lines):
    one, other = (load_once(path).translate(lines) for path in (model, exported))
    same = [a.text == b.text for a, b in zip(one, other, strict=True)]
    assert sum(same) >= 198
    for a, b in zip(one, other, strict=True):
        if a.text == b.text:
            assert a.log_probabilities == pytest.approx(b.log_probabilities, abs=1e-4)
            assert a.score == pytest.approx(b.score, abs=1e-4)
            assert a.alignment == b.alignment


def test_ctranslate2_needs_neither_torch_nor_fairseq(exported):
    code = (
        "import sys, cape_fairseq\n"
        f"print(cape_fairseq.load({str(exported)!r}).translate(['a b'])[0].text)\n"
        "assert not {'torch', 'fairseq'} & set(sys.modules), sys.modules\n"
    )
    assert run([sys.executable, "-c", code]).stdout.strip()


def test_a_longer_text_than_the_table_is_not_cut(exported, lines):
    line = " ".join(lines[:30])
    (found,) = load_once(exported).translate([line])
    assert load_once(exported).longest == 32
    assert found.source_tokens == line.split()
    assert found.pieces >= len(line.split()) / 32
    assert len(found.alignment) == len(found.tokens)


def test_an_ensemble_of_one_model_twice_is_that_model(model, lines, tmp_path):
    one = load_once(model).translate(lines[:4])
    two = load([model, model]).translate(lines[:4])
    assert [a.text for a in one] == [b.text for b in two]
    state = read(model)
    for value in state["model"].values():
        value.mul_(1.1 if value.is_floating_point() else 1)
    write(state, tmp_path / "other.pt")
    mixed = load([model, tmp_path / "other.pt"]).translate(lines[:4])
    assert [a.score for a in one] != [b.score for b in mixed]


def test_fairseqs_own_hub_interface(model, lines):
    from cape_fairseq.models.positional_transformer import PositionalTransformer

    hub = PositionalTransformer.from_pretrained(
        str(model.parent),
        model.name,
        data_name_or_path=str(model.parent),
        source_lang="en",
        target_lang="de",
    )
    expected = [one.text for one in load_once(model).translate(lines[:3], max_len_a=0)]
    assert hub.translate(lines[:3], beam=4) == expected


def test_an_exported_model_knows_its_languages(exported):
    result = cape("translate", exported, "--source-lang", "de", "--target-lang", "en", check=False)
    assert result.returncode == 2
    assert "knows its languages and words; leave out --source-lang" in result.stderr
