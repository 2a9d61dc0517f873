"""The pages for newcomers name tests that exist and figures that were measured."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dev.figures_page import DATA, PICTURE, render_picture

_ROOT = Path(__file__).parents[3]
_README = (_ROOT / "README.md").read_text()
_MEASURED = (_ROOT / "bench/README.md").read_text()


@pytest.mark.parametrize(("page", "at_least"), [("README.md", 8), ("docs/guarantees.md", 35)])
def test_guarantees_name_tests_that_exist(page: str, at_least: int) -> None:
    rows = re.findall(r"^\|.*`tests/.*$", (_ROOT / page).read_text(), re.MULTILINE)
    named = {path for row in rows for path in re.findall(r"`([^`]*)`", row) if path.startswith("tests/")}
    assert len(named) >= at_least
    assert [path for path in sorted(named) if not (_ROOT / path).exists()] == []


def test_each_guarantee_is_shown_by_a_test() -> None:
    """A row of the page without a test would be a promise that nothing keeps."""
    text = (_ROOT / "docs/guarantees.md").read_text()
    rows: list[str] = re.findall(r"^\| \*\*.*$", text, re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row.rsplit("|", 2)[1]] == []


def test_the_first_page_leads_to_what_one_sees() -> None:
    first = (_ROOT / "docs/index.md").read_text()
    for page in ("console", "pictures", "doctor", "command-line", "metrics", "examples"):
        assert f"({page}.md)" in first


def measured(workload: str, figure: str) -> list[str]:
    """The cells of a figure in bench/README.md: ours, the reference's, the ratio."""
    found = re.search(rf"^\| {re.escape(workload)} \| {re.escape(figure)} \|(.*)\|$", _MEASURED, re.MULTILINE)
    assert found is not None, f"bench/README.md has no figure {figure!r} of {workload}"
    return [cell.strip() for cell in found[1].split("|")]


def test_the_figures_of_the_readme_were_measured() -> None:
    data = tomllib.loads(DATA.read_text())
    for bar in data["freshness"]:
        assert measured(bar["workload"], bar["median"])[0] == f"{bar['median_ms']:g} ms"
        assert measured(bar["workload"], bar["p99"])[0] == f"{bar['p99_ms']:g} ms"
    table = _README[_README.index("| measured | figure |") :]
    for row in data["table"]:
        ours, _, ratio = measured(row["workload"], row["figure"])[:3]
        shown = row.get("ours") or row["ratio"]
        assert shown == (ours if "ours" in row else ratio)
        assert shown in table
    assert "22.2 ms; 26.1 ms" in table
    assert all(len(str(row["written_down"])) == 10 for row in (*data["freshness"], *data["table"]))


def test_the_plot_is_a_picture() -> None:
    assert PICTURE.read_text() == render_picture()
    svg = ElementTree.fromstring(render_picture())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "6.81 / 12.5" in texts


def test_the_comparison_compares_all_of_them_in_every_row() -> None:
    text = (_ROOT / "docs/comparison.md").read_text()
    rows = re.findall(r"^\|.*\|$", text, re.MULTILINE)
    assert len(rows) > 15
    assert {row.count("|") for row in rows} == {8}
    assert [row for row in rows if re.search(r"\|\s*\|", row[3:])] == []


@pytest.mark.parametrize(
    "page", [_ROOT / "README.md", *sorted((_ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_the_rows_of_a_table_have_one_width(page: Path) -> None:
    """A bar inside of a cell, also of code, would cut it in two where pages are shown."""
    outside_of_blocks = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\n)+", outside_of_blocks, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(widths) == 1, table
