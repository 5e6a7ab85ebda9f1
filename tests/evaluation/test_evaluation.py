"""The evaluation tools on small outputs of fairseq-generate, against slow rewrites."""

import json
import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy import stats

from cape_fairseq.cli import TOOLS, main
from cape_fairseq.evaluation.generated import find_members, join_members, read_translations
from cape_fairseq.evaluation.position_loss import average_spans, build_matrix
from cape_fairseq.evaluation.scores import SENTENCE_END, compute_kept_ends, compute_length_ratio
from tests.evaluation.support import RNG, make_rows, write_output


class TestPositionLoss:
    def test_means_over_bins_and_windows(self):
        scores = [-RNG.random(n) for n in (4, 7, 2)]
        matrix = build_matrix(scores)  # EOS is left out
        bins = average_spans(matrix, [0, 2], [2, 6])
        first = -np.concatenate([s[:-1][:2] for s in scores])
        assert bins.mean[0] == pytest.approx(first.mean())
        assert bins.sentences.tolist() == [3, 2]
        windows = average_spans(matrix, [0, 0, 1, 2, 3, 4], [2, 3, 4, 5, 6, 6])
        for position in range(6):
            near = [
                -s[:-1][p]
                for s in scores
                for p in range(position - 1, position + 2)
                if 0 <= p < len(s) - 1
            ]
            assert windows.mean[position] == pytest.approx(np.mean(near))

    def test_errors_are_standard_errors_of_independent_sentences(self):
        scores = [-RNG.random(2) for _ in range(50)]
        found = average_spans(build_matrix(scores), [0], [1])
        values = np.array([s[0] for s in scores])
        expected = values.std(ddof=1) / math.sqrt(50)
        assert found.error[0] == pytest.approx(expected, rel=0.02)

    def test_the_tool_averages_seeds(self, tmp_path, capsys):
        files = [write_output(tmp_path / f"{s}.txt", make_rows(s), True) for s in (1, 2)]
        output = tmp_path / "loss.json"
        arguments = [f"a={files[0]},{files[1]}", f"b={files[0]}", "--json", str(output)]
        assert main(["position-loss", *arguments, "--plot", str(tmp_path / "loss.png")]) == 0
        systems = json.loads(output.read_text())["systems"]
        means = [np.concatenate([-r[3][:-1] for r in make_rows(s)]).mean() for s in (1, 2)]
        assert systems["a"]["all"]["mean"][0] == pytest.approx(np.mean(means), abs=1e-3)
        assert systems["a"]["all"]["error"][0] == pytest.approx(np.std(means, ddof=1), abs=1e-3)
        assert systems["b"]["all"]["mean"][0] == pytest.approx(means[0], abs=1e-3)
        assert (tmp_path / "loss.png").stat().st_size > 1000
        assert f"{systems['b']['all']['mean'][0]:.3f}" in capsys.readouterr().out

    def test_positions_of_few_texts_are_left_out(self, tmp_path):
        path = write_output(tmp_path / "a.txt", make_rows(1, 30), True)  # of 4, 5, ... 33 tokens
        output = tmp_path / "loss.json"
        assert main(["position-loss", f"a={path}", "--bin-size", "10", "--json", str(output)]) == 0
        found = json.loads(output.read_text())
        assert found["edges"] == [0, 10, 20, 24]  # ten texts have 24 tokens and more
        assert found["systems"]["a"]["bins"]["sentences"][-1] == 13
        assert len(found["systems"]["a"]["smooth"]["mean"]) == 24

    def test_translations_are_not_references(self, tmp_path, capsys):
        path = write_output(tmp_path / "out", make_rows(1))
        assert main(["position-loss", f"a={path}"]) == 1
        assert "--score-reference" in capsys.readouterr().err


def test_length_ratio_and_sentences_kept():
    references = ["a b . c d .", "e f !"]
    texts = ["a b .", "e f ! g ! h !"]
    assert compute_length_ratio(texts, references) == 10 / 9
    assert compute_kept_ends(texts, references) == 2 / 3
    assert compute_length_ratio(["你好吗"], ["你 好 吗 吗"], "zh") == 3 / 4


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("他来了。她走了！为什么？", 3),
        ("彼は来た。彼女は行った。", 2),
        ("वह आया। वह गई।", 2),
        ('He said "Go." She left.', 2),
        ("See x.org or 3.5 now", 0),
        ("สวัสดีครับ", 0),
    ],
)
def test_sentences_kept_of_a_perfect_translation(text, count):
    assert len(SENTENCE_END.findall(text)) == count
    assert compute_kept_ends([text, "a b"], [text, "a b"]) == (1.0 if count else None)


