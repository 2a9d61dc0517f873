"""The documentation as a site: it has a search, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.support.repository import ROOT

_LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']([^"']+)|<link[^>]*\shref=["']([^"']+)[^>]*>""")


def test_the_site_has_a_search_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    places = {entry["location"].partition("#")[0] for entry in _read_index(tmp_path)["docs"]}
    pages = {path.parent.relative_to(tmp_path).as_posix() + "/" for path in tmp_path.rglob("index.html")} - {"./"}
    assert len(pages) > 40
    assert pages <= places
    assert any("NO_COLOR" in entry["text"] for entry in _read_index(tmp_path)["docs"])
    for page in tmp_path.rglob("*.html"):
        for match in _LOADED.finditer(page.read_text()):
            loaded = match.group(1) or match.group(2)
            is_canonical = 'rel="canonical"' in match.group(0)
            assert is_canonical or not re.match(r"(?:[a-z]+:)?//", loaded), (page, loaded)
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", sheet.read_text()), sheet


def _read_index(site: Path) -> dict[str, list[dict[str, str]]]:
    index: dict[str, list[dict[str, str]]] = json.loads((site / "search" / "search_index.json").read_text())
    return index
