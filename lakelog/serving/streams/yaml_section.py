"""Reads YAML with places: every value knows its line, and all problems are collected and reported together."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import yaml

from lakelog.errors import InvalidArgument
from lakelog.options.value_types import Duration

T = TypeVar("T")

FILE_MISFIT: Final = "PIPELINE_FILE"
"""The reason of an InvalidArgument for a file with mistakes."""

_MAX_FILE_BYTES: Final = 1 << 20
_TAG: Final = "tag:yaml.org,2002:"
_DURATION: Final = Duration()
_KIND_NAMES: Final = {
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "timestamp": "a date",
    "map": "a section",
    "seq": "a list",
}


class Problems:
    """The problems of a file, in the order of its lines."""

    def __init__(self, file: Path) -> None:
        self.file: Final = file
        self.marks: Final[dict[str, tuple[int, int]]] = {}
        """The places of the values that were read: line and column by the key's full name, from 1."""
        self._found: list[tuple[int, int, str]] = []

    def add(self, node: yaml.Node | yaml.Mark, key: str, what: str) -> None:
        """Notes a problem at a place."""
        mark = node if isinstance(node, yaml.Mark) else node.start_mark
        self._found.append((mark.line + 1, mark.column + 1, f"{key}: {what}" if key else what))

    def check(self) -> None:
        """Raises InvalidArgument if there are problems: one line for each, as `file:line:column: key: what`."""
        if not self._found:
            return
        lines = [f"{self.file}:{line}:{column}: {text}" for line, column, text in sorted(self._found)]
        raise InvalidArgument(
            "\n".join(lines),
            reason=FILE_MISFIT,
            metadata={"file": str(self.file), "line": str(min(self._found)[0])},
        )


