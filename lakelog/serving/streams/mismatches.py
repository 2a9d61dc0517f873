"""Settings in a file that do not fit the tables: collects them, and reports them with the places of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lakelog.errors import InvalidArgument, LakelogError, NotFound, PermissionDenied
from lakelog.serving.streams.exit_status import to_exit_code
from lakelog.serving.streams.yaml_section import FILE_MISFIT

_MISMATCHES = (InvalidArgument, NotFound, PermissionDenied)
"""Errors in a key's value; others, such as an unreachable metastore, have no place in the file."""


@dataclass(frozen=True)
class KeyLocations:
    """The places of the keys in a file.

    Args:
        file: The file.
        marks: Line and column by the full name of a key, from 1.
    """

    file: Path
    marks: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def find(self, key: str) -> tuple[int, int]:
        """The place of a key, or else of its section, or else the beginning of the file. Pure."""
        while key:
            if key in self.marks:
                return self.marks[key]
            key = key.rpartition(".")[0]
        return self.marks.get("", (1, 1))

    def describe(self, key: str, what: str) -> str:
        """The text `file:line:column: key: what`. Pure."""
        line, column = self.find(key)
        return f"{self.file}:{line}:{column}: {key}: {what}"


class Mismatches:
    """Collects mismatches, to report all of them at once. One thread."""

    def __init__(self, places: KeyLocations) -> None:
        self._places = places
        self._found: list[tuple[str, LakelogError]] = []

    def add(self, key: str, what: str) -> None:
        """Notes an error in a key's value."""
        self.add_error(key, InvalidArgument(what, reason=FILE_MISFIT, metadata={"field": key}))

    def add_error(self, key: str, error: LakelogError) -> None:
        """Notes an error that a key's value caused; its message explains it."""
        if all(error.message != known.message for _, known in self._found):
            self._found.append((key, error))

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Notes an error of the block, if a key's value caused it; the program goes on after the block."""
        try:
            yield
        except _MISMATCHES as error:
            self.add_error(key, error)

    def check(self) -> None:
        """Raises all findings as one error, one line for each; of several kinds, the one with the largest exit code."""
        if not self._found:
            return
        found = sorted(self._found, key=lambda each: self._places.find(each[0]))
        worst = max((error for _, error in found), key=to_exit_code)
        raise type(worst)(
            "\n".join(self._places.describe(key, error.message) for key, error in found),
            reason=worst.reason,
            metadata={**worst.metadata, "file": str(self._places.file)},
        )
