"""A stream as its file describes it. Only frozen values; `reading.py` makes them from YAML."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakelog.serving.streams.mismatches import KeyLocations

DEFAULT_INTERVAL_S: Final = 0.0
"""A stream is notified of new snapshots and does not poll for them, so there is no reason to wait."""

DEFAULT_SHOWN_ROWS: Final = 20


class SinkType(enum.Enum):
    """Where rows go."""

    TABLE = "table"
    PARQUET = "parquet"
    JSON = "json"
    CONSOLE = "console"
    PYTHON = "python"


@dataclass(frozen=True)
class Source:
    """What is read.

    Args:
        table: `database.table`.
        columns: Names of columns; None: all.
        filter: An SQL condition; None: none.
        options: Options of streams in Spark, by key.
    """

    table: str
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sink:
    """Where the rows go.

    Args:
        type: The kind of sink; the other fields are set where they belong to that kind.
        table: `database.table`.
        path: A folder, absolute.
        function: `module:function`, called with a DataFrame and the batch's number.
        row_kind_column: The sink's column for the row kinds, which are then stored instead of applied.
        shown_rows: How many rows of a batch the console shows.
        fill_missing: For a table: whether columns that the stream lacks become NULL; otherwise they are an error.
    """

    type: SinkType
    table: str = ""
    path: Path | None = None
    function: str = ""
    row_kind_column: str | None = None
    shown_rows: int = DEFAULT_SHOWN_ROWS
    fill_missing: bool = False

    def __str__(self) -> str:
        if self.type is SinkType.TABLE:
            return f"table {self.table}"
        if self.path is not None:
            return f"{self.type.value} files in {self.path}"
        return f"function {self.function}" if self.function else "the console"


@dataclass(frozen=True)
class Stream:
    """All that a stream's file says.

    Args:
        file: The file itself.
        name: `[A-Za-z_][A-Za-z0-9_-]{0,63}`; the writer's name is `stream-<name>`.
        target: Where the metastore is; None: as the command line or the environment says.
        source: What is read.
        sink: Where it goes.
        interval_s: Between batches; 0: as soon as there is data. None: what exists now is read, then the stream ends.
        checkpoint: A folder, absolute, for the progress of the stream.
        marks: The locations of the file's keys: line and column by a key's full name.
    """

    file: Path
    name: str
    target: str | None
    source: Source
    sink: Sink
    interval_s: float | None
    checkpoint: Path
    marks: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def places(self) -> KeyLocations:
        """For saying what is wrong with a key."""
        return KeyLocations(self.file, self.marks)

    @property
    def writer(self) -> str:
        """The name under which it commits; it never changes, so that a batch is applied only once, forever."""
        return f"stream-{self.name}"

    @property
    def lease(self) -> str:
        """The lease that its one running instance holds; streams and pipelines share their names."""
        return f"pipeline/{self.name}"
