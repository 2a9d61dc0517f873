from __future__ import annotations

import uuid
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict, DataCorrupted, NotFound
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import open_store
from tests.integration.s3.tables import open_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture
def warehouse() -> str:
    return f"s3://lake/{uuid.uuid4().hex}/"


@pytest.fixture
def catalog(s3_settings: S3Settings, warehouse: str) -> Iterator[Catalog]:
    with open_catalog(s3_settings, warehouse) as catalog:
        yield catalog


def test_tables_on_s3_are_written_merged_and_read_back(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"], options={"bucket": "2"})
    ids = np.arange(20_000)
    table.upsert(pa.table({"id": ids, "v": [f"first {n}" for n in ids]}))
    table.upsert(pa.table({"id": ids[::2], "v": [f"second {n}" for n in ids[::2]]}))
    table.delete(pa.table({"id": ids[:100]}))
    found = table.scan().to_arrow().sort_by("id")
    assert found.column("id").to_pylist() == ids[100:].tolist()
    assert found.column("v").to_pylist() == [f"{'first' if n % 2 else 'second'} {n}" for n in ids[100:]]
    assert table.scan(snapshot_id=1).count() == 20_000
    assert table.scan(filter="id = 777").to_arrow().to_pylist() == [{"id": 777, "v": "first 777"}]


def test_queries_read_files_on_s3(catalog: Catalog, warehouse: str) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    for number in range(3):
        table.append(pa.table({"id": [number], "v": ["x"]}))
    for path in (f"{warehouse}**/*.parquet", warehouse):
        # The files of the first copy stay for a while.
        query = f"SELECT DISTINCT id, v FROM read_parquet('{path}') WHERE id > 0"
        assert catalog.sql(f"CREATE TABLE shop.copy AS {query}").snapshot_id == 1
        assert catalog.table("shop.copy").scan().count() == 2
        catalog.drop_table("shop.copy")
    one = table.files()["path"][0].as_py()
    location = table.info.location
    found = catalog.sql(f"SELECT count(*) AS n FROM read_parquet('{location}{one}')").rows
    assert found is not None
    assert found.to_pydict() == {"n": [1]}
    with pytest.raises(NotFound, match="There is no file"):
        catalog.sql(f"SELECT * FROM read_parquet('{warehouse}*.parquet')")


def test_a_repeated_or_refused_commit_leaves_no_object_behind(
    catalog: Catalog, s3_settings: S3Settings, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    rows = pa.table({"id": [1], "v": ["x"]})
    table.append(rows, writer="w", identifier=1)
    assert table.append(rows, writer="w", identifier=1).already_applied

    def refuse(request: CommitRequest) -> CommitResult:
        raise CommitConflict("somebody was faster")

    monkeypatch.setattr(catalog.metastore, "commit", refuse)
    with pytest.raises(CommitConflict):
        table.append(rows)
    objects = [found.path for found in open_store(table.location, s3_settings).list_objects()]
    assert objects == table.files().column("path").to_pylist()


def test_an_object_that_is_gone_is_named(catalog: Catalog, s3_settings: S3Settings) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(pa.table({"id": [1], "v": ["x"]}))
    (path,) = table.files().column("path").to_pylist()
    open_store(table.location, s3_settings).delete(path)
    with pytest.raises(DataCorrupted, match=path):
        table.scan().to_arrow()
