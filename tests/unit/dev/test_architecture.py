"""The pages about the code name only files, modules, functions and methods that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_PAGE = _ROOT / "ARCHITECTURE.md"
_MOST_FOLDERS = 6
_ONLY_IN_THE_WHEEL = {"lakelog/services/"}
_NODE = re.compile(r'\w+\["([\w.]+)<br>([\w.]+)"\]')


def list_walks(text: str) -> dict[str, list[tuple[str, str]]]:
    """The nodes of each Mermaid diagram, by its heading: module, and function or class and method."""
    found = re.findall(r"^### (.+?)\n\n```mermaid\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return {heading: _NODE.findall(diagram) for heading, diagram in found}


def is_defined(module: str, name: str) -> bool:
    """Whether a module of the repository defines a function, or a class with a method."""
    path = _ROOT / (module.replace(".", "/") + ".py")
    if not path.exists():
        return False
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    for part in name.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part
        ]
        if not found:
            return False
        body = found[0].body
    return True


def test_there_are_six_walks() -> None:
    text = _PAGE.read_text()
    walks = list_walks(text)
    assert len(walks) == text.count("```mermaid") == 6
    # A node that is written in another way would not be checked.
    assert sum(map(len, walks.values())) == text.count('["')


@pytest.mark.parametrize(("walk", "nodes"), list_walks(_PAGE.read_text()).items())
def test_a_walk_names_what_exists(walk: str, nodes: list[tuple[str, str]]) -> None:
    assert [node for node in nodes if not is_defined(*node)] == []
    assert len({module.rpartition(".")[0] for module, _ in nodes}) <= _MOST_FOLDERS, walk


def test_what_does_not_exist_is_noticed() -> None:
    assert is_defined("lakelog.sdk.transaction", "Transaction.commit")
    assert not is_defined("lakelog.sdk.transaction", "Transaction.no_such_method")
    assert not is_defined("lakelog.sdk.no_such_module", "Transaction.commit")
    assert not is_defined("lakelog.sdk.transaction", "no_such_function")


def test_the_page_is_an_introduction() -> None:
    assert len(_PAGE.read_bytes()) <= 12 * 1024


def list_paths(text: str) -> set[str]:
    """The files and folders that a page names, from the root of the repository."""
    return set(re.findall(r"`((?:lakelog|metastore|writer|reader|compactor|tests|proto|docs|dev)/[\w/.]+)`", text))


def list_missing(paths: set[str]) -> list[str]:
    return [path for path in sorted(paths) if not (_ROOT / path).exists()]


@pytest.mark.parametrize(
    ("page", "least"),
    [("docs/walks.md", 50), ("docs/invariants.md", 50), ("CONTRIBUTING.md", 50), ("ARCHITECTURE.md", 20)],
)
def test_the_pages_about_the_code_name_files_that_exist(page: str, least: int) -> None:
    named = list_paths((_ROOT / page).read_text())
    assert len(named) > least
    assert list_missing(named - _ONLY_IN_THE_WHEEL) == []


def test_a_path_that_does_not_exist_is_noticed() -> None:
    text = "`lakelog/sdk/`, `proto/lakelog/rpc/v1/types.proto`, `docs/no_such_page.md`, `dev/no_such_folder/`"
    assert list_missing(list_paths(text)) == ["dev/no_such_folder/", "docs/no_such_page.md"]