class Section:
    """A mapping of keys. Read each key once; `finish` refuses the others.

    Args:
        problems: Gets the problems.
        node: The mapping; None: the section is missing, so every key has its default.
        path: The section's own key, for messages; empty for the whole file.
        place: Where the section would be.
    """

    def __init__(self, problems: Problems, node: yaml.Node | None, path: str, place: yaml.Node) -> None:
        self.problems: Final = problems
        self.path: Final = path
        self.place: Final = node or place
        self.is_readable: Final = isinstance(node, yaml.MappingNode)
        """Whether it is there and holds keys; otherwise the problem is already noted, or the caller's concern."""
        self._requested: list[str] = []
        self._values: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        self.exists: Final = node is not None
        if node is None:
            return
        problems.marks[path] = _mark(node)
        if not isinstance(node, yaml.MappingNode):
            problems.add(node, path, f"it is {_kind(node)}, but must be a section of keys (`key: value`, indented).")
            return
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            if name in self._values:
                first = self._values[name][0].start_mark.line + 1
                problems.add(key, self._full(name), f"the key is given twice, first in line {first}; leave one out.")
                continue
            self._values[name] = (key, value)
            problems.marks[self._full(name)] = _mark(value)

    @property
    def names(self) -> list[str]:
        """The keys that the section has."""
        return list(self._values)

    def node(self, key: str) -> yaml.Node | None:
        """The value of a key, as a node; None: it is not there, or has no value."""
        self._requested.append(key)
        pair = self._values.get(key)
        if pair is None or (_tag(pair[1]) == "null" and not pair[1].value):
            return None
        return pair[1]

    def section(self, key: str) -> Section:
        """A section inside this one."""
        return Section(self.problems, self.node(key), self._full(key), self.place)

    def optional_text(self, key: str) -> str | None:
        """A text; None: it is missing."""
        node = self.node(key)
        return None if node is None else self._to_text(node, self._full(key))

    def text(self, key: str, default: str) -> str:
        """A text."""
        return self._read(key, default, self._to_text)

    def required_text(self, key: str, example: str) -> str:
        """A text that must be there."""
        if self.node(key) is None:
            self.problems.add(self.place, self._full(key), f"it is missing; give one, for instance `{key}: {example}`.")
            return ""
        return self.text(key, "")

    def choice(self, key: str, choices: Sequence[str], default: str | None) -> str:
        """One of several words; without a default it must be there."""
        if default is None and self.node(key) is None:
            self.problems.add(self.place, self._full(key), f"it is missing; give one of {', '.join(choices)}.")
            return choices[0]

        def read(node: yaml.Node, full: str) -> str | None:
            value = self._to_text(node, full)
            if value is not None and value not in choices:
                self.problems.add(
                    node, full, f"'{value[:80]}' is not possible{_nearest(value, choices)}; use {', '.join(choices)}."
                )
                return None
            return value

        return self._read(key, default or choices[0], read)

    def whole(self, key: str, default: int, first: int, last: int) -> int:
        """A whole number between `first` and `last`."""

        def read(node: yaml.Node, full: str) -> int | None:
            if _tag(node) == "int" and re.fullmatch(r"[0-9]{1,12}", node.value) and first <= int(node.value) <= last:
                return int(node.value)
            shown = _shown(node)
            self.problems.add(node, full, f"{shown} is not possible; give a whole number from {first} to {last}.")
            return None

        return self._read(key, default, read)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""

        def read(node: yaml.Node, full: str) -> bool | None:
            if _tag(node) == "bool":
                return str(node.value).lower() in ("true", "yes", "on")
            self.problems.add(node, full, f"{_shown(node)} is neither true nor false; write one of them, unquoted.")
            return None

        return self._read(key, default, read)

    def seconds(self, key: str, default: float, first: float, last: float) -> float:
        """A duration such as `5 s`, `500 ms`, `2 min` or `1 h`, in seconds."""

        def read(node: yaml.Node, full: str) -> float | None:
            try:
                text = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
                seconds = _DURATION.parse_new(text) / 1000
                if not first <= seconds <= last:
                    raise ValueError(f"Give a duration from {first:g} s to {last:g} s, for instance `5 s`")
            except ValueError as error:
                self.problems.add(node, full, f"{_shown(node)} is not possible. {error}.")
                return None
            return seconds

        return self._read(key, default, read)

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of texts, or a single one; numbers, NULL and so on count as their text."""

        def read(node: yaml.Node, full: str) -> tuple[str, ...] | None:
            items = node.value if isinstance(node, yaml.SequenceNode) else [node]
            if not all(isinstance(item, yaml.ScalarNode) for item in items):
                self.problems.add(node, full, "it must be a text or a list of texts, for instance `[NA, null]`.")
                return None
            return tuple(str(item.value) for item in items)

        return self._read(key, default, read)

    def text_map(self, key: str) -> dict[str, str]:
        """A section with any keys, whose values are texts; numbers and the like count as their text."""
        inner = self.section(key)
        found = {}
        for name in inner.names:
            node = inner.node(name)
            if node is not None and not isinstance(node, yaml.ScalarNode):
                self.problems.add(node, inner._full(name), f"it is {_kind(node)}, but must be a text.")
                continue
            found[name] = "" if node is None else str(node.value)
        return found

    def problem(self, key: str, what: str) -> None:
        """Notes a problem with a key's value."""
        pair = self._values.get(key)
        self.problems.add(pair[1] if pair else self.place, self._full(key), what)

    def finish(self) -> None:
        """Refuses the keys that were not read."""
        known = list(dict.fromkeys(self._requested))
        for name, (key, _) in self._values.items():
            if name not in known:
                self.problems.add(
                    key, self._full(name), f"there is no such key{_nearest(name, known)}; known are {', '.join(known)}."
                )

    def _full(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def _read(self, key: str, default: T, read: Callable[[yaml.Node, str], T | None]) -> T:
        node = self.node(key)
        value = None if node is None else read(node, self._full(key))
        return default if value is None else value

    def _to_text(self, node: yaml.Node, full: str) -> str | None:
        if _tag(node) == "str":
            return str(node.value)
        remedy = "put it into quotes" if isinstance(node, yaml.ScalarNode) else "give a single text"
        self.problems.add(node, full, f"{_shown(node)} is {_kind(node)}, but must be a text; {remedy}.")
        return None


def load_section(file: Path, kind: str, needed: str) -> Section:
    """Reads a YAML file.

    Args:
        file: The file.
        kind: What the file describes, for messages, for instance `pipeline`.
        needed: The keys that it needs at least, for messages.

    Raises:
        InvalidArgument: It cannot be read, or is no YAML; the message names the place.
    """
    problems = Problems(file)
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(
            f"The {kind} file {file} cannot be read: {error.strerror}. Check the path and its permissions.",
            reason=FILE_MISFIT,
            metadata={"file": str(file)},
        ) from error
    start = yaml.Mark(str(file), 0, 0, 0, None, 0)
    if len(data) > _MAX_FILE_BYTES:
        problems.add(start, "", f"the file has more than {_MAX_FILE_BYTES} bytes; a {kind} needs a few lines.")
        problems.check()
    try:
        node = yaml.compose(data.decode("utf-8"), yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n")
        problems.add(yaml.Mark(str(file), 0, line, 0, None, 0), "", "the file is not UTF-8 text; save it as UTF-8.")
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None) or start
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        problems.add(mark, "", f"this is not YAML: {what}. Check indentation, quotes and colons.")
    else:
        if node is None:
            problems.add(start, "", f"the file is empty; it needs at least {needed}.")
        else:
            return Section(problems, node, "", node)
    problems.check()
    raise AssertionError("a problem was noted")


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _tag(node: yaml.Node) -> str:
    return str(node.tag).removeprefix(_TAG)


def _kind(node: yaml.Node) -> str:
    return _KIND_NAMES.get(_tag(node), f"of the kind {_tag(node)[:40]}")


def _shown(node: yaml.Node) -> str:
    return f"'{str(node.value)[:80]}'" if isinstance(node, yaml.ScalarNode) else _kind(node)


def _nearest(value: str, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(value, choices, n=2)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
