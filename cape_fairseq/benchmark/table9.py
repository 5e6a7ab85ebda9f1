"""CAPE's Table 9: what learned relative positions cost in a layer, an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from cape_fairseq.benchmark.models import RandomTask, build
from cape_fairseq.benchmark.timing import Clock, ratio, row

LENGTHS = (10, 100, 1000)
# Likhomanenko et al. 2021, appendix, Table 9 (V100): slowdown by context, precision and part, at
# LENGTHS.
PAPER = {
    (1000, torch.float32): {
        "layer": (2.3, 2.3, 1.7),
        "encoder": (2.2, 1.7, 1.6),
        "decoder": (1.7, 1.4, 1.4),
    },
    (1000, torch.float16): {
        "layer": (2.1, 3.3, 2.2),
        "encoder": (2.2, 2.6, 2.0),
        "decoder": (1.8, 1.9, 1.6),
    },
    (100, torch.float32): {
        "layer": (2.1, 1.2, 1.2),
        "encoder": (2.4, 1.1, 1.2),
        "decoder": (1.7, 1.1, 1.1),
    },
    (100, torch.float16): {
        "layer": (2.1, 1.9, 1.4),
        "encoder": (2.3, 1.5, 1.4),
        "decoder": (1.7, 1.2, 1.2),
    },
}
SIZE: dict[str, Any] = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (
        ("embed_dim", 768),
        ("ffn_embed_dim", 3072),
        ("attention_heads", 8),
        ("layers", 6),
    )
}


def table9(
    clock: Clock,
    batch: int,
    most_tokens: int | None,
    dtype: torch.dtype,
    contexts: Iterable[int] = (100, 1000),
    lengths: Iterable[int] = LENGTHS,
) -> Iterable[dict]:
    """Time forward and backward pass with relative positions against none.

    Args:
        clock: how to measure.
        batch: sentences; the paper has 50.
        most_tokens: fewer sentences where they would have more tokens than this; None for no limit.
        dtype: precision of the parts.
        contexts: tokens to each side.
        lengths: tokens of a sentence.
    """
    task = RandomTask(100)
    encodings = {
        "none": ("nopos", {}),
        **{str(c): ("relpos", {"relpos_max_distance": c}) for c in contexts},
    }
    models = {
        context: build(task, encoding, "", **SIZE, **options).to(clock.device, dtype).train()
        for context, (encoding, options) in encodings.items()
    }
    for length in lengths:
        sentences = batch if most_tokens is None else max(1, min(batch, most_tokens // length))
        tokens = torch.randint(4, 100, (sentences, length), device=clock.device)
        states = torch.randn(length, sentences, 768, device=clock.device, dtype=dtype)
        for part, make in PARTS.items():
            cases = {context: make(model, tokens, states) for context, model in models.items()}
            times = clock.interleave(cases, f"Table 9: {part}, {length} tokens")
            for context in map(str, contexts):
                paper = PAPER.get((int(context), dtype), {}).get(part)
                yield row(
                    "table9",
                    part,
                    length,
                    times[context],
                    ratio(times[context], times["none"]),
                    base="nopos",
                    context=int(context),
                    sentences=sentences,
                    paper=paper[LENGTHS.index(length)] if paper and length in LENGTHS else None,
                )


def _layer(model: nn.Module, tokens: Tensor, states: Tensor) -> Callable[[], None]:
    return lambda: model.encoder.layers[0](states).sum().backward()


def _encoder(model: nn.Module, tokens: Tensor, states: Tensor) -> Callable[[], None]:
    return lambda: model.encoder(tokens)["encoder_out"][0].sum().backward()


def _decoder(model: nn.Module, tokens: Tensor, states: Tensor) -> Callable[[], None]:
    source = {
        "encoder_out": [states],
        "encoder_padding_mask": [tokens.eq(model.decoder.padding_idx)],
    }
    return lambda: model.decoder(tokens, source, features_only=True)[0].sum().backward()


PARTS = {"layer": _layer, "encoder": _encoder, "decoder": _decoder}
