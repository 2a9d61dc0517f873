"""A stream as its file describes it. Frozen values only; `reading.py` makes them from YAML."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lakelog.serving.streams.mismatches import KeyLocations

DEFAULT_INTERVAL_S: Final = 0.0
"""A stream is told of new snapshots and does not ask for them, so that there is nothing to wait for."""

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
        options: Of streams in Spark, by key.
    """

    table: str
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sink:
    """Where it goes.

    Args:
        type: Of which kind it is; the others are given where they belong to that.
        table: `database.table`.
        path: A folder, absolute.
        function: `module:function`, called with a DataFrame and the batch's number.
        row_kind_column: The column of the sink that holds what became of each row, instead of its being done.
        shown_rows: How many rows of a batch the console shows.
        fill_missing: Of a table: whether its columns that the stream does not have become NULL; else they are an error.
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
        interval_s: Between batches; 0: as soon as there is something. None: what is there now is read, then it ends.
        checkpoint: A folder, absolute, for how far the stream has read.
        marks: Where the file's keys stand: line and column by a key's full name.
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
        """For telling what is wrong with a key."""
        return KeyLocations(self.file, self.marks)

    @property
    def writer(self) -> str:
        """Under which name it commits; it never changes, so that a batch is applied once for ever."""
        return f"stream-{self.name}"

    @property
    def lease(self) -> str:
        """The lease that its one running instance holds; streams and pipelines share their names."""
        return f"pipeline/{self.name}"
