"""`python -m dev.rooms [FOLDER ...]`: how many rooms each folder has, the arrows between them, and the circles.

A room is a file or a folder that stands directly in the folder; an arrow is an import from one room by another, whether
for types only or not. A circle is a set of files that import each other in a loop, wherever they stand.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from dev.checks.folder_sizes import PRODUCT
from dev.programs import tracked_files

ROOT = Path(__file__).resolve().parents[1]

Graph = Mapping[str, frozenset[str]]


def read_graph(root: Path) -> Graph:
    """Each module of the product with those that it imports; names with dots, a package by its own name."""
    files = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): root / path
        for path in tracked_files(root)
        if path.suffix == ".py" and path.parts[0] in PRODUCT and "v1" not in path.parts and "versions" not in path.parts
    }
    return {module: frozenset(find_imports(module, file) & files.keys() - {module}) for module, file in files.items()}


def find_imports(module: str, file: Path) -> set[str]:
    """What a module imports, for types and inside functions too; a name out of a module counts with the module."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            found.add(source)
            found.update(f"{source}.{alias.name}" for alias in node.names)
    return found


def count_rooms(graph: Graph, folder: str) -> tuple[int, int]:
    """Rooms of a folder, and arrows between them; its `__init__.py` is no room."""
    start = folder.replace("/", ".") + "."

    def room_of(module: str) -> str:
        return module.removeprefix(start).partition(".")[0]

    inside = [module for module in graph if module.startswith(start)]
    arrows = {
        (room_of(module), room_of(other)) for module in inside for other in graph[module] if other.startswith(start)
    }
    return len({room_of(module) for module in inside}), sum(first != second for first, second in arrows)


def find_circles(graph: Graph) -> list[list[str]]:
    """Sets of modules that import each other in a loop, each sorted, the largest first."""
    reached = {module: _reach(graph, module) for module in graph}
    circles = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }
    return sorted(([*circle] for circle in circles), key=len, reverse=True)


def _reach(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += graph[module]
    return found


def _describe(graph: Graph, folders: list[str]) -> Iterator[str]:
    for folder in folders:
        rooms, arrows = count_rooms(graph, folder)
        yield f"{folder}: {rooms} rooms, {arrows} arrows"
    for circle in find_circles(graph):
        yield f"circle of {len(circle)} files: {', '.join(circle[:6])}{' ...' if len(circle) > 6 else ''}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in _describe(read_graph(ROOT), sys.argv[1:] or list(PRODUCT)))
