"""Models of other toolkits with the sizes of fairseq's, for ``benchmark.py --peers``.

``pip install .[peers]`` installs transformers. The requirements of Joey NMT conflict with those of
other packages: ``pip install --no-deps joeynmt==2.3.0 'importlib_metadata<8' zipp`` and
``pip install tensorboard``.
"""

import sys
from argparse import Namespace
from importlib.util import find_spec
from typing import Any

from torch import Tensor
from torch.nn import functional as F

PEERS = ("transformers", "joeynmt")
PAD = 1


def find_peers() -> list[str]:
    """Return the toolkits that are installed, and say which are skipped."""
    for name in PEERS:
        if not find_spec(name):
            print(f"{name} is not installed and is skipped; see scripts/peers.py", file=sys.stderr)
    return [name for name in PEERS if find_spec(name)]


def build_marian(words: int, dim: int, hidden: int, heads: int, layers: int) -> Any:
    """Build MarianMTModel of Hugging Face transformers."""
    from transformers import MarianConfig, MarianMTModel

    sizes = {"ffn_dim": hidden, "attention_heads": heads, "layers": layers}
    sides = {f"{side}_{k}": value for side in ("encoder", "decoder") for k, value in sizes.items()}
    ids = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    cfg = MarianConfig(
        vocab_size=words, d_model=dim, dropout=0.1, forced_eos_token_id=None, **ids, **sides
    )
    return MarianMTModel(cfg)


def compute_marian_loss(model: Any, batch: dict[str, Any]) -> Tensor:
    """Compute the label-smoothed loss, in float32, of a batch of fairseq's form."""
    source, _, previous = batch["net_input"].values()
    scores = model(source, source.ne(PAD).long(), decoder_input_ids=previous).logits
    target, options = batch["target"].flatten(), {"label_smoothing": 0.1, "ignore_index": PAD}
    return F.cross_entropy(scores.flatten(0, 1).float(), target, **options)


def build_joey(words: int, dim: int, hidden: int, heads: int, layers: int) -> Any:
    """Build the Transformer of Joey NMT, with one embedding for both sides and the output."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    symbols = {"unk": 0, "pad": 1, "bos": 2, "eos": 3, "sep": None}
    names = {f"{name}_token": f"<{name}>" for name in ("unk", "pad", "bos", "eos")}
    ids = {f"{name}_id": number for name, number in symbols.items()}
    cfg = Namespace(**ids, **names, sep_token=None, lang_tags=[])
    vocabulary = Vocabulary([f"w{number}" for number in range(words - 4)], cfg)
    side = {"type": "transformer", "hidden_size": dim, "ff_size": hidden, "num_heads": heads}
    side |= {"num_layers": layers, "dropout": 0.1, "embeddings": {"embedding_dim": dim}}
    tied = {"tied_embeddings": True, "tied_softmax": True}
    model = build_model({"encoder": side, "decoder": side, **tied}, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.1)
    return model


def compute_joey_loss(model: Any, batch: dict[str, Any]) -> Tensor:
    """Compute Joey NMT's own loss of a batch of fairseq's form."""
    source, lengths, previous = batch["net_input"].values()
    inputs = {"src": source, "trg_input": previous, "trg": batch["target"], "src_length": lengths}
    masks = {"src_mask": source.ne(PAD).unsqueeze(1), "trg_mask": previous.ne(PAD).unsqueeze(1)}
    return model(return_type="loss", **inputs, **masks)[0]
