"""A pipeline as its file describes it. Frozen values only; `reading.py` makes them from YAML."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakelog.records.text_options import TextOptions
from lakelog.serving.streams.mismatches import KeyLocations

from .columns import ColumnSource

if TYPE_CHECKING:
    # Pipelines of files need no codecs.
    from .kafka_spec import KafkaSource

DEFAULT_FILES_PER_BATCH: Final = 100
DEFAULT_INTERVAL_S: Final = 5.0


class Format(enum.Enum):
    """What the files hold."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


class Order(enum.Enum):
    """In which order files are taken; of rows of one key the one in the later file counts."""

    NAME = "name"
    MODIFIED = "modified"


class Mode(enum.Enum):
    """What rows do to the table."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"


class BadRecords(enum.Enum):
    """What becomes of a record that cannot be read or does not fit."""

    STOP = "stop"
    DEAD_LETTER = "dead-letter"


class Evolution(enum.Enum):
    """What becomes of a column of the source that the table does not have."""

    FAIL = "fail"
    ADD_COLUMNS = "add-columns"
    IGNORE = "ignore"


@dataclass(frozen=True)
class FileSource:
    """A folder of files.

    Args:
        path: The folder, absolute; every executor sees it under this path.
        format: What the files hold.
        pattern: Of the names of the files to take, as a shell writes it.
        recursive: Whether folders inside the folder are looked at too.
        order: In which order files are taken.
        max_files_per_batch: At most so many make a batch.
        columns: By column of the table: where it comes from. Others come from the column of the same name.
        ignore_unknown: Whether columns that the table does not have are passed over; else they are an error.
        fill_missing: Whether columns that the source leaves out become NULL; else they are an error.
        text: For CSV and JSON.
    """

    path: Path
    format: Format
    pattern: str = "*"
    recursive: bool = False
    order: Order = Order.NAME
    max_files_per_batch: int = DEFAULT_FILES_PER_BATCH
    columns: Mapping[str, ColumnSource] = field(default_factory=dict)
    ignore_unknown: bool = False
    fill_missing: bool = False
    text: TextOptions = field(default_factory=TextOptions)

    @property
    def identity(self) -> str:
        """By what a checkpoint knows its source."""
        return str(self.path)

    @property
    def description(self) -> str:
        """What is read, for people."""
        return f"{self.format.value} files in {self.path}"

    @property
    def unit(self) -> str:
        """What batches are counted in."""
        return "files"

    @property
    def restart_remedy(self) -> str:
        """What to do so that a pipeline with an empty checkpoint reads what is not in the table yet."""
        return "a source folder with only the files that are not in the table yet"


@dataclass(frozen=True)
class RowKindSource:
    """Which column of the source holds the kind of each row.

    Args:
        column: Its name in the source.
        values: What its values mean, as `+I`, `-U`, `+U` or `-D`; empty: it holds these texts themselves.
    """

    column: str
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pipeline:
    """All that a pipeline's file says.

    Args:
        file: The file itself.
        name: `[A-Za-z_][A-Za-z0-9_-]{0,63}`; the writer's name is `pipeline-<name>`.
        table: `database.table`.
        target: Where the metastore is; None: as the command line or the environment says.
        source: What is read.
        mode: What rows do to the table.
        row_kind: Which column says it for each row; None: `mode` holds for all.
        interval_s: How often the source is looked at; None: what is there now is read, then the pipeline ends.
        checkpoint: A folder, absolute, for how far the pipeline has read.
        bad_records: What becomes of records that do not fit.
        dead_letters: The folder for them, absolute; given if and only if `bad_records` says so.
        properties: To be remembered with every snapshot.
        evolution: What becomes of new columns of the source; None: an error where the format's reader notices them, and
            messages of Debezium are read without them.
        marks: Where the file's keys stand: line and column by a key's full name.
    """

    file: Path
    name: str
    table: str
    target: str | None
    source: FileSource | KafkaSource
    mode: Mode
    row_kind: RowKindSource | None
    interval_s: float | None
    checkpoint: Path
    bad_records: BadRecords
    dead_letters: Path | None
    properties: Mapping[str, str] = field(default_factory=dict)
    evolution: Evolution | None = None
    marks: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def places(self) -> KeyLocations:
        """For telling what is wrong with a key."""
        return KeyLocations(self.file, self.marks)

    @property
    def writer(self) -> str:
        """Under which name the pipeline commits; it never changes, so that a batch is applied once for ever."""
        return f"pipeline-{self.name}"

    @property
    def lease(self) -> str:
        """The lease that its one running instance holds."""
        return f"pipeline/{self.name}"
