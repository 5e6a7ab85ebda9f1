"""SentencePiece as models of Hugging Face use it: byte fallback, white space inside pieces."""

import pytest
import torch

from cape_fairseq import load
from cape_fairseq.cli import main
from tests.importing.hugging_face import save_marian

pytest.importorskip("transformers")


def import_model(folder, **options):
    """Import a model whose pieces are made with these options; return its translator."""
    save_marian(folder / "model", pieces_options=options)
    assert main(["import", str(folder / "model"), str(folder / "out")]) == 0
    return load(folder / "out" / "model.pt")


@pytest.fixture(scope="module")
def byte_translator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bytes")
    return import_model(folder, size=330, byte_fallback=True, hard_vocab_limit=False)


@pytest.mark.parametrize("text", ["李 ist da .", "5 € für ein Hemd", "李", "a b", "naïve 李€ ."])
def test_characters_without_a_piece_are_translated_as_their_bytes(byte_translator, text):
    tokens = byte_translator.text.encode_target(text)
    words = byte_translator.text.target_dictionary
    assert words.unk() not in tokens
    assert any(words[i].startswith("<0x") for i in tokens) == (text != "a b")
    assert byte_translator.text.decode(tokens) == text


def test_unknown_words_stay_as_they_are_whatever_the_model_writes_for_them(tmp_path):
    translator = import_model(tmp_path, unk_surface="<UNK>", hard_vocab_limit=False)
    assert translator.text.target_bpe.decode("▁ein <unk>") == "ein<unk>"


def test_unknown_words_stay_in_their_place(byte_translator):
    words = byte_translator.text.target_dictionary
    one, other = (byte_translator.text.encode_target(text)[:-1] for text in ("€ ein", "hemd"))
    tokens = torch.cat([one, one.new_tensor([words.unk()]), other])
    assert byte_translator.text.decode(tokens) == "€ ein<unk> hemd"


def test_white_space_inside_pieces_is_kept(tmp_path):
    """Of a model without normalization; its other pieces stay whole, too."""
    text = "zwei\u00a0junge weisse\u3000maenner"
    translator = import_model(
        tmp_path, normalization_rule_name="identity", user_defined_symbols=["i\u00a0j", "\u3000"]
    )
    for tokens in (translator.text.encode_source(text).tokens, translator.text.encode_target(text)):
        assert translator.text.decode(tokens) == text
        assert translator.text.source_dictionary.unk() not in tokens
