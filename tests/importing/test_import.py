"""Models of Hugging Face: equal scores and translations."""

import json

import pytest
import torch

from cape_fairseq import load
from cape_fairseq.cli import main
from cape_fairseq.inference.checkpoints import load_model
from tests.importing.hugging_face import save_m2m, save_marian

pytest.importorskip("transformers")

SENTENCES = [
    "a young man is standing near a window .",
    "several males are outside .",
    "two giant bushes are in a blue system near many men .",
]


def read_vocabulary(folder, kind):
    """Return the indices of words in Hugging Face's model, by hand."""
    if kind == "nllb":
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
        return {**tokenizer["model"]["vocab"], **added}
    indices = json.loads((folder / "vocab.json").read_text())
    if kind == "m2m":
        from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

        codes = enumerate(FAIRSEQ_LANGUAGE_CODES["m2m100"], len(indices))
        indices |= {f"__{language}__": index for index, language in codes}
    return indices


MODELS = {"marian": (save_marian, {}), "m2m": (save_m2m, {}), "nllb": (save_m2m, {"is_nllb": True})}
LANGUAGES = {"m2m": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn")}


@pytest.fixture(scope="module", params=MODELS)
def models(request, tmp_path_factory):
    """A model of transformers, its vocabulary, and the imported checkpoint."""
    folder = tmp_path_factory.mktemp("import") / "model"
    save, settings = MODELS[request.param]
    theirs = save(folder, **settings)
    output = folder.parent / "imported"
    languages = LANGUAGES.get(request.param, ())
    flags = ["--source-lang", "--target-lang"]
    given = [word for pair in zip(flags, languages, strict=False) for word in pair]
    assert main(["import", str(folder), str(output), *given]) == 0
    return theirs, read_vocabulary(folder, request.param), output / "model.pt"


def convert(tokens, dictionary, indices):
    """Return fairseq's indices as those of Hugging Face."""
    return tokens.clone().apply_(lambda i: indices[dictionary[i]])


def make_sentences(known):
    """Sources of three lengths, padded on the right, and targets of known words."""
    generator, lengths = torch.Generator().manual_seed(2), [9, 4, 6]
    known = torch.tensor(known)
    source = known[torch.randint(len(known), (3, 9), generator=generator)]
    for row, length in zip(source, lengths, strict=True):
        row[length - 1], row[length:] = 2, 1
    return source, known[torch.randint(len(known), (3, 7), generator=generator)], lengths


def test_scores_are_equal_at_every_position_with_padding_on_both_sides(models):
    theirs, indices, checkpoint = models
    ours, task, *_ = load_model(checkpoint)
    source_words, target_words = task.source_dictionary, task.target_dictionary
    known = [i for i in range(4, len(source_words)) if source_words[i] in indices]
    source, target, lengths = make_sentences(known)
    previous = torch.cat([torch.full((3, 1), target_words.eos()), target], dim=1)
    start = torch.full((3, 1), theirs.config.decoder_start_token_id)
    with torch.no_grad():
        logits = theirs(
            input_ids=convert(source, source_words, indices),
            attention_mask=source.ne(source_words.pad()).long(),
            decoder_input_ids=torch.cat([start, convert(target, target_words, indices)], dim=1),
        ).logits
    columns = [i for i in range(len(target_words)) if target_words[i] in indices]
    if theirs.config.model_type == "marian":  # <pad> is in vocabularies, but no output
        columns.remove(target_words.pad())
        logits[..., indices["<pad>"]] = -float("inf")
    expected = logits.log_softmax(-1)[..., [indices[target_words[i]] for i in columns]]
    left = torch.stack([r.roll(9 - n) for r, n in zip(source, lengths, strict=True)])
    for padded in (source, left):
        with torch.no_grad():
            found = ours.get_normalized_probs(ours(padded, None, previous), log_probs=True)
        torch.testing.assert_close(found[..., columns], expected, atol=1e-5, rtol=1e-5)
        if "<s>" not in indices:
            assert found[..., target_words.bos()].max() < -50
            assert found[..., target_words.pad()].max() < -50


def test_greedy_translations_are_equal(models):
    theirs, indices, checkpoint = models
    translator = load(checkpoint)
    for sentence in SENTENCES:
        tokens = translator.text.encode_source(sentence).tokens
        limit = 2 * len(tokens)
        (found,) = translator.hub.generate([tokens], beam=1, max_len_a=0, max_len_b=limit, lenpen=0)
        forced = {}
        if len(translator.text.target_prefix):
            code = translator.hub.tgt_dict[translator.text.target_prefix[0]]
            forced = {"forced_bos_token_id": indices[code]}
        expected = theirs.generate(
            convert(tokens, translator.hub.src_dict, indices).unsqueeze(0),
            num_beams=1,
            do_sample=False,
            max_length=limit + 2,
            forced_eos_token_id=None,
            bad_words_ids=[[indices["<pad>"]]],
            renormalize_logits=True,
            **forced,
        )[0, 1:]
        expected = expected[:limit]
        ours = convert(found[0]["tokens"].cpu(), translator.hub.tgt_dict, indices)[:limit]
        assert ours.tolist() == expected.tolist()
        text = translator.translate_sentences([sentence])[0]
        if forced:
            assert code not in text
