"""The two inputs of `lakelog.testing.log_history`: a plain consumer's recording, and the table itself."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakelog.format.tables.snapshot import LogContent
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.sdk.tables.table import Table
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN
from lakelog.system_tables.metadata.listings import list_snapshots
from lakelog.testing.log_history import (
    RECORDS_SCHEMA,
    ROWS_SCHEMA,
    SNAPSHOTS_SCHEMA,
    STATE_SCHEMA,
    LogFinding,
    check_log,
)

LogFormat = Literal["debezium-json", "json"]

LINES_SCHEMA: Final = pa.schema(
    [
        *(field for field in RECORDS_SCHEMA if field.name != "row"),
        ("attempt", pa.string()),
        ("sequence", pa.string()),
        ("value", pa.string()),
    ]
)
"""What a plain consumer records of each record."""

_STOP_S: Final = 30.0
_BLOCK_BYTES: Final = 64 << 20
"""No record is larger than this: topics accept a megabyte."""


class Recorder:
    """A process that reads a topic from its beginning, knows nothing of lakelog, and records what it sees.

    Args:
        bootstrap_servers: The brokers.
        topic: The topic; it may be created later.
        out: The file of JSON lines to write; see `lakelog.testing.plain_consumer`.
    """

    def __init__(self, bootstrap_servers: str, topic: str, out: str | os.PathLike[str]) -> None:
        self.out: Final = Path(out)
        program = Path(__file__).with_name("plain_consumer.py")
        arguments = ["--bootstrap-servers", bootstrap_servers, "--topic", topic, "--out", str(self.out)]
        self._process = subprocess.Popen([sys.executable, "-I", str(program), *arguments])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> Path:
        """Lets it read up to the present end, waits for that, and returns its file.

        Raises:
            AssertionError: It failed, or did not reach the end.
        """
        self._process.terminate()
        code = self._process.wait(_STOP_S)
        assert code == 0, f"the consumer ended with {code}"
        return self.out


@dataclass(frozen=True)
class TableSide:
    """The table's own data: `SNAPSHOTS_SCHEMA`, `ROWS_SCHEMA`, `STATE_SCHEMA`."""

    snapshots: pa.Table
    rows: pa.Table
    state: pa.Table


def read_recording(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    primary_key: Sequence[str],
    *,
    row: Sequence[str],
    log_format: LogFormat = "debezium-json",
) -> pa.Table:
    """Reads a plain consumer's recording.

    Args:
        path: The file of JSON lines; an incomplete last line, of a killed consumer, is left out.
        schema: The table's schema.
        primary_key: The table's primary key; empty for an append table.
        row: The columns that identify a row: integers, strings and booleans.
        log_format: The format of the values.

    Returns:
        As `RECORDS_SCHEMA`.
    """
    written = Path(path).read_bytes()
    lines = _read_json(written[: written.rfind(b"\n") + 1], LINES_SCHEMA)
    return to_records(lines, schema, primary_key, row=row, log_format=log_format)


def to_records(
    lines: pa.Table,
    schema: pa.Schema,
    primary_key: Sequence[str],
    *,
    row: Sequence[str],
    log_format: LogFormat = "debezium-json",
) -> pa.Table:
    """Decodes the keys and values of a recording; see `read_recording`. Pure.

    Args:
        lines: As `LINES_SCHEMA`.
        schema: The table's schema.
        primary_key: The table's primary key; empty for an append table.
        row: The columns that identify a row.
        log_format: The format of the values.

    Returns:
        As `RECORDS_SCHEMA`.
    """
    types = {field.name: _to_json_type(field.type) for field in schema}
    if log_format == "json":
        rows = _read_texts(lines["value"], types, row)
    else:
        message = pa.schema([("after", pa.struct([(name, types[name]) for name in row]))])
        after = _read_json(_join_lines(lines["value"]), message)["after"]
        rows = _join_columns([pc.struct_field(after, name) for name in row])
    columns = {**dict(zip(lines.column_names, lines.columns, strict=True)), "row": rows}
    columns["key"] = _read_texts(lines["key"], types, primary_key)
    return pa.table([columns[name] for name in RECORDS_SCHEMA.names], schema=RECORDS_SCHEMA)


