"""Small models of Hugging Face with random weights, saved as their libraries save them."""

import json
from pathlib import Path

import sentencepiece
import torch

TEXT = """a young man in a blue shirt is standing on a ladder cleaning a window .
two young white males are outside near many bushes .
several men in hard hats are operating a giant pulley system .
ein junger mann in einem blauen hemd steht auf einer leiter und putzt ein fenster .
zwei junge weisse maenner sind im freien in der naehe vieler buesche .
mehrere maenner mit schutzhelmen bedienen ein antriebsradsystem .
"""
SMALL = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 128,
    "dropout": 0.1,
}


def train_pieces(path: Path, size: int = 70, **options) -> list[str]:
    """Train a model of SentencePiece, and return its pieces."""
    text = path.with_suffix(".txt")
    text.write_text(TEXT)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(path.with_suffix("")),
        vocab_size=size,
        minloglevel=2,
        **options,
    )
    path.with_suffix(".model").rename(path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(len(model))]


def randomize(model: torch.nn.Module) -> torch.nn.Module:
    """Give a model weights that make scores differ, biases included."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:  # sinusoids
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def save_marian(
    folder: Path, codes: tuple[str, ...] = (), pieces_options: dict | None = None, **options
) -> torch.nn.Module:
    """Save a model of OPUS-MT's kind. The row of <pad> is zero and has no bias, as in published
    models, and its score is far above all others."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    train_pieces(folder / "source.spm", **(pieces_options or {}))
    pieces = train_pieces(folder / "target.spm", **(pieces_options or {}))
    words = ["</s>", "<unk>", *codes, *pieces[3:], "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
    names = {"source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    pad = len(words) - 1
    config = MarianConfig(
        **{
            **SMALL,
            "activation_function": "swish",
            "scale_embedding": True,
            "vocab_size": len(words),
            "pad_token_id": pad,
            "decoder_start_token_id": pad,
            **options,
        }
    )
    torch.manual_seed(1)
    model = randomize(MarianMTModel(config))
    model.model.shared.weight.data[pad] = 0
    model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(5)).sub_(40)
    model.final_logits_bias[:, pad] = 0
    model.tie_weights()
    model.save_pretrained(folder)
    return model


def save_nllb_tokenizer(folder: Path, words: list[str], codes: list[str]) -> None:
    """Save the files of NLLB's tokenizer; the codes of languages follow the pieces."""
    import tokenizers
    from transformers import NllbTokenizer

    indices = {word: index for index, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(indices, [], unk_token="<unk>"))
    tokenizer.add_special_tokens(codes)
    NllbTokenizer(tokenizer_object=tokenizer, extra_special_tokens=codes).save_pretrained(folder)


def save_m2m(folder: Path, is_nllb: bool = False) -> torch.nn.Module:
    """Save a model of M2M-100's kind, or of NLLB's."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

    folder.mkdir(parents=True)
    pieces = train_pieces(folder / "sentencepiece.bpe.model")[3:]
    words = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    codes = ["deu_Latn", "eng_Latn"]
    if is_nllb:  # as in published folders: no vocab.json
        save_nllb_tokenizer(folder, words, codes)
    else:
        (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
        codes = [f"__{language}__" for language in FAIRSEQ_LANGUAGE_CODES["m2m100"]]
        added = {"additional_special_tokens": codes}
        (folder / "special_tokens_map.json").write_text(json.dumps(added))
    config = M2M100Config(**SMALL, vocab_size=len(words) + len(codes) + 5)
    torch.manual_seed(1)
    model = randomize(M2M100ForConditionalGeneration(config))
    model.save_pretrained(folder)
    return model