def test_compare_tokenizes_as_sacrebleu_does_for_the_language(tmp_path, capsys):
    reference, translation = "他昨天来了，今天走了。", "他昨天来了，今天走了！"
    rows = [("a", reference, translation, [-1.0])]
    path = write_output(tmp_path / "out", rows)
    assert main(["compare", f"a={path}", "--language", "zh"]) == 0
    output = capsys.readouterr().out
    expected = BLEU(trg_lang="zh", force=True).corpus_score([translation], [[reference]]).score
    assert expected > 50
    assert f"{expected:.2f}" in output
    assert "tok:zh" in output
    for code in ("zho_Hans", "zh-CN", "cmn"):
        assert main(["compare", f"a={path}", "--language", code]) == 0
        assert capsys.readouterr().out == output
    assert main(["compare", f"a={path}", "--tokenize", "char"]) == 0
    assert "tok:char" in capsys.readouterr().out
    assert main(["compare", f"a={path}", "--tokenize", "nothing"]) == 1


def test_sentences_that_make_up_the_texts_are_joined_to_them(tmp_path):
    """Moses puts other spaces around quotes in a text; sentences and empty lines may lie between
    two texts."""
    rows = [(f"S{i} ' .", f"r{i} '.", f"h{i} .", [-1.0]) for i in range(5)]
    rows.insert(3, ("", "", "what the model makes of nothing", [-1.0]))
    texts = [
        ("S0 ' . S1 ' .", "r0 '. r1'.", "x", [-1.0]),
        ("S3 ' .S4 ' .", "r3'. r4'.", "y", [-1.0]),
    ]
    alone = read_translations(write_output(tmp_path / "alone", rows))
    whole = read_translations(write_output(tmp_path / "whole", texts))
    joined = [join_members(members) for members in find_members(alone, whole)]
    assert [text.detokenized for text in joined] == ["h0 . h1 .", "h3 . h4 ."]
    for text, own in zip(joined, whole, strict=True):
        assert text.reference.replace(" ", "") == own.reference.replace(" ", "")
    for other in (rows[:3], [(a, f"{b}?", *rest) for a, b, *rest in rows]):
        others = read_translations(write_output(tmp_path / "other", other))
        assert find_members(others, whole) is None


def test_a_literal_mark_of_subwords_stays(tmp_path, capsys):
    text = "the mark of subword-nmt is @@ in the text that one can see there . " * 3
    path = write_output(tmp_path / "out", [("a", text, text, [-1.0])])
    assert main(["compare", f"a={path}"]) == 0
    assert "100.00" in capsys.readouterr().out


def test_compare_reads_aligned_lines(tmp_path, capsys):
    (tmp_path / "ref").write_text("a b c d .\ne f g h .\n\ni j k l .\n")
    (tmp_path / "one").write_text("a b c d .\ne f g x .\n\ni j k l .\n")
    (tmp_path / "wide").write_text("\na b c d .\n\n\ni j k l .\n\n")
    (tmp_path / "two").write_text("a b c d .\n\n\ni j k l .\n")  # an empty translation
    (tmp_path / "bad").write_text("a b c d .\ni j k l .\n")
    arguments = ["compare", "--reference", str(tmp_path / "ref")]
    output = tmp_path / "scores.json"
    files = [f"a={tmp_path / 'one'},{tmp_path / 'two'}"]
    assert main([*arguments, *files, "--json", str(output)]) == 0
    found = json.loads(output.read_text())["systems"]["a"]["bleu"]
    references = ["a b c d .", "e f g h .", "i j k l ."]
    scores = [
        BLEU(force=True).corpus_score(["a b c d .", text, "i j k l ."], [references]).score
        for text in ("e f g x .", "")
    ]
    assert found["mean"] == pytest.approx(np.mean(scores))
    assert main([*arguments, f"a={tmp_path / 'bad'}"]) == 1
    assert main(["compare", "--reference", str(tmp_path / "two"), f"a={tmp_path / 'one'}"]) == 1
    assert "line 2" in capsys.readouterr().err
    wide = str(tmp_path / "wide")
    assert main(["compare", "--reference", wide, f"a={wide}"]) == 0
    assert "100.00" in capsys.readouterr().out
    (tmp_path / "empty").write_text("")
    assert main(["compare", "--reference", str(tmp_path / "empty"), f"a={wide}"]) == 1


