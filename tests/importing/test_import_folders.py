"""Folders of Hugging Face: parts that differ, and folders that are rejected."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.models import build_model

from cape_fairseq import load
from cape_fairseq.cli import main
from cape_fairseq.inference.checkpoints import load_model
from tests.importing.hugging_face import save_m2m, save_marian

pytest.importorskip("transformers")


class TestFolders:
    @pytest.fixture(scope="class")
    def saved(self, tmp_path_factory):
        """A folder of Marian's and one of M2M's."""
        folder = tmp_path_factory.mktemp("saved")
        save_marian(folder / "marian", codes=(">>deu<<", ">>fra<<"))
        save_m2m(folder / "m2m")
        return folder

    @pytest.fixture
    def folder(self, saved, tmp_path):
        return shutil.copytree(saved / "marian", tmp_path / "model")

    @pytest.fixture
    def m2m(self, saved, tmp_path):
        return shutil.copytree(saved / "m2m", tmp_path / "model")

    def run(self, folder, *options):
        return main(["import", str(folder), str(folder.parent / "out"), *options])

    def test_a_code_of_many_languages_begins_the_source(self, folder):
        assert self.run(folder, "--target-lang", "fra") == 0
        translator = load(folder.parent / "out" / "model.pt")
        tokens = translator.text.encode_source("a man .").tokens
        assert translator.hub.src_dict[tokens[0]] == ">>fra<<"
        assert translator.hub.src_dict.string(tokens[1:]).startswith("▁")
        sentences = translator.text.split_paragraph(">>deu<< A man. A man.", True)
        german = [translator.text.encode_source(sentence).tokens for sentence in sentences]
        assert [translator.hub.src_dict[x[0]] for x in german] == [">>deu<<"] * 2
        plain = translator.text.encode_source("A man.").tokens
        assert german[0][1:].tolist() == german[1][1:].tolist() == plain[1:].tolist()
        assert (
            translator.text.encode_source(">>eng<< x").tokens[0] == tokens[0]
        )  # no word of the model

    def test_codes_of_m2m_are_not_pieces_of_text(self, m2m, tmp_path):
        vocabulary = json.loads((m2m / "vocab.json").read_text())
        for name in ("en", "de"):  # pieces that look like languages
            if name not in vocabulary:
                vocabulary[name] = vocabulary.pop(list(vocabulary)[-1])
        (m2m / "vocab.json").write_text(json.dumps(vocabulary))
        assert self.run(m2m, "--source-lang", "en", "--target-lang", "de") == 0
        prefixes = json.loads((tmp_path / "out" / "prefixes.json").read_text())
        assert prefixes == {"source": ["__en__"], "target": ["__de__"]}

    def edit(self, path, **changes):
        """Change entries of a JSON file, or make it."""
        found = json.loads(path.read_text()) if path.is_file() else {}
        path.write_text(json.dumps(found | changes))

    def find_code_rows(self, tmp_path, target="de"):
        """Return the rows of transformers that the codes of both languages have, by their
        embeddings."""
        from safetensors.torch import load_file

        assert self.run(tmp_path / "model", "--source-lang", "en", "--target-lang", target) == 0
        path = tmp_path / "out" / "model.pt"
        _, task, *_ = load_model(path)
        prefixes = json.loads((path.parent / "prefixes.json").read_text())
        found = [task.source_dictionary.index(prefixes[s][0]) for s in ("source", "target")]
        table = load_file(tmp_path / "model" / "model.safetensors")["model.shared.weight"]
        state = torch.load(path, weights_only=True)["model"]
        return [
            int((table - state["encoder.embed_tokens.weight"][i]).abs().sum(1).argmin())
            for i in found
        ]

    def test_codes_of_m2m_that_no_file_lists_have_the_places_of_its_list(self, m2m, tmp_path):
        """As transformers 5 saves them."""
        (m2m / "special_tokens_map.json").unlink()
        special = {"0": {"content": "<s>"}, "1": {"content": "<pad>"}}
        self.edit(m2m / "tokenizer_config.json", added_tokens_decoder=special)
        count = len(json.loads((m2m / "vocab.json").read_text()))
        assert self.find_code_rows(tmp_path) == [count + 18, count + 16]

    def test_added_words_of_old_folders_have_their_numbers(self, m2m, tmp_path):
        """Also a word before the codes in special_tokens_map.json shifts no language."""
        codes = json.loads((m2m / "special_tokens_map.json").read_text())
        codes = ["<extra>", *codes["additional_special_tokens"]]
        self.edit(m2m / "special_tokens_map.json", additional_special_tokens=codes)
        count = len(json.loads((m2m / "vocab.json").read_text()))
        self.edit(m2m / "added_tokens.json", __tyv__=count + 103)
        assert self.find_code_rows(tmp_path, target="tyv") == [count + 18, count + 103]

    def test_nllb_needs_its_tokenizer(self, tmp_path):
        """Without the file transformers would look for the codes elsewhere."""
        save_m2m(tmp_path / "model", is_nllb=True)
        (tmp_path / "model" / "tokenizer.json").unlink()
        languages = ("--source-lang", "eng_Latn", "--target-lang", "deu_Latn")
        assert self.run(tmp_path / "model", *languages) == 1

    def test_one_language_with_two_vocabularies_is_rejected(self, folder):
        vocabulary = json.loads((folder / "vocab.json").read_text())
        words = list(vocabulary)
        words[2:4] = words[3:1:-1]
        (folder / "target_vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
        self.edit(folder / "tokenizer_config.json", separate_vocabs=True)
        languages = ("--source-lang", "deu", "--target-lang", "deu")
        assert self.run(folder, *languages) == 1
        self.edit(folder / "tokenizer_config.json", separate_vocabs=False)
        assert self.run(folder, *languages) == 0

    def test_added_words_that_sentencepiece_cuts_are_named(self, folder, caplog):
        vocabulary = json.loads((folder / "vocab.json").read_text())
        index = vocabulary.pop(list(vocabulary)[-2])  # of a piece
        (folder / "vocab.json").write_text(json.dumps(vocabulary | {"[NUM]": index}))
        (folder / "added_tokens.json").write_text(json.dumps({"[NUM]": index, ">>deu<<": 2}))
        assert self.run(folder, "--target-lang", "deu") == 0
        assert "[NUM] was added" in caplog.text

    @pytest.mark.parametrize("start", [0, None])
    def test_decoding_starts_with_the_token_of_the_configuration(self, tmp_path, start):
        """M2M-100's start token is EOS, also where none is given; another one has an embedding of
        its own in the decoder."""
        theirs = save_m2m(tmp_path / "model")
        self.edit(tmp_path / "model" / "config.json", decoder_start_token_id=start)
        assert self.run(tmp_path / "model", "--source-lang", "en", "--target-lang", "de") == 0
        ours, *_ = load_model(tmp_path / "out" / "model.pt")
        source, target = torch.tensor([[9, 12, 2]]), torch.tensor([[2, 15, 20]])
        with torch.no_grad():
            found = ours(source, None, target)[0]
            theirs_input = target.clone()
            theirs_input[:, 0] = 2 if start is None else start
            expected = theirs(input_ids=source, decoder_input_ids=theirs_input).logits
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

    def test_a_language_that_the_model_lacks_is_rejected(self, folder):
        assert self.run(folder, "--target-lang", "xyz") == 1
        assert [path.name for path in folder.parent.iterdir()] == ["model"]

    @pytest.mark.parametrize(
        ("name", "kept"), [("encoder.layers.0.fc1.weight", False), ("layers.0.lora_A", True)]
    )
    def test_a_parameter_too_few_or_too_many_is_named(self, folder, capsys, name, kept):
        """A missing file of several, and an adapter."""
        from safetensors.torch import load_file, save_file

        state = load_file(folder / "model.safetensors")
        if kept:
            state[f"model.encoder.{name}"] = torch.zeros(1)
        else:
            del state[f"model.{name}"]
        save_file(state, folder / "model.safetensors")
        assert self.run(folder, "--target-lang", "deu") == 1
        assert name in capsys.readouterr().err

    def test_a_pickle_that_runs_code_is_rejected(self, folder, tmp_path):
        class Malicious:
            def __reduce__(self):
                return Path.touch, (tmp_path / "touched",)

        (folder / "model.safetensors").unlink()
        with (folder / "pytorch_model.bin").open("wb") as stream:
            pickle.dump({"weight": Malicious()}, stream)
        assert self.run(folder, "--target-lang", "deu") == 1
        assert not (tmp_path / "touched").exists()
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("config.json", None),
            ("vocab.json", None),
            ("config.json", {"model_type": "t5"}),
            ("config.json", {"activation_function": "quick_gelu"}),
            ("config.json", {"decoder_start_token_id": 9999}),
            ("vocab.json", {"a\rb": 10}),
            ("vocab.json", {"extra": 10_000}),
            ("tokenizer_config.json", {"legacy_behaviour": True}),
        ],
    )
    def test_files_that_are_missing_or_do_not_fit_are_rejected(self, folder, name, change):
        path = folder / name
        if change is None:
            path.unlink()
        else:
            path.write_text(json.dumps(json.loads(path.read_text()) | change))
        assert self.run(folder, "--target-lang", "deu") == 1
        assert [path.name for path in folder.parent.iterdir()] == ["model"]

    def test_options_build_a_model_that_is_fine_tuned(self, folder):
        """Another encoding loads all parameters but positions."""
        assert self.run(folder, "--target-lang", "deu") == 0
        output = folder.parent / "out"
        state = torch.load(output / "model.pt", weights_only=True)["model"]
        _, task, *_ = load_model(output / "model.pt")
        words = (output / "options.txt").read_text().split()
        command = [".", "--arch", "rope_transformer", *words]
        args = options.parse_args_and_arch(options.get_training_parser(), command)
        build_model(args, task).load_state_dict(state, strict=True)
