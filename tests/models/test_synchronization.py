"""A training step asks no tensor for its value, which would stall a GPU: meta tensors have none."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from tests.documents.support import WINDOW_NAMES, build_document_model, make_documents, make_inputs
from tests.support import SYSTEMS, build, make_batch


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *args, **kwargs: nullcontext())  # not for meta


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_training_step(name):
    model = build(name).to("meta").train()
    source = make_batch([9, 5, 7], left=True).to("meta")
    previous = make_batch([8, 8, 4], begin=True).to("meta")
    model(source, None, previous)[0].sum().backward()


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_decoding_step(name):
    model = build(name).to("meta").eval()
    source = make_batch([9, 5, 7], left=True).to("meta")
    previous = make_batch([8, 8, 8], begin=True).to("meta")
    with torch.no_grad():
        encoder_out, state = model.encoder(source), {}
        for length in (1, 2, 3):
            model.decoder(previous[:, :length], encoder_out, state)


@pytest.mark.parametrize("name", WINDOW_NAMES)
def test_a_training_step_on_documents(name):
    model = build_document_model(name, 1, 1).to("meta").train()
    source, previous, _ = make_inputs(make_documents(), left=True)
    model(source.to("meta"), None, previous.to("meta"))[0].sum().backward()
    with pytest.raises(RuntimeError):  # as a value that is asked for would
        source.to("meta").max().item()
