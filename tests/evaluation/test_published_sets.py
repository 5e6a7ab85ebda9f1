"""``scripts/contrastive_sets.py``, which converts published contrastive sets."""

import json
import sys

from cape_fairseq.evaluation.contrastive import read_items
from tests.support import ROOT, run


def convert(name, file, tmp_path):
    """Convert a set and read it as the tool does."""
    files = tmp_path / "source", tmp_path / "target"
    run(sys.executable, ROOT / "scripts" / "contrastive_sets.py", name, file, *files)
    return read_items(*files)


def test_contrapro(tmp_path):
    contexts = {"en": ["", "A key."] * 3 + ["One.", "Two."] * 2, "de": ["", "Ein Schlüssel."] * 3}
    contexts["en"] += ["One.", "Two."] * 2  # two pronouns of one sentence are two items
    contexts["de"] += ["Eins.", "Zwei."] * 4
    texts = {"en": ["It fell."] * 3 + ["It ran."] * 4}
    texts["de"] = ["Er fiel.", "Sie fiel.", "Es fiel.", "Sie lief.", "Er lief."]
    texts["de"] += ["Sie lief.", "Es lief."]
    for lang in ("en", "de"):
        for kind, lines in (("context", contexts[lang]), ("text", texts[lang])):
            (tmp_path / f"contrapro.{kind}.{lang}").write_text("\n".join(lines) + "\n")
    items = convert("contrapro", tmp_path / "contrapro", tmp_path)
    ran = ["One.", "Two.", "It ran."]
    assert [item.source for item in items] == [["A key.", "It fell."], ran, ran]
    assert items[0].earlier == ["Ein Schlüssel."]
    assert items[0].candidates == ["Er fiel.", "Sie fiel.", "Es fiel."]
    assert items[1].candidates == ["Sie lief.", "Er lief."]
    assert items[2].candidates == ["Sie lief.", "Es lief."]


def test_voita(tmp_path):
    """Ten lines in five items: equal sources, and the right translation is not always first."""
    data = []
    for formal, index in ((True, 0), (False, 0), (True, 1), (False, 1), (True, 0)):
        earlier = "вы здесь ." if formal else "ты здесь ."
        ends = ["идите .", "иди ."] if formal != (index == 1) else ["иди .", "идите ."]
        translations = [f"{earlier} _eos {end}" for end in ends]
        data.append({"src": "you are here . _eos go .", "dst": translations, "true_ind": index})
    path = tmp_path / "deixis.json"
    path.write_text(json.dumps(data))
    items = convert("voita", path, tmp_path)
    assert len(items) == 5
    for item, formal in zip(items, (True, False, True, False, True), strict=True):
        assert item.source == ["you are here .", "go ."]
        assert item.candidates == (["идите .", "иди ."] if formal else ["иди .", "идите ."])


def test_bawden(tmp_path):
    targets = [
        {"correct": ["Les bâtiments.", "Ils."], "incorrect": ["Les bâtiments.", "Elles."]},
        {"semi-correct": ["Les maisons.", "Elles."], "incorrect": ["Les maisons.", "Ils."]},
    ]
    anaphora = {"src": ["The buildings.", "They fell."], "trg": targets}
    choice = [
        {"src": [source, "Mad!"], "trg": {"correct": [earlier, right], "incorrect": [earlier, "!"]}}
        for source, earlier, right in (
            ("A mad man.", "Un fou.", "Fou !"),
            ("I am mad.", "Fâché.", "Fâché !"),
            ("He is mad.", "Il est fou.", "Fou !"),
        )
    ]
    found = []
    for name, block in (("anaphora.json", anaphora), ("choice.json", {"examples": choice})):
        (tmp_path / name).write_text(json.dumps({"1": block}))
        found += convert("bawden", tmp_path / name, tmp_path)
    assert [item.candidates[0] for item in found] == ["Ils.", "Elles.", "Fou !", "Fâché !", "Fou !"]
    assert all(len(item.candidates) == 2 for item in found)
