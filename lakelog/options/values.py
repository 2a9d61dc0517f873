"""Options with typed values: the rest of lakelog uses these instead of a mapping of texts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, TypeVar

from lakelog.errors import InvalidArgument
from lakelog.options.declared.reads_and_writes import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP_MILLIS,
)
from lakelog.options.declared.streams import (
    SCAN_MODE,
    STREAM_FILE_CREATION_TIME_MILLIS,
    STREAM_SNAPSHOT_ID,
    STREAM_TIMESTAMP_MILLIS,
)
from lakelog.options.declared.tables import BUCKET, TARGET_FILE_SIZE
from lakelog.options.option import Option, Scope
from lakelog.options.registry import check_options

T = TypeVar("T")

_TARGET_FILE_SIZE_WITH_KEY: Final = 128 << 20
_TARGET_FILE_SIZE_WITHOUT_KEY: Final = 256 << 20
"""Append files are always read from end to end, so larger ones cost nothing; Paimon has the same two defaults."""


class _Values:
    """Options of one scope, checked when made."""

    scope: ClassVar[Scope]

    def __init__(self, options: Mapping[str, str]) -> None:
        check_options(options, self.scope)
        self._options = MappingProxyType(dict(options))

    def get(self, option: Option[T]) -> T:
        """The value of an option of this scope, or its default."""
        assert option.scope is self.scope, f"{option.key} is an option of scope {option.scope.value}"
        return option.read(self._options)

    def given(self) -> Mapping[str, str]:
        """The given options, as text; read only."""
        return self._options

    def __reduce__(self) -> tuple[type[_Values], tuple[dict[str, str]]]:
        return (type(self), (dict(self._options),))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._options == self._options

    def __hash__(self) -> int:
        return hash((type(self), frozenset(self._options.items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._options)!r})"


class TableOptions(_Values):
    """A table's options. Immutable, picklable.

    Args:
        options: The options given when the table was made and altered; those of a table in the catalog are valid.

    Raises:
        InvalidArgument: Unknown keys or wrong values; `validate_table_options` finds contradictions.
    """

    scope = Scope.TABLE

    def bucket_count(self, has_primary_key: bool) -> int:
        """The number of buckets in each partition; -1: the table has no buckets (all rows are in bucket 0)."""
        count = self.get(BUCKET)
        if count is not None:
            return count
        return 1 if has_primary_key else -1

    def target_file_size_bytes(self, has_primary_key: bool) -> int:
        """The approximate size at which a data file ends and the next begins."""
        size = self.get(TARGET_FILE_SIZE)
        if size is not None:
            return size
        return _TARGET_FILE_SIZE_WITH_KEY if has_primary_key else _TARGET_FILE_SIZE_WITHOUT_KEY


class ScanOptions(_Values):
    """The options of one read. Immutable, picklable.

    Raises:
        InvalidArgument: Unknown keys, wrong values, several options for the place to read, or a mode without a range.
    """

    scope = Scope.SCAN

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        known = (SCAN_SNAPSHOT_ID, SCAN_TIMESTAMP_MILLIS, SCAN_TAG_NAME, INCREMENTAL_BETWEEN)
        starts = [option.key for option in known if option.key in options]
        if len(starts) > 1:
            raise InvalidArgument(
                f"Options '{starts[0]}' and '{starts[1]}' both say which state to read. Give one of them.",
                reason="CONTRADICTING_OPTIONS",
                metadata={"option": starts[0], "other_option": starts[1]},
            )
        if INCREMENTAL_BETWEEN_SCAN_MODE.key in options and INCREMENTAL_BETWEEN.key not in options:
            raise InvalidArgument(
                f"Option '{INCREMENTAL_BETWEEN_SCAN_MODE.key}' has no effect without '{INCREMENTAL_BETWEEN.key}'. "
                "Give both, or none.",
                reason="CONTRADICTING_OPTIONS",
                metadata={"option": INCREMENTAL_BETWEEN_SCAN_MODE.key, "other_option": INCREMENTAL_BETWEEN.key},
            )


class StreamOptions(_Values):
    """The options of one subscription. Immutable, picklable.

    Raises:
        InvalidArgument: Unknown keys, wrong values, several options for the start, or one that the mode does not take
            or lacks.
    """

    scope = Scope.STREAM

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        given = [option.key for option in _STARTS if option.key in options]
        if len(given) > 1:
            raise _contradiction(given[0], given[1], "both say where to begin. Give one of them.")
        mode = self.get(SCAN_MODE)
        taken = _TAKEN.get(mode)
        if mode == "default" or (taken is None and not given):
            return
        if taken is None:
            raise _contradiction(
                f"{SCAN_MODE.key}' = '{mode}", given[0], "contradict each other: that mode takes none. Leave one out."
            )
        if given and given[0] != taken.key:
            raise _contradiction(
                f"{SCAN_MODE.key}' = '{mode}", given[0], f"contradict each other: that mode takes '{taken.key}'."
            )
        if not given:
            raise InvalidArgument(
                f"Option '{SCAN_MODE.key}' = '{mode}' needs the option '{taken.key}'. Give it, too.",
                reason="MISSING_OPTION",
                metadata={"option": taken.key},
            )

    @property
    def mode(self) -> str:
        """`scan.mode`, with `default` resolved by the options given."""
        mode = self.get(SCAN_MODE)
        if mode != "default":
            return mode
        for wanted, option in _TAKEN.items():
            if option.key in self._options:
                return wanted
        return "latest-full"


_STARTS: Final = (STREAM_SNAPSHOT_ID, STREAM_TIMESTAMP_MILLIS, STREAM_FILE_CREATION_TIME_MILLIS)
_TAKEN: Final[Mapping[str, Option[int | None]]] = {
    "from-timestamp": STREAM_TIMESTAMP_MILLIS,
    "from-snapshot": STREAM_SNAPSHOT_ID,
    "from-snapshot-full": STREAM_SNAPSHOT_ID,
    "from-file-creation-time": STREAM_FILE_CREATION_TIME_MILLIS,
}
"""The option that sets the start in each mode."""


def _contradiction(one: str, other: str, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"Options '{one}' and '{other}' {what}",
        reason="CONTRADICTING_OPTIONS",
        metadata={"option": one.split("'")[0], "other_option": other},
    )


class WriteOptions(_Values):
    """The options of one write. Immutable, picklable.

    Raises:
        InvalidArgument: Unknown keys or wrong values.
    """

    scope = Scope.WRITE
