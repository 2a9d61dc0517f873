"""Files of a table that are damaged, shortened, replaced or gone: the right rows, or an error that names the file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import DataCorrupted, LakelogError
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
ROWS = pa.table({"id": range(500), "name": [f"name {n}" for n in range(500)]}, schema=SCHEMA)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Two overlapping files of one bucket, so that merging reads them too."""
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"])
    table.upsert(ROWS)
    table.upsert(ROWS.slice(100, 50))
    return table


def paths(table: Table) -> list[Path]:
    folder = Path(table.location.removeprefix("file://"))
    return [folder / path for path in table.files().column("path").to_pylist()]


def read(catalog: Catalog) -> pa.Table:
    # A handle of its own: what was cached of the sound files does not count.
    return catalog.table("shop.t").scan().to_arrow().sort_by("id")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def fill_with_text(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def claim_a_huge_footer(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-8:-4] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)


def replace_by_another_form(path: Path) -> None:
    pq.write_table(pa.table({"other": list(range(500))}), path)


def replace_by_fewer_rows(path: Path) -> None:
    pq.write_table(ROWS.slice(0, 3), path)


@pytest.mark.parametrize(
    "damage",
    [cut, empty, fill_with_text, claim_a_huge_footer, replace_by_another_form, replace_by_fewer_rows, Path.unlink],
)
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_file_is_named(catalog: Catalog, table: Table, damage: Callable[[Path], None], which: int) -> None:
    path = paths(table)[which]
    damage(path)
    with pytest.raises(DataCorrupted) as caught:
        read(catalog)
    assert path.name in str(caught.value)


def test_the_file_of_another_table_is_named(catalog: Catalog, table: Table) -> None:
    other = catalog.create_table("shop.other", pa.schema([("x", pa.float64())]))
    other.append(pa.table({"x": [1.0] * 500}))
    path = paths(table)[0]
    shutil.copy(paths(other)[0], path)
    with pytest.raises(DataCorrupted, match=path.name):
        read(catalog)


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "control"])
def test_files_of_one_size_and_form_in_each_others_place_are_named(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"], options={"file.compression": "none"})
    for rows in (ROWS.slice(100, 100), ROWS.slice(200, 100)):
        table.upsert(rows)
    one, other = paths(table)
    assert one.stat().st_size == other.stat().st_size
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    if checked:
        with pytest.raises(
            DataCorrupted, match=f"{one.name} is damaged: it is the file data/{other.parent.name}/"
        ) as error:
            read(catalog)
        assert error.value.reason == "FILE_SWAPPED"
        one.write_bytes(kept)
        assert read(catalog) == ROWS.slice(100, 200)
    else:
        monkeypatch.setattr("lakelog.storage.parquet.reader.PATH_KEY", "another key")
        assert read(catalog).column("id").to_pylist()[0] == 200, "rows of one file for those of the other"


def test_flipped_bytes_give_the_right_rows_or_an_error_that_names_the_file(catalog: Catalog, table: Table) -> None:
    dice = random.Random(3)
    path = paths(table)[0]
    sound = path.read_bytes()
    right = read(catalog)
    refused = 0
    for _ in range(60):
        data = bytearray(sound)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        try:
            assert read(catalog).equals(right)
        except LakelogError as error:
            assert isinstance(error, DataCorrupted), error  # noqa: PT017
            assert path.name in str(error)  # noqa: PT017
            refused += 1
    assert refused > 0
    path.write_bytes(sound)
    assert read(catalog).equals(right)
