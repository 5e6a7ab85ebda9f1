"""Named architectures: every position encoding at every size. Presets only; options given win."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import transformer_legacy as fairseq_sizes

from cape_fairseq.models import positional_transformer  # noqa: F401  (registers the model first)
from cape_fairseq.models.config import ENCODINGS, base_architecture


def tiny(args: Any) -> None:
    """3 + 3 layers of width 128: for tests, the quick start and experiments on a CPU."""
    args.encoder_embed_dim = getattr(args, "encoder_embed_dim", 128)
    args.encoder_ffn_embed_dim = getattr(args, "encoder_ffn_embed_dim", 512)
    args.encoder_attention_heads = getattr(args, "encoder_attention_heads", 4)
    args.encoder_layers = getattr(args, "encoder_layers", 3)
    args.decoder_attention_heads = getattr(args, "decoder_attention_heads", 4)
    args.decoder_layers = getattr(args, "decoder_layers", 3)
    args.share_all_embeddings = getattr(args, "share_all_embeddings", True)


def wmt_en_de_18l(args: Any) -> None:
    """18 + 18 layers of the base width, post-norm: the deep models of the CAPE paper, which stand on ADMIN."""
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


def register(encoding: str, suffix: str) -> None:
    """Register ``{encoding}_transformer{suffix}``."""

    def preset(args: Any) -> None:
        args.position_encoding = getattr(args, "position_encoding", encoding)
        SIZES[suffix](args)
        base_architecture(args)

    register_model_architecture("positional_transformer", f"{encoding}_transformer{suffix}")(preset)


register_model_architecture("positional_transformer", "positional_transformer")(base_architecture)
for encoding in ENCODINGS:
    for suffix in SIZES:
        register(encoding, suffix)