def load_table_side(table: Table, *, row: Sequence[str], whole_rows: int) -> TableSide:
    """Loads a table's snapshots that bring rows to its log, these rows from its files, and its state.

    Args:
        table: The table; none of its snapshots may have expired.
        row: As in `read_recording`.
        whole_rows: A snapshot with at most so many rows is published in one transaction.
    """
    listed = [
        each for each in list_snapshots(table._context.metastore, table.uuid, None) if each.log is not LogContent.NONE
    ]
    snapshots = pa.table(
        [
            [each.snapshot_id for each in listed],
            [each.snapshot_uuid for each in listed],
            [each.committed_at_ms for each in listed],
            [each.added_rows <= whole_rows for each in listed],
        ],
        schema=SNAPSHOTS_SCHEMA,
    )
    changes = table.changes(0, raw=True).to_arrow()
    changes = changes.filter(pc.is_in(changes[SNAPSHOT_ID_COLUMN], value_set=snapshots["snapshot"].combine_chunks()))
    if ROW_KIND_COLUMN not in changes.column_names:
        changes = changes.append_column(ROW_KIND_COLUMN, pa.repeat("+I", changes.num_rows))
    rows = [changes[SNAPSHOT_ID_COLUMN], changes[ROW_KIND_COLUMN], *_to_rows(changes, table, row)]
    state = _to_rows(table.scan().to_arrow(), table, row)
    return TableSide(
        snapshots, pa.table(rows, names=ROWS_SCHEMA.names).cast(ROWS_SCHEMA), pa.table(state, schema=STATE_SCHEMA)
    )


def check_recording(
    path: str | os.PathLike[str],
    table: Table,
    *,
    row: Sequence[str],
    whole_rows: int,
    log_format: LogFormat = "debezium-json",
    published_until: int | None = None,
) -> list[LogFinding]:
    """Compares a plain consumer's recording with the table as it is; see `check_log`."""
    side = load_table_side(table, row=row, whole_rows=whole_rows)
    return check_log(
        read_recording(path, table.schema, table.primary_key, row=row, log_format=log_format),
        side.snapshots,
        side.rows,
        state=side.state if published_until is None else None,
        published_until=published_until,
        rows_are_merged=bool(table.primary_key),
    )


def _read_json(lines: bytes, schema: pa.Schema) -> pa.Table:
    if not lines:
        return schema.empty_table()
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pj.read_json(io.BytesIO(lines), pj.ReadOptions(block_size=_BLOCK_BYTES), parse)


def _join_lines(texts: pa.ChunkedArray) -> bytes:
    """One JSON text for each line; an empty object stands for NULL."""
    return ("\n".join(pc.fill_null(texts, "{}").to_pylist()) + "\n").encode() if len(texts) else b""


def _read_texts(texts: pa.ChunkedArray, types: Mapping[str, pa.DataType], names: Sequence[str]) -> pa.ChunkedArray:
    """Columns of JSON objects as one text each; NULL if there is no object, or no column."""
    if not names:
        return pa.nulls(len(texts), pa.string())
    parsed = _read_json(_join_lines(texts), pa.schema([(name, types[name]) for name in names]))
    joined = _join_columns(_pick(parsed, names))
    return pc.if_else(pc.is_valid(texts), joined, pa.scalar(None, pa.string()))


def _to_json_type(column: pa.DataType) -> pa.DataType:
    """The type of a column's values in JSON."""
    if pa.types.is_integer(column):
        return pa.int64()
    return column if pa.types.is_boolean(column) else pa.string()


def _to_rows(rows: pa.Table, table: Table, row: Sequence[str]) -> list[pa.ChunkedArray]:
    """The keys and identifying texts of rows."""
    keys = [_join_columns(_pick(rows, table.primary_key)) if table.primary_key else pa.nulls(len(rows), pa.string())]
    return [*keys, _join_columns(_pick(rows, row))]


def _pick(table: pa.Table, names: Sequence[str]) -> list[pa.ChunkedArray]:
    return [table[name] for name in names]


def _join_columns(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One text for each row; NULL if all of its columns are NULL."""
    texts = [column.cast(pa.string()) for column in columns]
    if len(texts) == 1:
        return texts[0]
    is_null = [pc.is_null(text) for text in texts]
    joined = pc.binary_join_element_wise(*(pc.fill_null(text, "NULL") for text in texts), "|")
    for all_null in is_null[1:]:
        is_null[0] = pc.and_(is_null[0], all_null)
    return pc.if_else(is_null[0], pa.scalar(None, pa.string()), joined)
