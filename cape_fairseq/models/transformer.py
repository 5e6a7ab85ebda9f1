"""The one registered model: a Transformer whose position encoding is an option."""

from __future__ import annotations

import hashlib
import logging
from argparse import ArgumentParser, Namespace
from typing import Any

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.distributed.utils import get_global_rank
from fairseq.models import register_model
from fairseq.models.transformer import DEFAULT_MAX_SOURCE_POSITIONS, TransformerModelBase
from omegaconf import OmegaConf
from torch import Tensor

from cape_fairseq.models.checkpoint import IDENTITY, Identity
from cape_fairseq.models.config import (
    PositionalTransformerConfig,
    WindowOptions,
    base_architecture,
    list_options,
    validate_options,
)
from cape_fairseq.models.decoder import PositionalDecoder
from cape_fairseq.models.encoder import PositionalEncoder
from cape_fairseq.models.source_scale import resolve_source_scale
from cape_fairseq.models.token_windows import TokenWindows
from cape_fairseq.models.warm_start import prepare_state_dict
from cape_fairseq.modules.admin import initialize_omegas
from cape_fairseq.modules.dropout import name_dropouts, replace_dropout
from cape_fairseq.options import format_flag, list_fields
from cape_fairseq.positions.base import Noise

logger = logging.getLogger(__name__)


