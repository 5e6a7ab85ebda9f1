"""The prose of the project, and its tables."""

import re

import pytest

from cape_fairseq.evaluation.length import measure, rows
from cape_fairseq.evaluation.rows import markdown
from tests.support import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_have_100_columns(page):
    """Tables, and commands with their output, may be as wide as they are."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    assert len(lines) > 10
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    files = [link for link in links if not link.startswith("http")]
    assert [name for name in files if not (page.parent / name).exists()] == []


TABLES = re.findall(
    r"<!-- cape-fairseq length (\S+) -->\n\n((?:\|.*\n)+)", (ROOT / "docs/length.md").read_text()
)


@pytest.mark.parametrize(("folder", "table"), TABLES, ids=[folder for folder, _ in TABLES])
def test_tables_are_what_the_tool_writes(folder, table):
    page = markdown(rows(measure(ROOT / folder)))
    assert table.splitlines() == [line for line in page if line.startswith("|")]


def test_all_tables_of_length_are_held():
    names = ["bible", "bible-10400", "bible-1000", "new-testament", "captions", "lengths"]
    names += ["shifts", "translation-alone"]
    assert [folder for folder, _ in TABLES] == [f"results/{name}" for name in names]
