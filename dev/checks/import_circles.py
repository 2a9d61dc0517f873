"""Modules import each other in one direction, so that each can be understood after those that it imports."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from dev.rooms import Graph, find_circles, read_graph

TITLE = (
    "no modules import each other in a loop, be it for types only or inside a function (move what both need below them)"
)


def find_problems(root: Path) -> list[str]:
    """Each set of modules that import each other, with its shortest loop."""
    graph = read_graph(root)
    return [
        f"{len(circle)} modules import each other in a loop: {' -> '.join(_find_loop(graph, circle))}"
        for circle in find_circles(graph)
    ]


def _find_loop(graph: Graph, circle: Sequence[str]) -> list[str]:
    return min((_walk_back_to(graph, start) for start in circle), key=len)


def _walk_back_to(graph: Graph, start: str) -> list[str]:
    """The shortest way from a module of a circle to itself."""
    ways = deque([[start]])
    seen: set[str] = set()
    while ways:
        way = ways.popleft()
        for module in sorted(graph[way[-1]]):
            if module == start:
                return [*way, start]
            if module not in seen:
                seen.add(module)
                ways.append([*way, module])
    raise AssertionError(f"{start} is in no circle")
