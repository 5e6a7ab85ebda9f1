"""Named architectures: encodings at every size. Presets only; options given win."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import transformer_legacy as fairseq_sizes
from omegaconf import OmegaConf

from cape_fairseq.encodings import ENCODINGS
from cape_fairseq.models import positional_transformer  # noqa: F401  (registers the model first)
from cape_fairseq.models.config import base_architecture


def tiny(args: Any) -> None:
    """3 + 3 layers of width 128: for tests, the quick start and experiments on a CPU.

    All embeddings are shared if both languages have one dictionary.
    """
    args.encoder_embed_dim = getattr(args, "encoder_embed_dim", 128)
    args.encoder_ffn_embed_dim = getattr(args, "encoder_ffn_embed_dim", 512)
    args.encoder_attention_heads = getattr(args, "encoder_attention_heads", 4)
    args.encoder_layers = getattr(args, "encoder_layers", 3)
    args.decoder_attention_heads = getattr(args, "decoder_attention_heads", 4)
    args.decoder_layers = getattr(args, "decoder_layers", 3)
    if getattr(args, "share_if_joined", None) is None:
        args.share_if_joined = getattr(args, "share_all_embeddings", None) is None
    args.share_all_embeddings = getattr(args, "share_all_embeddings", True)


def wmt_en_de_18l(args: Any) -> None:
    """18 + 18 layers of the base width, post-norm: CAPE's deep models, which stand on ADMIN."""
    args.encoder_layers = getattr(args, "encoder_layers", 18)
    args.decoder_layers = getattr(args, "decoder_layers", 18)
    args.residual_init = getattr(args, "residual_init", "admin")
    fairseq_sizes.transformer_wmt_en_de(args)


SIZES: dict[str, Callable[[Any], None]] = {
    "": fairseq_sizes.base_architecture,
    "_tiny": tiny,
    "_iwslt_de_en": fairseq_sizes.transformer_iwslt_de_en,
    "_wmt_en_de": fairseq_sizes.transformer_wmt_en_de,
    "_wmt_en_de_18l": wmt_en_de_18l,
    "_vaswani_wmt_en_de_big": fairseq_sizes.transformer_vaswani_wmt_en_de_big,
}


def register(name: str, preset: Callable[[Any], None]) -> None:
    """Register an architecture of the model."""

    def applied(args: Any) -> None:
        if not OmegaConf.is_config(args):
            preset(args)
            return
        # With omegaconf 2.0 (fairseq 0.12.2) what hydra was not told is None, and not missing as
        # presets expect.
        options = Namespace(**OmegaConf.to_container(args))
        preset(options)
        options.base_layers = getattr(options, "base_layers", 0)  # its trainer compares it
        args.update(vars(options))

    register_model_architecture("positional_transformer", name)(applied)


# Encoding and options of it, by the names before "_transformer".
PRESETS: dict[str, tuple[str, Mapping[str, str]]] = {
    **{name: (name, {}) for name in ENCODINGS},
    "rope_cross": ("rope", {"rope_attention": "self+cross"}),  # for long text: docs/length.md
}


def preset(name: str, suffix: str) -> Callable[[Any], None]:
    """What ``{name}_transformer{suffix}`` sets where nothing else is said."""
    encoding, options = PRESETS[name]

    def apply(args: Any) -> None:
        if getattr(args, "position_encoding", None) in (None, encoding):
            for option, value in {"position_encoding": encoding, **options}.items():
                if getattr(args, option, None) is None:
                    setattr(args, option, value)
        SIZES[suffix](args)
        base_architecture(args)

    return apply


register("positional_transformer", base_architecture)
for name in PRESETS:
    for suffix in SIZES:
        register(f"{name}_transformer{suffix}", preset(name, suffix))
