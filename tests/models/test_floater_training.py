"""FLOATER in training: long texts, what learns, several processes."""

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from tests.forked import two_processes
from tests.support import SMALL, batch, build

SOURCE, TARGET = batch([9, 3, 6], True), batch([7, 5, 2], False, end=False)


@pytest.mark.parametrize(("form", "length"), [("bias", 4000), ("additive", 1000)])
def test_thousands_of_tokens_train(form, length):
    model = build("floater_transformer_tiny", floater_form=form, **SMALL).train()
    # The dynamics carry a step far in a long text.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    source, target = batch([length, 7], True), batch([length, 5], False)
    losses = []
    for _ in range(3):
        scores = model(source, None, target)[0].flatten(0, 1)
        losses.append(torch.nn.functional.cross_entropy(scores, target.flatten(), ignore_index=1))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[2] < losses[0]


def test_training_tells_how_long_its_texts_were():
    model = build("floater_transformer_tiny").train()
    for left in (True, False):
        model(batch([9, 3, 6], left), None, batch([7, 5, 2], left, end=False))
    model.eval()(batch([30], True), None, batch([40], False))
    counts = model.decoder.flow.seen.counts
    assert counts.nonzero().tolist() == [[0, 2], [0, 5], [0, 7], [1, 3], [1, 6], [1, 9]]
    assert (counts.sum(1) == 6).all()
    ends = model.decoder.flow.seen.ends()
    assert ends == [7, 7, 7, 7, 9, 9] * 3
    assert model.encoder.flow.seen.ends() == [9] * 9


def test_texts_longer_than_are_counted_have_no_end():
    """Vectors of all their positions have learned."""
    model = build("floater_transformer_tiny")
    for flow in (model.encoder.flow, model.decoder.flow):
        for group in range(len(flow.seen.counts)):
            flow.seen.add(group, torch.tensor([6000] * 9))
        assert set(flow.seen.ends()) == {0}
        assert flow.ends(6000) == [6000] * flow.initial.size(0)


def test_a_decoder_in_training_may_go_step_by_step():
    """As losses do that learn from a model's own translations; nothing is counted twice."""
    model = build("floater_transformer_tiny").train()
    encoder_out, state = model.encoder(SOURCE), {}
    for step in range(3):
        model.decoder(TARGET[:, : step + 1], encoder_out, state)
    assert int(model.decoder.flow.seen.counts[1].sum()) == 3


@pytest.mark.parametrize("dynamics", ["one", "two"])
@pytest.mark.parametrize("what", ["dynamics", "transformer"])
def test_freeze(what, dynamics):
    options = {"floater_freeze": what, "floater_decoder_dynamics": dynamics}
    model = build("floater_transformer_tiny", **options)
    for name, parameter in model.named_parameters():
        frozen = ".dynamics." in name if what == "dynamics" else ".flow." not in name
        assert parameter.requires_grad != frozen, name
    model.train()(SOURCE, None, TARGET)[0].sum().backward()


def test_the_model_tells_its_trajectories_the_update():
    model = build("floater_transformer_tiny", floater_refresh=4)
    model.set_num_updates(7)
    assert model.encoder.flow.num_updates == model.decoder.flow.num_updates == 7


LINKED = {
    "floater": {"floater_refresh": 2, "floater_decoder_dynamics": "two"},
    "abspos": {"position_layers": "all"},
    "t5": {},
}


def train_under_ddp() -> None:
    """PyTorch's own DDP waits for every parameter's gradient."""
    drop = {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}
    for encoding, options in LINKED.items():
        model = build(f"{encoding}_transformer_tiny", **options, **{**SMALL, **drop})
        parallel = DistributedDataParallel(model.train())
        torch.manual_seed(distributed.get_rank())  # each drops layers of its own
        for update, lengths in enumerate(([9, 3], [1, 1], [7, 2], [5, 5])):
            model.set_num_updates(update)
            parallel.zero_grad()
            parallel(batch(lengths, True), None, TARGET[: len(lengths)])[0].sum().backward()
            without = [name for name, x in model.named_parameters() if x.grad is None]
            assert not without, (encoding, without)


def test_two_processes_train_whatever_is_dropped(tmp_path):
    """Refreshing, layers left out and sources of one token leave no parameter without gradient."""
    assert two_processes(train_under_ddp, tmp_path) == [0, 0]