def test_compare_says_where_references_differ(tmp_path, capsys):
    for name, count in (("a", 3), ("b", 2)):
        write_output(tmp_path / name, make_rows(1, count))
    for names, others in (("a", []), ("ab", ["b"])):
        output = tmp_path / "out.json"
        files = [f"{name}={tmp_path / name}" for name in names]
        assert main(["compare", *files, "--json", str(output)]) == 0
        found = json.loads(output.read_text())
        assert found["other_references"] == found["other_words"] == others
        assert ("(2 texts)" in capsys.readouterr().out) == bool(others)


def test_compare_gives_mean_deviation_and_welchs_interval_of_seeds(tmp_path, capsys):
    files = [str(write_output(tmp_path / f"{s}.txt", make_rows(s))) for s in range(1, 8)]
    output = tmp_path / "scores.json"
    systems = [f"a={','.join(files[:3])}", f"b={','.join(files[3:])}", f"c={files[0]},{files[1]}"]
    assert main(["compare", *systems, "--json", str(output)]) == 0
    scores = [
        BLEU().corpus_score([r[2] for r in rows], [[r[1] for r in rows]]).score
        for rows in map(make_rows, range(1, 8))
    ]
    a, b = np.array(scores[:3]), np.array(scores[3:])
    parts = [x.var(ddof=1) / len(x) for x in (a, b)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)  # Welch-Satterthwaite
    found = json.loads(output.read_text())["systems"]
    assert found["a"]["bleu"]["mean"] == pytest.approx(a.mean())
    assert found["a"]["bleu"]["deviation"] == pytest.approx(a.std(ddof=1))
    assert found["b"]["bleu_difference"]["mean"] == pytest.approx(b.mean() - a.mean())
    expected = stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts))
    assert found["b"]["bleu_difference"]["interval"] == pytest.approx(expected)
    assert found["a"]["bleu_difference"] is None
    assert found["c"]["bleu_difference"] is None
    assert f"{b.mean() - a.mean():+.2f} ± {expected:.2f}" in capsys.readouterr().out


def test_token_wins_count_tokens_one_by_one(tmp_path):
    rows = make_rows(1), make_rows(2)
    files = [write_output(tmp_path / str(i), r, True) for i, r in enumerate(rows)]
    dictionary = tmp_path / "dict.txt"
    dictionary.write_text("w1 50\nw2 5\n. 2000\n")
    output = tmp_path / "wins.json"
    options = ["--dictionary", str(dictionary), "--json", str(output)]
    figure = ["--plot", str(tmp_path / "wins.png")]
    assert main(["token-wins", f"a={files[0]}", f"b={files[1]}", *options, *figure]) == 0
    result = json.loads(output.read_text())
    pairs = [
        (a > b, position, word)
        for one, other in zip(*rows, strict=True)
        for position, (a, b, word) in enumerate(
            zip(one[3][:-1], other[3][:-1], one[1].split(), strict=True)
        )
    ]
    assert result["share"] == pytest.approx(np.mean([win for win, *_ in pairs]), abs=1e-4)
    found = result["maps"]["frequency"]
    row, column = found["rows"].index("10-99"), found["columns"].index("0-9")
    chosen = [win for win, position, word in pairs if word == "w1" and position < 10]
    assert found["tokens"][row][column] == len(chosen)
    assert found["share"][row][column] == pytest.approx(np.mean(chosen), abs=1e-4)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_has_help_with_examples(tool, capsys):
    with pytest.raises(SystemExit) as stop:
        main([tool, "--help"])
    assert stop.value.code == 0
    assert f"cape-fairseq {tool}" in capsys.readouterr().out.partition("examples:")[2]


def test_every_encoding_is_listed(capsys):
    from cape_fairseq.positions import ENCODINGS

    assert main(["encodings"]) == 0
    text = capsys.readouterr().out
    for name, cls in ENCODINGS.items():
        assert f"\n{name}: " in f"\n{text}"
        assert cls.paper in text
