from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.format.tables.table import TableName
from tests.unit.cli.fakes import FakeCatalog, FakeMetastore, FakeTable, Lake


@pytest.fixture
def lake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lake:
    for name in ("LAKELOG_TARGET", "LAKELOG_TOKEN", "LAKELOG_OUTPUT", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    rows = pa.table({"id": pa.array(range(30), pa.int64()), "item": [f"item {i}" for i in range(30)]})
    metastore = FakeMetastore()
    metastore.create_database("shop", comment="what we sell")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string())])
    metastore.create_table(TableName("shop", "orders"), schema, primary_key=["id"], options={"bucket": "2"})

    def capture() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    return Lake(FakeCatalog(metastore, FakeTable(rows)), capture)
