"""Junction rules on hand-made text, and what must hold for every stack."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cape_fairseq.data.stacking import Rules, edit_sentence, join, lower_first, open_end, stacks

FULL_STOPS = [
    ("He went home .", "He went home ,", "en"),
    ("He went home.", "He went home,", "en"),  # raw text
    ("Wer ist da ?", "Wer ist da ?", "de"),  # other marks stay
    ("Wait !", "Wait !", "en"),
    ("He said :", "He said :", "en"),
    ("No mark at the end", "No mark at the end", "en"),
    ('He said , " Go . "', 'He said , " Go , "', "en"),  # behind the stop only closing marks
    ("He said , &quot; Go . &quot;", "He said , &quot; Go , &quot;", "en"),  # as Moses escapes them
    ("( It rained . )", "( It rained , )", "en"),
    ("( It rained . &#93; )", "( It rained , &#93; )", "en"),
    ("„ Geh heim . “", "„ Geh heim , “", "de"),
    ('"Go." he said', '"Go." he said', "en"),  # a stop inside
    ("Well ...", "Well ...", "en"),  # ellipses
    ("Well . . .", "Well . . .", "en"),
    ("Well …", "Well …", "en"),
    ("made in the U.S.", "made in the U.S.", "en"),  # Moses leaves this dot on its word
    ("made in the U.S. .", "made in the U.S. ,", "en"),
    ("Obst , z.B.", "Obst , z.B.", "de"),
    ("Obst , z@@ .@@ B@@ .", "Obst , z@@ .@@ B@@ .", "de"),  # the same, in pieces
    ("Äpfel usw.", "Äpfel usw.", "de"),  # Moses' list for German
    ("Äpfel usw.", "Äpfel usw,", "en"),  # which is not that for English
    ("by Smith et al .", "by Smith et al ,", "en"),  # a token of its own is a full stop
    ("Es war 1999.", "Es war 1999,", "de"),
    ("3.5", "3.5", "en"),
    ("彼は帰った。", "彼は帰った。", "en"),  # another script's stop is another mark
    (".", ",", "en"),
    ("", "", "en"),
]
FIRST_LETTERS = [
    ("The dog .", "the dog ."),
    ("Hunde bellen .", "hunde bellen ."),  # German nouns too: the paper's rule asks no dictionary
    ("I am .", "i am ."),
    ("Äpfel", "äpfel"),
    ("Émile", "émile"),
    ("Ωμέγα", "ωμέγα"),
    ("NATO met", "nATO met"),  # the first letter, and no other
    ("already small", "already small"),
    ('" Go , " he said', '" go , " he said'),
    ("&quot; Go , &quot;", "&quot; go , &quot;"),
    ("&apos;Tis", "&apos;tis"),
    ("( A note )", "( a note )"),
    ("– Ja", "– ja"),
    ("„Geh“", "„geh“"),
    ("3 Männer kamen", "3 Männer kamen"),  # no letter is large for being first
    ("1. Mose", "1. Mose"),
    ("Je@@ sus", "je@@ sus"),
    ("İstanbul", "İstanbul"),  # its small form is two characters
    ("漢字", "漢字"),
    ("\ue000 Der Hund", "\ue000 Der Hund"),  # an unknown first word
    ("...", "..."),
    ("Ja", "ja"),
    ("", ""),
]


@pytest.mark.parametrize(("sentence", "expected", "language"), FULL_STOPS)
def test_full_stop_becomes_comma(sentence, expected, language):
    assert open_end(sentence, language) == expected


@pytest.mark.parametrize(("sentence", "expected"), FIRST_LETTERS)
def test_first_letter_is_lowered(sentence, expected):
    assert lower_first(sentence) == expected


def text_edit(lines, language="en"):
    return lambda number, lower, comma: edit_sentence(lines[number], lower, comma, language).split()


def test_junctions_are_between_sentences_only():
    lines = ["The first .", "Is this the second ?", "", "The last ."]
    assert (
        " ".join(join(range(4), text_edit(lines))) == "The first , is this the second ? the last ."
    )


def test_empty_first_sentence_makes_no_junction():
    assert " ".join(join(range(2), text_edit(["", "The last ."]))) == "The last ."


def test_separator_stands_between_sentences():
    assert join(range(3), lambda n, lower, comma: [str(n)], ["<sep>"]) == [
        "0",
        "<sep>",
        "1",
        "<sep>",
        "2",
    ]


def test_with_a_separator_an_empty_sentence_keeps_its_place():
    """Else the n-th sentence of one side would stand beside another one of the other."""
    assert " ".join(join(range(3), text_edit(["", "b", ""]), ["<sep>"])) == "<sep> b <sep>"


def test_swap_puts_the_first_sentence_last_and_edits_there():
    lines = ["One .", "Two .", "Three ."]
    edit = text_edit(lines)
    (stack,) = stacks(3, edit, edit, Rules(sentences=3, swap=True))
    assert " ".join(stack.source) == "Two , three , one ."


def test_rest_is_dropped_or_kept():
    edit = text_edit(["a b c ."] * 5)
    assert [len(stack.sentences) for stack in stacks(5, edit, edit, Rules(min_tokens=8))] == [2, 2]
    assert [
        len(stack.sentences) for stack in stacks(5, edit, edit, Rules(min_tokens=8, keep_rest=True))
    ] == [2, 2, 1]


def test_stacks_end_with_documents():
    edit = text_edit(list("abcdefg"))
    documents = ["x", "x", "x", "y", "y", "z", "z"]
    kept = stacks(7, edit, edit, Rules(sentences=2, keep_rest=True), documents=documents)
    assert [list(stack.sentences) for stack in kept] == [[0, 1], [2], [3, 4], [5, 6]]
    dropped = stacks(7, edit, edit, Rules(sentences=2), documents=documents)
    assert [list(stack.sentences) for stack in dropped] == [[0, 1], [3, 4], [5, 6]]


sentences = st.lists(
    st.sampled_from(["Der", "Hund", "bellt", ",", "?", "!", "U.S.", "&quot;", "Ja"]), max_size=8
).map(lambda words: " ".join([*words, "."]))


@given(st.lists(st.tuples(sentences, sentences), max_size=30), st.integers(1, 25))
def test_nothing_is_lost_and_targets_are_long_enough(pairs, least):
    source, target = ([pair[side] for pair in pairs] for side in (0, 1))
    found = list(stacks(len(pairs), text_edit(source), text_edit(target), Rules(min_tokens=least)))
    assert [n for stack in found for n in stack.sentences] == list(
        range(sum(len(s.sentences) for s in found))
    )
    for stack in found:
        assert len(stack.target) >= least
        # No longer than needed.
        assert sum(len(target[n].split()) for n in stack.sentences[:-1]) < least
        for side, tokens in (
            (source, stack.source),
            (target, stack.target),
        ):  # aligned, complete, in order
            words = [word for n in stack.sentences for word in side[n].split()]
            assert [w.lower().replace(".", ",") for w in words] == [
                w.lower().replace(".", ",") for w in tokens
            ]
    rest = [
        n for n in range(len(pairs)) if n not in {m for stack in found for m in stack.sentences}
    ]
    assert sum(len(target[n].split()) for n in rest) < least


@pytest.mark.parametrize(
    "options", [{"min_tokens": 3, "sentences": 3}, {"min_tokens": 0}, {"sentences": -1}]
)
def test_measures_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="give"):
        Rules(**options)


def test_the_papers_stacks_where_nothing_is_said():
    assert Rules() == Rules(min_tokens=300)
