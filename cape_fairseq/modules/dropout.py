"""``--fast-dropout``: dropout on a CPU with a quarter of the random numbers."""

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

LEVELS = 2**16
# Names of --retain-dropout-modules, by the class that a dropout belongs to.
STOCK_NAMES = {
    "PositionalEncoder": "TransformerEncoder",
    "PositionalDecoder": "TransformerDecoder",
    "EncoderLayer": "TransformerEncoderLayerBase",
    "DecoderLayer": "TransformerDecoderLayerBase",
    "Attention": "MultiheadAttention",
}


class FastDropout(FairseqDropout):
    """fairseq's dropout, with 16 bits of a random number for each entry. On a CPU most of the time
    of dropout is that of the generator. The probability is rounded to a multiple of 2^-16."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        dropped = round(self.p * LEVELS)
        active = self.training or self.apply_during_inference
        if not active or x.device.type != "cpu" or dropped in (0, LEVELS):
            return super().forward(x, inplace)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        numbers = words.view(torch.int16)[: x.numel()].view(x.shape)  # from -LEVELS / 2 on
        kept = (numbers >= dropped - LEVELS // 2).to(x.dtype)
        return x * kept.mul_(LEVELS / (LEVELS - dropped))


def name_dropouts(model: nn.Module) -> None:
    """Name the dropouts of a model as fairseq's, for ``--retain-dropout-modules``."""
    for module in model.modules():
        if isinstance(module, FairseqDropout):
            module.module_name = STOCK_NAMES.get(module.module_name, module.module_name)


def replace_dropout(model: nn.Module) -> None:
    """Replace fairseq's dropout everywhere in a model."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, FastDropout(child.p, child.module_name))
