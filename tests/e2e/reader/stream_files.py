"""Files that say which stream goes where."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


def write_stream(folder: Path, name: str, table: str, sink: str, more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(
        f"name: {name}\nsource:\n  table: {table}\n  options: {{maxRowsPerTrigger: 40}}\nsink: {sink}\n"
        f"checkpoint: ../state/{name}\n{more}"
    )
    return file
