"""Rows: sources with the sentences before them, against a slow rewrite."""

from argparse import Namespace
from itertools import chain

import numpy as np
import pytest
import torch

from cape_fairseq.data.rows import measure_texts
from cape_fairseq.inference.long_text import LongTextOptions, LongTextPolicy
from tests.support import PAD, SMALL, SmallTask, build, make_batch
from tests.tasks.support import binarize_test, make_task

BOS, EOS = 0, 2


def load(data_bin, split, **options):
    task = make_task(data_bin, **options)
    task.load_dataset(split)
    return task, task.dataset(split)


def split_row(tokens):
    """The earlier sentences and the text of a row, as lists of tokens."""
    marks = (tokens == BOS).nonzero().flatten().tolist()
    return (
        ([], tokens.tolist())
        if not marks
        else (tokens[: marks[0]].tolist(), tokens[marks[0] + 1 :].tolist())
    )


@pytest.fixture
def documents(data_bin):
    """Names of the documents of all splits: runs of four sentences."""
    sizes = {"train": 300, "valid": 30, "test": 13}
    names = {split: [str(i // 4) for i in range(size)] for split, size in sizes.items()}
    for split, lines in names.items():
        (data_bin / f"{split}.documents").write_text("\n".join(lines) + "\n")
    yield names
    for split in names:
        (data_bin / f"{split}.documents").unlink()


@pytest.mark.parametrize("stack", [1, 2])
def test_tests_have_all_earlier_sentences_of_the_document(data_bin, documents, stack):
    _, plain = load(data_bin, "test", stack_sentences=1, stack_junction="none")
    sentences = [plain[i]["source"][:-1].tolist() for i in range(13)]
    options = {"stack_sentences": stack} if stack > 1 else {}
    _, rows = load(data_bin, "test", source_context=3, stack_junction="none", **options)
    expected = []
    for start in range(0, 13, 4):
        document = range(start, min(start + 4, 13))
        for first in document[::stack]:
            if first + stack > document.stop:
                continue  # a shorter stack is left out
            earlier = [sentences[i] for i in document if first - 3 <= i < first]
            text = chain.from_iterable(sentences[first : first + stack])
            expected.append(([*chain.from_iterable(earlier)], [*text, EOS]))
    assert [split_row(rows[i]["source"]) for i in range(len(rows))] == expected
    assert all(BOS not in rows[i]["target"] for i in range(len(rows)))
    assert rows.src_sizes.tolist() == [len(rows[i]["source"]) for i in range(len(rows))]


def test_training_samples_the_number_of_earlier_sentences(data_bin, documents):
    """From 0 to N in each epoch; texts stay what they are without context."""
    mixed = {"stack_probability": 0.5, "stack_max_tokens": 60, "stack_junction": "none"}
    _, alone = load(data_bin, "train", **mixed)
    for options in ({}, mixed):
        _, rows = load(data_bin, "train", source_context=2, **options)
        counts = []
        for epoch in (1, 2):
            rows.set_epoch(epoch)
            counts.append([len(context) for context in rows.rows.contexts])
            firsts = [text[0] for text in rows.rows.texts]
            possible = [min(2, first % 4) for first in firsts]
            assert all(a <= b for a, b in zip(counts[-1], possible, strict=True))
            for most in (1, 2):  # a row with two before it has one of them in a third of the epochs
                found = [a for a, b in zip(counts[-1], possible, strict=True) if b == most]
                if len(found) > 50:
                    shares = np.bincount(found, minlength=3)[: most + 1] / len(found)
                    wanted = [1 / 3, 2 / 3] if most == 1 else [1 / 3] * 3
                    assert shares == pytest.approx(wanted, abs=0.17)
        assert counts[0] != counts[1]
        assert not rows.can_reuse_epoch_itr_across_epochs
        rows.set_epoch(1)
        assert [len(context) for context in rows.rows.contexts] == counts[0]
        if options:
            assert rows.rows.texts == alone.rows.texts
    _, valid = load(data_bin, "valid", source_context=2)
    assert valid.can_reuse_epoch_itr_across_epochs
    assert [len(context) for context in valid.rows.contexts] == [min(2, i % 4) for i in range(30)]


def test_rows_fit_into_a_batch_and_a_table_of_positions(data_bin):
    """Earlier sentences are left out whole, the earliest first; texts stay."""
    _, full = load(data_bin, "test", source_context=3)
    median = int(np.median(full.src_sizes))
    for how in ("max_tokens", "max_source_positions", "model"):
        task = make_task(data_bin, source_context=3)
        if how == "model":
            task.source_limit = median
        else:
            setattr(task.cfg, how, median)
        task.load_dataset("test")
        rows = task.dataset("test")
        assert len(rows) == 13
        assert rows.src_sizes.max() <= median
        for number in range(13):
            whole, cut = full.rows.contexts[number], rows.rows.contexts[number]
            assert list(cut) == list(whole[len(whole) - len(cut) :])
            if len(cut) < len(whole):  # one more would not fit
                more = whole[len(whole) - len(cut) - 1]
                extra = int(full.rows.source_sizes[more]) - 1 + (not cut)
                assert rows.src_sizes[number] + extra > median


def test_empty_lines_are_no_context(data_bin, tmp_path):
    text = {
        "en": "the man\na girl\n\nthe egg\na book\n",
        "de": "der Mann\nein Mädchen\n\ndas Ei\nein Buch\n",
    }
    binarize_test(text, data_bin, tmp_path)
    _, rows = load(tmp_path / "bin", "test", source_context=2)
    assert [list(context) for context in rows.rows.contexts] == [[], [0], [], [3]]
    (tmp_path / "bin" / "test.documents").write_text("a\n" * 5)
    _, rows = load(tmp_path / "bin", "test", source_context=2)
    assert [list(context) for context in rows.rows.contexts] == [[], [0], [0, 1], [1, 3]]


def test_a_split_without_documents_is_one_with_a_warning(data_bin, caplog):
    load(data_bin, "test", source_context=1)
    assert len([x for x in caplog.records if "--source-context" in x.getMessage()]) == 1
    caplog.clear()
    load(data_bin, "test", stack_sentences=2)
    assert not [x for x in caplog.records if x.levelname == "WARNING"]


@pytest.mark.parametrize("left", [True, False])
def test_the_length_of_a_text_begins_after_the_mark(left):
    tokens = make_batch([9, 4, 7], left=left)
    tokens[0, 3] = BOS
    tokens[2, 3 + 2 * left] = BOS
    expected = [int((split_row(row)[1] != np.array(PAD)).sum()) for row in tokens]
    assert measure_texts(tokens, PAD, BOS).tolist() == expected == [5, 4, 3]


def test_outputs_are_limited_by_the_text(data_bin):
    """Random weights translate without an end."""
    model = build("rope_cross")
    with torch.no_grad():
        model.decoder.output_projection.weight[EOS] = 0
    task = make_task(data_bin)
    task.tgt_dict = task.src_dict = SmallTask().source_dictionary
    args = type("Args", (), {"beam": 2, "max_len_a": 1, "max_len_b": 2, "sampling": False})
    generator = task.build_generator([model], args)
    row = make_batch([12])
    row[0, 7] = BOS
    net_input = {"src_tokens": row, "src_lengths": torch.tensor([12])}
    (found,) = generator.generate([model], {"net_input": net_input})
    assert len(found[0]["tokens"]) == 4 + 2 + 1  # the text, max_len_b, EOS


@pytest.mark.parametrize(
    "rules",
    [
        {"cross_attention_window": 5},
        {"alignment_end": 5.0},
        {"alignment_gain": 0.1, "attention_window": 5},
    ],
)
def test_rules_that_count_from_the_first_source_token_are_errors(data_bin, rules):
    """They would take the context for the beginning of the text."""
    options = Namespace(arch="rope_cross_transformer_tiny", **SMALL, **rules)
    task = make_task(data_bin, source_context=1)
    with pytest.raises(ValueError, match="--source-context"):
        task.build_model(options)
    model = make_task(data_bin).build_model(options)
    options = Namespace(arch="rope_cross_transformer_tiny", **SMALL, attention_window=5)
    model = make_task(data_bin, source_context=1).build_model(options)
    model.encoder.training_lengths.longest.fill_(50)
    assert LongTextPolicy.of(model, LongTextOptions()).options is not None
    assert LongTextPolicy.of(model, LongTextOptions(), has_context=True).options is None


def test_other_models_and_long_prefixes_are_searched(data_bin):
    """fairseq's LSTM takes a state that has anything for one of its own; a prefix may be longer
    than what a text allows."""
    task = make_task(data_bin)
    options = Namespace(arch="lstm_wiseman_iwslt_de_en", criterion="cross_entropy")
    for name in ("encoder", "decoder"):
        setattr(options, f"{name}_embed_path", None)
    model = task.build_model(options).eval()
    args = Namespace(beam=2, max_len_a=1, max_len_b=0, sampling=False)
    generator = task.build_generator([model], args)
    source = make_batch([12, 3], left=True)
    net_input = {"src_tokens": source, "src_lengths": torch.tensor([12, 3])}
    prefix = torch.tensor([[7, 8, 9, 10, 11]] * 2)
    found = generator.generate([model], {"net_input": net_input}, prefix_tokens=prefix)
    for hypotheses in found:
        assert hypotheses[0]["tokens"][:5].tolist() == prefix[0].tolist()
