"""``cape-fairseq translate``: raw text in, raw text out."""

import io
import math
import re
import shutil
import sys

import pytest
import torch

from cape_fairseq import load
from cape_fairseq.cli import main
from cape_fairseq.data.languages import find_joiner
from cape_fairseq.data.model_folder import ModelFolder
from cape_fairseq.data.rows import build_row
from cape_fairseq.errors import UserError
from cape_fairseq.inference.segmentation import build_segmentation
from cape_fairseq.inference.sentences import choose_rules, split_sentences
from tests.support import fairseq, train


class TestTranslate:
    @pytest.mark.parametrize(
        ("language", "text", "count"),
        [
            ("en", "He came. She left! Why?", 3),
            ("en", "See https://x.org/Foo.Bar?x=1.Y and www.Example.Com or file.TXT now.", 1),
            ("en", "Dr. Smith came. He left.", 2),
            ("de", "Er kam am 3. Mai. Sie ging.", 2),
            ("zh", "他来了。她走了！为什么？", 3),
            ("hi", "वह आया। वह गई।", 2),
            ("en", "1. Introduction", 1),
            ("en", "1. He came. 2.1. She left. B) They stayed.", 3),
            ("fr", "M. Dupont est là. Oui.", 2),
        ],
    )
    def test_paragraphs_are_split_into_sentences(self, language, text, count):
        sentences = split_sentences(text, language)
        assert len(sentences) == count
        assert "".join(sentences).replace(" ", "") == text.replace(" ", "")

    @pytest.mark.parametrize("name", ["de", "de_DE", "de-AT", "deu", "ger", "deu_Latn"])
    def test_codes_have_a_base_language(self, name, caplog):
        assert choose_rules(name) == "de"
        assert not caplog.records

    def test_tokenized_text_keeps_entities_of_moses(self, cape_checkpoint, data_bin):
        line = "it &apos;s A ."
        found = {
            tokenizer: load(cape_checkpoint, data=data_bin, tokenizer=tokenizer)
            for tokenizer in ("moses", "space")
        }
        assert found["moses"].text.split_paragraph(line, True) == ["it 's A ."]
        assert found["space"].text.split_paragraph(line, True) == [line]

    @pytest.mark.parametrize(("language", "joiner"), [("zho_Hans", ""), ("th", " "), ("de", " ")])
    def test_sentences_are_joined_as_their_language_does(self, language, joiner):
        assert find_joiner(language) == joiner

    @pytest.mark.parametrize("line", ["\x01", "\u200b", "\ufeff", "\u2060 \u00ad"])
    def test_invisible_lines_are_empty(self, line, cape_checkpoint, data_bin):
        assert load(cape_checkpoint, data=data_bin).translate([line]) == [""]

    def test_sentences_are_cut_at_the_limit_of_a_learned_table(self, data_bin, tmp_path):
        limits = ("--max-source-positions", 30, "--max-target-positions", 100)
        train(data_bin, tmp_path, *limits, arch="abspos_transformer_tiny", updates=2)
        translator = load(tmp_path / "checkpoint_last.pt", data=data_bin, tokenizer="space")
        assert len(translator.text.split_paragraph("the " * 50, True)) == 2
        translator.text.max_subwords = 1  # of a word and EOS
        assert "".join(translator.text.split_paragraph("the the", True)) == "thethe"
        (line,) = translator.translate(["the " * 50], max_len_a=0, max_len_b=5)
        assert line

    def call(self, arguments, data: bytes, monkeypatch, capsys):
        """Status, output and errors of ``translate``."""
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        status = main(["translate", *map(str, arguments)])
        return (status, *capsys.readouterr())

    def test_bytes_that_are_not_utf8_are_an_error(
        self, cape_checkpoint, data_bin, monkeypatch, capsys
    ):
        arguments = (cape_checkpoint, "--data", data_bin)
        status, output, error = self.call(arguments, b"one\n\xff\n", monkeypatch, capsys)
        assert (status, output) == (1, "")
        assert "line 2" in error

    def test_other_segmentations_are_errors(
        self, cape_checkpoint, data_bin, tmp_path, monkeypatch, capsys
    ):
        (tmp_path / "vocab.en").write_text("the 12\nman 3\n")
        arguments = (cape_checkpoint, "--data", data_bin)
        codes = ("--bpe-codes", tmp_path / "vocab.en")
        status, _, error = self.call((*arguments, *codes), b"the man\n", monkeypatch, capsys)
        assert status == 1
        assert "vocab.en" in error
        codes = tmp_path / "codes"
        codes.write_text("#version: 0.2\nt h\n2 0\nth e</w>\n\n")  # 2 0 is a pair of symbols
        assert build_segmentation(ModelFolder((tmp_path,)), codes)[0].encode("2 0") == "2 0"
        text = "xylophone quartz jumps vext " * 10
        status, _, error = self.call(arguments, text.encode(), monkeypatch, capsys)
        assert status == 1
        assert "not in the dictionary" in error

    def test_a_checkpoint_without_an_identity_is_too_old(self, cape_checkpoint, data_bin, tmp_path):
        state = torch.load(cape_checkpoint, weights_only=True)
        del state["model"]["identity"]
        torch.save(state, tmp_path / "old.pt")
        with pytest.raises(UserError, match="older"):
            load(tmp_path / "old.pt", data=data_bin)

    def test_an_interruption_has_one_line_and_its_status(self, monkeypatch, capsys):
        def interrupt(argv):
            raise KeyboardInterrupt

        monkeypatch.setattr("cape_fairseq.inference.translate.main", interrupt)
        assert main(["translate", "x.pt"]) == 130
        assert len(capsys.readouterr().err.splitlines()) == 1

    def test_one_odd_line_is_a_warning(self, cape_checkpoint, data_bin, caplog):
        translator = load(cape_checkpoint, data=data_bin, tokenizer="space")
        lines = ["the man .", "x " * 30, "a girl ."]
        assert len(translator.translate(lines, max_len_a=0, max_len_b=3)) == 3
        assert "30 of 31 subwords" in caplog.text

    def test_a_mark_in_the_text_is_a_word(self, cape_checkpoint, data_bin):
        translator = load(cape_checkpoint, data=data_bin, tokenizer="space")
        dictionary = translator.text.source_dictionary
        tokens = translator.text.encode_source("the <s> man").tokens
        assert dictionary.bos() not in tokens
        assert dictionary.unk() in tokens

    def test_codes_are_found_beside_the_dictionaries(self, cape_checkpoint, data_bin, tmp_path):
        folder = tmp_path / "bin"
        shutil.copytree(data_bin, folder)
        (folder / "bpecodes").write_text("#version: 0.2\nt h\nth e</w>\n")
        translator = load(cape_checkpoint, data=folder)
        tokens = translator.text.source_dictionary.string(
            translator.text.encode_source("the man").tokens
        )
        assert translator.hub.bpe.encode("the man") == "the m@@ a@@ n"
        assert len(tokens.split()) == 4

    def test_a_sentence_beyond_the_longest_of_training_is_one_warning(
        self, cape_checkpoint, data_bin, caplog
    ):
        translator = load(cape_checkpoint, data=data_bin, tokenizer="space")
        longest = translator.long_text_policy.longest
        assert longest > 10
        for count in (longest - 1, longest, longest):  # and EOS
            translator.translate(["the " * count, "the man ."], split=False, max_len_b=3)
        found = [x.getMessage() for x in caplog.records if "--max-subwords" in x.getMessage()]
        assert len(found) == 1
        assert f"--max-subwords {longest} " in found[0]

    def test_unknown_words_are_counted(self, data_bin, cape_checkpoint, caplog):
        translator = load(cape_checkpoint, data=data_bin, cpu=True)
        with torch.no_grad():  # a model that says <unk> only
            projection = translator.hub.models[0].decoder.output_projection
            projection.weight[:] = 0
            biased = torch.nn.Linear(projection.in_features, projection.out_features)
            translator.hub.models[0].decoder.output_projection = biased.to(projection.weight)
            translator.hub.models[0].decoder.output_projection.bias[3] += 100
        translator.translate(["the xylophone zebra man ."], max_len_b=3, max_len_a=0)
        (record,) = [x for x in caplog.records if x.levelname == "WARNING"]
        assert re.findall(r"\d+", record.getMessage()) == ["2", "3"]  # of source and translation

    def test_a_stock_model_translates_a_document_as_its_sentences(self, data_bin, tmp_path):
        shared = ["--decoder-layers", 1, "--encoder-attention-heads", 4]
        shared += ["--decoder-attention-heads", 4, "--share-all-embeddings"]
        train(data_bin, tmp_path, *shared, arch="transformer", updates=2)
        translator = load(tmp_path / "checkpoint_last.pt", data=data_bin)
        sentences = ["the old man buys a book .", "a girl sells two eggs ."]
        whole = translator.translate([" ".join(sentences)], max_len_b=10)
        alone = translator.translate_sentences(sentences, max_len_b=10)
        assert whole == [" ".join(alone)]
        documents = translator.translate_documents(
            [sentences, [], ["", sentences[0]]], max_len_b=10
        )
        assert documents == [alone, [], ["", alone[0]]]

    def test_as_many_lines_out_as_in(self, cape_checkpoint, data_bin, monkeypatch, capsys):
        text = "the man has bought the old book. a girl sells 2 eggs.\n\nthe queen laughs .\n"
        arguments = (cape_checkpoint, "--data", data_bin)
        _, output, _ = self.call(arguments, text.encode(), monkeypatch, capsys)
        assert len(output.splitlines()) == 3
        assert output.splitlines()[1] == ""
        assert self.call(arguments, b"", monkeypatch, capsys)[:2] == (0, "")

    def score(self, translator, row):
        """The score of the best translation, base 2."""
        source = build_row(row.context, row.text, translator.text.source_dictionary)
        (hypotheses,) = translator.hub.generate([source], beam=5, max_len_b=10)
        return float(hypotheses[0]["score"]) / math.log(2)

    def test_generate_and_interactive_give_the_rows_of_translate(self, row_checkpoint, data_bin):
        """A document of all sentences of the test set, each after two others."""
        lines = (data_bin.parent / "test.en").read_text(encoding="utf-8").splitlines()
        translator = load(row_checkpoint, data=data_bin, tokenizer="space")
        assert translator.context == 2
        translator.row_limit = 1000  # as in the others, which do not know the training length
        expected = translator.translate(lines, split=False, max_len_b=10)
        own, alone = (
            [self.score(translator, row) for row in translator.build_rows(lines, context)]
            for context in (2, 0)
        )
        options = ["--path", row_checkpoint, "--cpu", "--max-len-b", 10, "--beam", 5]
        options += ["--task", "stacked_translation", "--source-context", 2]
        output = fairseq("generate", data_bin, *options)
        rows = [row.split("\t") for row in output.splitlines() if row.startswith("D-")]
        found = [row[2] for row in sorted(rows, key=lambda row: int(row[0][2:]))]
        assert found == expected
        rows = [row.split("\t") for row in output.splitlines() if row.startswith("H-")]
        scores = [float(row[1]) for row in sorted(rows, key=lambda row: int(row[0][2:]))]
        assert scores == pytest.approx(own, abs=1e-3)
        assert max(abs(a - b) for a, b in zip(own, alone, strict=True)) > 1e-2
        assert f"S-2\t{lines[0]} {lines[1]} <s> {lines[2]}\n" in output
        text = f"{lines[0]}\n{lines[0]} {lines[1]} <s> {lines[2]}\n"
        languages = ["--source-lang", "en", "--target-lang", "de"]
        output = fairseq("interactive", data_bin, *options, *languages, input=text)
        found = [row.split("\t")[2] for row in output.splitlines() if row.startswith("D-")]
        assert found == [expected[0], expected[2]]

    def test_context_reaches_over_paragraphs_and_not_over_documents(self, row_checkpoint, data_bin):
        translator = load(row_checkpoint, data=data_bin, tokenizer="space")
        lines = ["a man sells . two eggs .", "the queen laughs .", "", "a girl ."]
        rows = []
        translator.translate_rows = lambda given: rows.extend(given) or [row.text for row in given]
        assert [bool(line) for line in translator.translate(lines)] == [True, True, False, True]
        encode, dictionary = translator.text.encode_source, translator.text.source_dictionary
        sentences = [encode(s).words[:-1].tolist() for s in ("a man sells .", "two eggs .")]
        contexts = [[words.tolist() for words in row.context] for row in rows]
        assert contexts == [[], sentences[:1], sentences, []]
        assert all(dictionary.bos() not in row.text for row in rows)

    def test_rows_fit_into_the_length_of_training(self, row_checkpoint, data_bin):
        """Earlier sentences are left out whole, the earliest first, and a long text has none."""
        translator = load(row_checkpoint, data=data_bin, tokenizer="space")
        sentences = ["a man .", "the old man buys a book .", "two eggs ."]
        for limit, count in ((15, 2), (14, 1), (12, 1), (11, 0), (3, 0)):
            translator.row_limit = limit
            row = translator.build_rows(sentences, 2)[-1]
            assert len(row.context) == count
            assert len(row.text) == 4

    def test_more_context_than_in_training_is_a_warning(self, row_checkpoint, data_bin, caplog):
        translator = load(row_checkpoint, data=data_bin, tokenizer="space")
        assert translator.choose_context(2) == translator.choose_context(None) == 2
        assert "--context" not in caplog.text
        assert translator.choose_context(3) == 3
        assert "--context" in caplog.text

    def test_translations_come_in_blocks(self, row_checkpoint, data_bin, monkeypatch):
        """With context a block ends with a document."""
        monkeypatch.setattr("cape_fairseq.inference.translator.BLOCK", 2)
        translator = load(row_checkpoint, data=data_bin, tokenizer="space")
        lines = ["a man .", "a girl .", "two eggs .", "", "a book .", "", "a man ."]
        for context, before in ((0, 2), (2, 4)):
            read = []
            stream = translator.stream((read.append(x) or x for x in lines), context, max_len_b=5)
            first = next(stream)
            assert len(read) == before
            rest = list(stream)
            assert [first, *rest] == translator.translate(lines, context, max_len_b=5)

    def test_python_gives_the_translations_of_fairseq_interactive(self, cape_checkpoint, data_bin):
        lines = ["the old man buys a book .", "a girl laughs because the queen sees two eggs ."]
        translator = load(cape_checkpoint, data=data_bin)
        options = [
            "--path",
            cape_checkpoint,
            "--tokenizer",
            "moses_quotes",
            "--cpu",
            "--max-len-b",
            10,
        ]
        languages = ["--source-lang", "en", "--target-lang", "de"]
        output = fairseq("interactive", data_bin, *options, *languages, input="\n".join(lines))
        expected = [row.split("\t")[2] for row in output.splitlines() if row.startswith("D-")]
        assert translator.translate_sentences(lines, max_len_b=10) == expected
