"""The task with models of documents."""

import re
from argparse import Namespace

import pytest

from tests.documents.support import build_document_model
from tests.support import fairseq, train
from tests.tasks.support import make_task


@pytest.mark.parametrize(
    ("junction", "more", "option"),
    [
        ("comma", (), "--stack-junction separator"),
        ("separator", ("--print-alignment", "--score-reference"), "--print-alignment"),
    ],
)
def test_what_documents_lack_is_an_error(data_bin, document_checkpoint, junction, more, option):
    options = ("--path", document_checkpoint, "--cpu", "--task", "stacked_translation")
    stacks = ("--stack-sentences", 3, "--stack-junction", junction)
    output = fairseq("generate", data_bin, *options, *stacks, *more, check=False)
    assert option in output.strip().splitlines()[-1]


def test_a_sentence_checkpoint_translates_documents_without_training(data_bin, tmp_path):
    train(data_bin, tmp_path, arch="rope_cross_transformer_tiny", updates=6)
    options = ("--path", tmp_path / "checkpoint_last.pt", "--cpu", "--beam", 2, "--max-len-b", 20)
    alone = fairseq("generate", data_bin, *options)
    stacks = ("--stack-sentences", 13, "--stack-junction", "separator")
    context = ("--model-overrides", "{'sentence_context': 0}")
    whole = fairseq(
        "generate", data_bin, *options, "--task", "stacked_translation", *stacks, *context
    )
    sentences = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", alone, re.M))
    (document,) = re.findall(r"^H-\d+\t\S+\t(.*)$", whole, re.M)
    assert document == " ".join(sentences[str(i)] for i in range(13))


def test_a_model_of_fairseqs_does_not_ignore_the_context(data_bin, tmp_path):
    train(data_bin, tmp_path, arch="transformer_tiny", updates=1)
    options = ("--path", tmp_path / "checkpoint_last.pt", "--cpu", "--max-len-b", 5)
    stacks = ("--task", "stacked_translation", "--stack-sentences", 3, "--stack-junction")
    context = ("--model-overrides", "{'sentence_context': 0}")
    output = fairseq("generate", data_bin, *options, *stacks, "separator", *context, check=False)
    assert "sentence_context" in output.strip().splitlines()[-1]


@pytest.mark.parametrize("target", [0, 1])
def test_a_language_model_must_see_what_the_decoder_sees(data_bin, target):
    task = make_task(data_bin)
    model = build_document_model("rope_cross", 1, target=target)
    args = Namespace(lm_path="lm.pt", beam=1, max_len_a=0, max_len_b=200, score_reference=False)
    if target == 0:  # single sentences, as the language model
        assert task.build_generator([model], args).max_len_a == 2
    else:
        with pytest.raises(ValueError, match="--lm-path"):
            task.build_generator([model], args)
