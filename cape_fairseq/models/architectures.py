"""Named architectures: every encoding at every size. Options that are given win over presets."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from fairseq.models import register_model_architecture
from fairseq.models.transformer import transformer_legacy as fairseq_sizes
from omegaconf import OmegaConf

from cape_fairseq.models import transformer  # noqa: F401  (registers the model first)
from cape_fairseq.models.config import base_architecture
from cape_fairseq.positions import ENCODINGS

TINY = {
    "encoder_embed_dim": 128,
    "encoder_ffn_embed_dim": 512,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_layers": 3,
    "decoder_layers": 3,
}


def tiny(args: Any) -> None:
    """3 + 3 layers of width 128, for CPUs. Embeddings are shared with a joined dictionary."""
    for name, value in TINY.items():
        setattr(args, name, getattr(args, name, value))
    if getattr(args, "share_if_joined", None) is None:
        args.share_if_joined = getattr(args, "share_all_embeddings", None) is None


def wmt_en_de_18l(args: Any) -> None:
    """18 + 18 layers of the base width with ADMIN: CAPE's deep models."""
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
    "_vaswani_wmt_en_fr_big": fairseq_sizes.transformer_vaswani_wmt_en_fr_big,
    "_wmt_en_de_big": fairseq_sizes.transformer_wmt_en_de_big,
    "_wmt_en_de_big_t2t": fairseq_sizes.transformer_wmt_en_de_big_t2t,
}


def register(name: str, encoding: str | None, preset: Callable[[Any], None]) -> None:
    """Register an architecture of the model."""

    def apply(args: Any) -> None:
        if OmegaConf.is_config(args):  # fairseq-hydra-train
            options = Namespace(**OmegaConf.to_container(args))
            apply(options)
            args.update(vars(options))
            return
        args.position_encoding = getattr(args, "position_encoding", None) or encoding
        preset(args)
        base_architecture(args)

    register_model_architecture("positional_transformer", name)(apply)


register("positional_transformer", None, fairseq_sizes.base_architecture)
for _encoding in ENCODINGS:
    for _suffix, _preset in SIZES.items():
        register(f"{_encoding}_transformer{_suffix}", _encoding, _preset)
