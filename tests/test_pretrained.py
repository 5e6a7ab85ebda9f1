"""``recipes/pretrained.sh``: a trained model of OPUS-MT's kind, all ways."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cape_fairseq import load
from cape_fairseq.cli import main
from tests.support import ROOT

transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")
pytestmark = pytest.mark.slow
SIZES = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "activation_function": "swish",
    "scale_embedding": True,
    "dropout": 0.0,
}


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def encode(processor, lines: list[str], vocabulary: dict[str, int]) -> torch.Tensor:
    """Pieces of lines by Hugging Face's indices, with EOS, padded on the right."""
    rows = [
        [vocabulary.get(p, 1) for p in processor.encode(line, out_type=str)] + [0] for line in lines
    ]
    rows = [torch.tensor(row) for row in rows]
    pad = vocabulary["<pad>"]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)


def learn_pieces(text: Path, folder: Path) -> tuple[dict, dict[str, int]]:
    """Train both SentencePiece models; return them and the vocabulary of both sides."""
    processors, vocabulary = {}, {"</s>": 0, "<unk>": 1}
    for side, lang in (("source", "en"), ("target", "de")):
        sentencepiece.SentencePieceTrainer.train(
            input=str(text / f"train.{lang}"),
            model_prefix=str(folder / side),
            vocab_size=300,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        (folder / f"{side}.vocab").unlink()
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for i in range(3, len(processor)):
            vocabulary.setdefault(processor.id_to_piece(i), len(vocabulary))
        processors[lang] = processor
    vocabulary["<pad>"] = len(vocabulary)
    return processors, vocabulary


def train_model(source: torch.Tensor, target: torch.Tensor, pad: int) -> torch.nn.Module:
    """Train a model of transformers on pairs of pieces."""
    sizes = {**SIZES, "vocab_size": pad + 1, "pad_token_id": pad, "decoder_start_token_id": pad}
    torch.manual_seed(1)
    model = transformers.MarianMTModel(transformers.MarianConfig(**sizes))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    for step in range(350):
        chosen = torch.randint(len(source), (64,))
        one, other = (s[chosen] for s in (source, target))
        one, other = (s[:, : int((s != pad).sum(1).max())] for s in (one, other))
        labels = other.masked_fill(other == pad, -100)
        loss = model(input_ids=one, attention_mask=one.ne(pad).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min((step + 1) / 50, 1)
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with text, one with a model of transformers that was trained on it, and the model's
    translations of the test set."""
    root = tmp_path_factory.mktemp("pretrained")
    text, folder = root / "text", root / "model"
    folder.mkdir()
    assert main(["synthetic-corpus", str(text)]) == 0
    for name in ("en", "de", "documents"):
        (text / f"test.{name}").write_text("\n".join(read(text / f"test.{name}")[:100]) + "\n")
    processors, vocabulary = learn_pieces(text, folder)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    pad = vocabulary["<pad>"]
    sides = [
        encode(processors[lang], read(text / f"train.{lang}")[:3000], vocabulary)
        for lang in ("en", "de")
    ]
    model = train_model(*sides, pad)
    model.save_pretrained(folder)
    source = encode(processors["en"], read(text / "test.en"), vocabulary)
    with torch.no_grad():
        found = model.generate(
            source,
            attention_mask=source.ne(pad).long(),
            num_beams=5,
            max_length=200,
            bad_words_ids=[[pad]],
            renormalize_logits=True,
            forced_eos_token_id=None,
        )
    words = {index: word for word, index in vocabulary.items()}
    pieces = [[words[i] for i in row.tolist() if i not in (0, pad)] for row in found]
    return text, folder, [processors["de"].decode(row) for row in pieces]


def call(text, folder, way, out, updates):
    """Run the recipe; return what it printed."""
    variables = {"MODEL": folder, "TEXT": text, "WAY": way, "OUT": out, "UPDATES": updates}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    environment |= {name: str(value) for name, value in variables.items()}
    command = ["bash", str(ROOT / "recipes" / "pretrained.sh"), "--", "--lr", "5e-4"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-3000:]
    return result.stdout


def check_long_texts(text: Path, out: Path, output: str) -> None:
    """Check the scores of WAY=long, and that its checkpoint translates long texts by itself."""
    for name in ("imported.de", "before.cut", "after.one-pass", "after.one-by-one"):
        assert name in output
    documents = len(set(read(text / "test.documents")))
    assert len(read(out / "documents.en")) == documents
    path = out / "long-rope_cross"
    translator = load(path / "checkpoint_best.pt")
    assert translator.long_text.has(500)
    assert int(translator.model.models[0].decoder.look_ahead[1]) > 0
    long = read(out / "documents.en")
    assert translator.translate(long, split=False) == read(path / "after.one-pass")


def test_all_ways_from_an_imported_model(trained, tmp_path):
    text, folder, expected = trained
    output = call(text, folder, "ctranslate2", tmp_path, 10)
    found = read(tmp_path / "imported.de")
    assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 95
    tuned = read(tmp_path / "ctranslate2-rope" / "test.de")
    assert len(tuned) == 100
    assert "BLEU" in output

    ctranslate2 = pytest.importorskip("ctranslate2")
    engine = ctranslate2.Translator(str(tmp_path / "ctranslate2-rope" / "ct2"))
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    decoder = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))
    sources = [pieces.encode(line, out_type=str) for line in read(text / "test.en")]
    results = engine.translate_batch(sources, beam_size=1, max_decoding_length=200)
    served = [decoder.decode(result.hypotheses[0]) for result in results]
    translator = load(tmp_path / "ctranslate2-rope" / "checkpoint_best.pt")
    greedy = translator.translate_sentences(read(text / "test.en"), beam=1, max_len_b=199)
    # After so few updates some translations end at the limit, which is not quite the same.
    assert sum(a[:60] == b[:60] for a, b in zip(served, greedy, strict=True)) >= 95

    call(text, folder, "documents", tmp_path, 10)
    assert len(read(tmp_path / "documents-rope_cross" / "test.de")) == 100

    check_long_texts(text, tmp_path, call(text, folder, "long", tmp_path, 10))