@register_model("positional_transformer")
class PositionalTransformer(TransformerModelBase):
    """fairseq's Transformer with ``--position-encoding``."""

    is_dummy_batch = False  # the batch of training stands for one that this process lacks

    def __init__(self, cfg: Any, encoder: PositionalEncoder, decoder: PositionalDecoder) -> None:
        super().__init__(cfg, encoder, decoder)
        decoder.encoding.share_parameters(encoder.encoding)
        self.num_updates = 0
        self.register_buffer(IDENTITY, Identity.of(self).encode())

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        # Without defaults, so that those of the named architecture come through.
        gen_parser_from_dataclass(
            parser, PositionalTransformerConfig(), delete_default=True, with_prefix=""
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PositionalTransformer:
        """Build the model that ``args`` describes, and fill in its options.

        Raises:
            ValueError: an option has a value that is not allowed.
        """
        base_architecture(args)
        for name in ("max_source_positions", "max_target_positions"):  # those of learned tables
            if getattr(args, name, None) is None:
                setattr(args, name, DEFAULT_MAX_SOURCE_POSITIONS)
        validate_options(args)
        share_if_joined(args, task)
        scale = resolve_source_scale(args, task)
        options = Namespace(**OmegaConf.to_container(args)) if OmegaConf.is_config(args) else args
        model = super().build_model(PositionalTransformerConfig.from_namespace(options), task)
        model.encoder.source_scale.fill_(scale)
        model.args = args  # fairseq's scripts read it
        name_dropouts(model)
        if args.fast_dropout:
            replace_dropout(model)
        if args.residual_init == "admin" and not args.is_profiled:
            initialize_omegas(model, task)
            args.is_profiled = True
        logger.info("positions: %s", model.describe_positions())
        return model

    @classmethod
    def build_embedding(cls, cfg: Any, dictionary: Any, embed_dim: int, path: Any = None) -> Any:
        embedding = super().build_embedding(cfg, dictionary, embed_dim, path)
        if path is None:
            embedding.weight.data.mul_(cfg.embedding_init_scale)
        return embedding

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Any, embed_tokens: Any) -> PositionalEncoder:
        return PositionalEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: Any) -> PositionalDecoder:
        return PositionalDecoder(cfg, tgt_dict, embed_tokens)

    def describe_positions(self) -> str:
        """List the position options and the source scale."""
        fields = [*list_options(self.cfg), *list_fields(WindowOptions)]
        options = [(format_flag(i.name), getattr(self.cfg, i.name)) for i in fields]
        options = [o for o in options if o[1] is not None and o[1] is not False]
        given = [f"{flag} {value}" for flag, value in options]
        return f"{', '.join(given)}; source scale {float(self.encoder.source_scale):.4f}"

    def set_token_windows(self, windows: TokenWindows) -> None:
        """Use other windows of tokens, and another alignment, from now on."""
        self.encoder.token_windows = self.decoder.token_windows = windows

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare the model as fairseq does, for its commands and its hub interface.

        Raises:
            ValueError: alignments are to be printed, and a window of cross-attention has none.
        """
        has_window = self.decoder.token_windows.cross_attention is not None
        if has_window and getattr(cfg.generation, "print_alignment", None):
            raise ValueError(
                "--print-alignment is set, but --cross-attention-window returns no attention "
                "weights; leave out one of them"
            )
        self.decoder.returns_weights = bool(getattr(cfg.generation, "print_alignment", None))
        super().prepare_for_inference_(cfg)

    def set_num_updates(self, num_updates: int) -> None:
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def sample_noise(self, src_tokens: Tensor, prev_output_tokens: Tensor) -> tuple[Noise, Noise]:
        """Sample the noise of a training batch, once for each sentence pair.

        fairseq seeds PyTorch with seed + update on every rank. A number of that stream, the update
        and the rank together are the key of a generator, so that micro-batches, ranks and runs
        with neighbouring seeds get different noise, and a resumed run that of an unbroken one.
        """
        augmenter = self.encoder.augmenter  # it samples for both sides
        if not augmenter.samples_noise:
            return None, None
        stream = int(torch.randint(2**62, ()))
        source, target = augmenter.sample(
            src_tokens.size(0),
            src_tokens.size(1) + (self.encoder.bos is not None),
            prev_output_tokens.size(1),
            seed_generator(stream, self.num_updates, get_global_rank()),
        )
        return to_device(source, src_tokens.device), to_device(target, src_tokens.device)

    def prepare_positions(self, src_tokens: Tensor, prev_output_tokens: Tensor) -> None:
        """Compute what both sides can compute at once for a batch."""
        source_length = src_tokens.size(1) + (self.encoder.bos is not None)
        length = max(source_length, prev_output_tokens.size(1))
        self.encoder.encoding.prepare(self.decoder.encoding, length)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        return_all_hiddens: bool = True,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Run fairseq's forward pass; in training, noise moves the positions. The other arguments
        are the decoder's."""
        source_noise = target_noise = None
        if self.training:
            source_noise, target_noise = self.sample_noise(src_tokens, prev_output_tokens)
            sides = src_tokens, prev_output_tokens
            self.encoder.training_lengths.add(sides, self.encoder.padding_idx, self.is_dummy_batch)
            if src_tokens.device.type != "cpu":  # where fewer operations are faster
                self.prepare_positions(src_tokens, prev_output_tokens)
        encoder_out = self.encoder(
            src_tokens, return_all_hiddens=return_all_hiddens, noise=source_noise
        )
        return self.decoder(
            prev_output_tokens, encoder_out=encoder_out, noise=target_noise, **kwargs
        )

    def prepare_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Let a checkpoint's parameters carry what its options say, for
        :meth:`upgrade_state_dict_named`."""
        options = checkpoint["cfg"]["model"] if checkpoint.get("cfg") else checkpoint["args"]
        identity = Identity.read(checkpoint["model"], options)
        checkpoint["model"].setdefault(IDENTITY, identity.encode())

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Make a checkpoint of stock fairseq, or of any encoding, fit this model."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}." if name else ""
        if self.decoder.output_projection is None:  # an adaptive softmax; fairseq adds one
            state_dict.pop(f"{prefix}decoder.output_projection.weight", None)
        prepare_state_dict(self, state_dict, prefix)


def to_device(noise: Noise, device: torch.device) -> Noise:
    """Move the noise of a side to a device."""
    if noise is None:
        return None
    return type(noise)(*(part.to(device, non_blocking=True) for part in noise))


def share_if_joined(args: Any, task: Any) -> None:
    """Share all embeddings if the architecture asks for it and there is one dictionary."""
    if getattr(args, "share_if_joined", False):
        same_width = args.encoder_embed_dim == args.decoder_embed_dim
        args.share_all_embeddings = same_width and task.source_dictionary == task.target_dictionary


def seed_generator(*key: int) -> torch.Generator:
    """Create a CPU generator that depends on ``key`` alone: one of PyTorch's 2^32 streams."""
    digest = hashlib.blake2b(",".join(map(str, key)).encode(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))
