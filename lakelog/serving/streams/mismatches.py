"""What a file says that does not fit the tables: collected, and told with the places of its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lakelog.errors import InvalidArgument, LakelogError, NotFound, PermissionDenied
from lakelog.serving.streams.exit_status import to_exit_code
from lakelog.serving.streams.yaml_section import FILE_MISFIT

_MISMATCHES = (InvalidArgument, NotFound, PermissionDenied)
"""What is wrong with a key's value; others, such as a metastore that does not answer, have no place in the file."""


@dataclass(frozen=True)
class KeyLocations:
    """Where the keys of a file stand.

    Args:
        file: The file.
        marks: Line and column by the full name of a key, from 1.
    """

    file: Path
    marks: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def find(self, key: str) -> tuple[int, int]:
        """Where a key stands, or else the section in which it would; the file's begin where nothing is known. Pure."""
        while key:
            if key in self.marks:
                return self.marks[key]
            key = key.rpartition(".")[0]
        return self.marks.get("", (1, 1))

    def describe(self, key: str, what: str) -> str:
        """As `file:line:column: key: what`. Pure."""
        line, column = self.find(key)
        return f"{self.file}:{line}:{column}: {key}: {what}"


class Mismatches:
    """Collects what does not fit, for all to be told at once. One thread.

    Args:
        places: Where keys stand.
    """

    def __init__(self, places: KeyLocations) -> None:
        self._places = places
        self._found: list[tuple[str, LakelogError]] = []

    def add(self, key: str, what: str) -> None:
        """Notes what is wrong with a key's value."""
        self.add_error(key, InvalidArgument(what, reason=FILE_MISFIT, metadata={"field": key}))

    def add_error(self, key: str, error: LakelogError) -> None:
        """Notes an error that a key's value led to; its message says what is wrong."""
        if all(error.message != known.message for _, known in self._found):
            self._found.append((key, error))

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Notes the error that what is inside ends with, if it is one of the value; goes on behind."""
        try:
            yield
        except _MISMATCHES as error:
            self.add_error(key, error)

    def check(self) -> None:
        """Raises what was found as one error, a line each; of several kinds the one with the largest exit code."""
        if not self._found:
            return
        found = sorted(self._found, key=lambda each: self._places.find(each[0]))
        worst = max((error for _, error in found), key=to_exit_code)
        raise type(worst)(
            "\n".join(self._places.describe(key, error.message) for key, error in found),
            reason=worst.reason,
            metadata={**worst.metadata, "file": str(self._places.file)},
        )
