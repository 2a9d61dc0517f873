"""How a transaction in memory is rolled back."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MISSING = object()


class Journal:
    """Changes that a transaction made, to be undone in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def put(self, mapping: MutableMapping[K, V], key: K, value: V) -> None:
        """Sets an entry."""
        before: Any = mapping.get(key, _MISSING)
        if before is _MISSING:
            self._undo.append(lambda: mapping.pop(key))
        else:
            self._undo.append(lambda: mapping.__setitem__(key, before))
        mapping[key] = value

    def pop(self, mapping: MutableMapping[K, V], key: K) -> None:
        """Removes an entry."""
        before = mapping.pop(key)
        self._undo.append(lambda: mapping.__setitem__(key, before))

    def append(self, values: list[V], value: V) -> None:
        """Adds to the end of a list."""
        values.append(value)
        self._undo.append(values.pop)

    def set(self, target: object, attribute: str, value: object) -> None:
        """Sets an attribute."""
        before = getattr(target, attribute)
        self._undo.append(lambda: setattr(target, attribute, before))
        setattr(target, attribute, value)

    def roll_back(self) -> None:
        """Undoes all of it."""
        while self._undo:
            self._undo.pop()()
