"""Examples use what users have, and their pages and notebooks are there."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import lakelog
import lakelog.testing
from dev import notebooks_page

_ROOT = Path(__file__).parents[3]
_EXAMPLES = notebooks_page.find_examples()
_FIELDS = {"Sandbox": ("arguments", "catalog", "folder", "kafka", "target")}
"""Their class's docstring has them."""

_OWN_MODULES = {"lakelog": lakelog.__all__, "lakelog.testing": lakelog.testing.__all__}


def test_all_are_found() -> None:
    folders = {path.parent.name for path in (_ROOT / "examples").glob("*/*") if "__pycache__" not in path.parts}
    assert {example.stem for example in _EXAMPLES} == folders
    assert len(folders) >= 7


def find_foreign_uses(code: str) -> list[str]:
    """What an example takes from lakelog that users cannot rely on."""
    api = (_ROOT / "docs/api.md").read_text()
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.startswith("lakelog.")]
        elif isinstance(node, ast.ImportFrom) and (module := node.module or "").startswith("lakelog"):
            found += [f"{module}.{each.name}" for each in node.names if each.name not in _OWN_MODULES.get(module, ())]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            own = {"catalog": "Catalog", "sandbox": "Sandbox", "orders": "Table", "prices": "Table"}.get(node.value.id)
            if own is not None and f"{own}.{node.attr}\n" not in api and node.attr not in _FIELDS.get(own, ()):
                found.append(f"{own}.{node.attr}")
    return found


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_only_the_public_api(example: Path) -> None:
    assert find_foreign_uses(example.read_text()) == []


@pytest.mark.parametrize(
    "code",
    [
        "from lakelog.embedded.stack import EmbeddedStack",
        "import lakelog.sdk.catalog",
        "catalog.metastore.list_pipelines()",
        "sandbox._make_database()",
    ],
)
def test_what_is_not_public_is_found(code: str) -> None:
    assert len(find_foreign_uses(code)) == 1


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_notebooks_can_be_opened(example: Path) -> None:
    notebook = json.loads(example.with_suffix(".ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds.count("markdown") >= 6
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            compile("".join(cell["source"]), example.name, "exec")


def test_cells_keep_their_ids_while_their_text_stays(tmp_path: Path) -> None:
    example = tmp_path / "a.py"
    example.write_text("# %%\nfirst = 1\n\n# %%\nsecond = 2\n\n# %%\nsecond = 2\n")
    before = [cell["id"] for cell in json.loads(notebooks_page.render_notebook(example))["cells"]]
    assert len(set(before)) == 3
    example.write_text("# %%\nnew = 0\n\n# %%\nfirst = 1\n\n# %%\nsecond = 2\n\n# %%\nsecond = 2\n")
    assert [cell["id"] for cell in json.loads(notebooks_page.render_notebook(example))["cells"]][1:] == before


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_each_has_its_page_and_its_lines(example: Path) -> None:
    name = example.stem
    readme = example.with_name("README.md").read_text()
    assert f"python examples/{name}/{name}.py" in readme
    assert f"[{name}.ipynb]({name}.ipynb)" in readme
    assert f"| [{name}]({name}/README.md) |" in (_ROOT / "examples/README.md").read_text()
    assert f"| `{name}` |" in (_ROOT / "docs/examples.md").read_text()


def test_links_between_pages_lead_somewhere() -> None:
    for page in (_ROOT / "examples").rglob("README.md"):
        text = page.read_text()
        for link, anchor in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", text):
            target = (page.parent / link).resolve()
            assert target.exists(), (page, link)
            if anchor:
                titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                known = {re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-") for title in titles}
                assert anchor in known, (page, link, anchor)
