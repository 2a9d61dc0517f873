"""A source file and how it is read, for the tests of records."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.records.text_options import TextOptions
from writer.files.tasks import TakenFile
from writer.pipeline.columns import ColumnSource
from writer.pipeline.spec import Format, Mode, RowKindSource
from writer.records.coercion import Coercion
from writer.records.tasks import ReadTask, read_file

UTC = dt.UTC
FIELDS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.string()),
    pa.field("price", pa.decimal128(8, 2)),
    pa.field("day", pa.date32()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("local", pa.timestamp("us")),
    pa.field("ok", pa.bool_()),
    pa.field("ratio", pa.float64()),
    pa.field("small", pa.int8()),
]


@dataclass
class Case:
    """A file, and how it is read."""

    folder: Path
    format: Format
    text: TextOptions = field(default_factory=TextOptions)
    columns: Mapping[str, ColumnSource] = field(default_factory=dict)
    row_kind: RowKindSource | None = None
    mode: Mode = Mode.UPSERT
    key: tuple[str, ...] = ("id",)
    ignore_unknown: bool = False
    fill_missing: bool = True
    stop: bool = False
    fields: list[pa.Field] = field(default_factory=lambda: FIELDS)
    sequence: tuple[str, ...] = ()

    def read(self, data: bytes, name: str = "file") -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows without their NULLs, and dead letters."""
        path = self.folder / name
        path.write_bytes(data)
        status = path.stat()
        schema = TableSchema(0, assign_field_ids(pa.schema(self.fields)), self.key)
        coercion = Coercion(
            schema,
            self.mode,
            self.columns,
            self.row_kind,
            None,
            self.ignore_unknown,
            self.fill_missing,
            self.text,
            self.sequence,
        )
        letters = self.folder / "letters"
        task = ReadTask("p", 3, self.folder, self.format, coercion, None if self.stop else letters)
        file = TakenFile(3, 4, name, status.st_size, status.st_mtime_ns // 1000)
        rows = []
        for batch in read_file(task, file):
            assert batch.schema == coercion.output
            rows += batch.to_pylist()
        bad = letters / "p-0000000003-000004.jsonl"
        lines = bad.read_text().splitlines() if bad.exists() else []
        return [{k: v for k, v in row.items() if v is not None} for row in rows], [json.loads(line) for line in lines]


def places(letters: list[dict[str, Any]]) -> list[tuple[int | None, str | None]]:
    return [(letter["line"], letter["column"]) for letter in letters]
