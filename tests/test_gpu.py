"""Every encoding and the search on a GPU: pytest -m gpu."""

import math

import pytest
import torch

from cape_fairseq.tasks.text_search import TextGenerator
from tests.support import (
    PAD,
    SYSTEMS,
    SmallTask,
    build,
    make_batch,
    make_command,
    run,
    train_options,
)
from tests.test_training import read_losses

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
PRECISIONS = {torch.float32: 1e-4, torch.float16: 3e-2, torch.bfloat16: 2e-1}


def compute_scores(model, source, previous, device):
    model = model.to(device)
    with torch.no_grad():
        return model(source.to(device), None, previous.to(device))[0].float().cpu()


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", SYSTEMS)
def test_scores_are_those_of_the_cpu(name, dtype):
    source, previous = make_batch([9, 5, 7], left=True), make_batch([8, 8, 4], begin=True)
    model, real = build(name), previous != PAD
    expected = compute_scores(model, source, previous, "cpu")
    found = compute_scores(model.to(dtype), source, previous, "cuda")
    torch.testing.assert_close(found[real], expected[real], atol=PRECISIONS[dtype], rtol=0.05)


def test_floater_solves_both_sides_at_once_as_on_the_cpu():
    source, previous = make_batch([9, 5, 7], left=True), make_batch([8, 8, 4], begin=True)
    model, real = build("floater", dropout=0.0).train(), previous != PAD
    expected, found = (compute_scores(model, source, previous, d)[real] for d in ("cpu", "cuda"))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_search_finds_the_translations_of_the_cpu():
    """Of rows, each of which may be as long as its own text allows."""
    model, dictionary = build("rope_cross"), SmallTask().target_dictionary
    source = make_batch([9, 5, 7], left=True)
    source[0, 3] = dictionary.bos()
    found = []
    for device in ("cpu", "cuda"):
        model.to(device)
        generator = TextGenerator([model], dictionary, beam_size=3, max_len_a=1, max_len_b=3)
        sample = {"net_input": {"src_tokens": source.to(device), "src_lengths": None}}
        found.append([h[0]["tokens"].tolist() for h in generator.generate([model], sample)])
    assert found[0] == found[1]


@pytest.mark.parametrize("precision", [[], ["--fp16"], ["--amp"], ["--autocast", "bf16"]])
@pytest.mark.parametrize("arch", ["cape", "rope_cross", "floater"])
def test_training_in_every_precision(arch, precision, data_bin, tmp_path):
    options = train_options(data_bin, tmp_path, f"{arch}_transformer_tiny", 4)
    options.remove("--cpu")
    result = run(*make_command("train", *options, *precision), gpu=True)
    losses = read_losses(result.stdout + result.stderr)
    assert len(losses) == 4
    assert all(math.isfinite(loss) for loss in losses)
