"""`lakelog insert`: files of each format on their way to the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.format.tables.table import TableName
from tests.unit.cli.fakes import Lake


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('id,item\n1,tea\n2,\n3,""\n', "orders.csv", ()),
        ('{"id": 1, "item": "tea"}\n{"id": 2, "item": null}\n{"id": 3, "item": ""}\n', "orders.jsonl", ()),
        ('id,item\n1,tea\n2,\n3,""\n', "orders.txt", ("--format", "csv")),
    ],
)
def test_insert_reads_texts_with_the_tables_types(
    lake: Lake, tmp_path: Path, text: str, name: str, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / name
    file.write_text(text)
    done = lake.run("insert", "shop.orders", str(file), *arguments)
    assert (done.code, done.out) == (0, "Upserted 3 rows: shop.orders is at snapshot 8.\n")
    assert lake.table.written is not None
    assert lake.table.written.to_pylist() == [{"id": 1, "item": "tea"}, {"id": 2, "item": None}, {"id": 3, "item": ""}]
    assert lake.table.calls == [
        {
            "mode": "upsert",
            "writer": None,
            "identifier": None,
            "if_snapshot": None,
            "if_unchanged": None,
            "fill_missing": False,
        }
    ]


def test_insert_takes_no_word_of_a_csv_file_for_null(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "countries.csv"
    words = ["NA", "null", "NaN", "N/A", "-", "#N/A"]
    file.write_text("id,item\n" + "".join(f"{place},{word}\n" for place, word in enumerate(words)))
    assert lake.run("insert", "shop.orders", str(file)).code == 0
    assert lake.table.written is not None
    assert lake.table.written["item"].to_pylist() == words


def test_a_damaged_file_is_named(lake: Lake, tmp_path: Path) -> None:
    for name in ("bad.parquet", "bad.arrow"):
        bad = tmp_path / name
        bad.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
        refused = lake.run("insert", "shop.orders", str(bad))
        assert (refused.code, refused.err.startswith(f"Error: {bad} cannot be read as")) == (2, True), refused.err


def test_insert_refuses_what_it_cannot_read(lake: Lake, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("id,item\nseven,tea\n")
    refused = lake.run("insert", "shop.orders", str(bad))
    assert refused.code == 2
    assert refused.err == f"Error: {bad}, line 2: column 'id' has 'seven', but needs a whole number (BIGINT).\n"
    empty = tmp_path / "empty.csv"
    empty.touch()
    assert lake.run("insert", "shop.orders", str(empty)).code == 2
    lines = tmp_path / "lines.json"
    lines.write_text('{"id": 1, "item": null}\n{"id": "x", "item": null}\n')
    refused = lake.run("insert", "shop.orders", str(lines))
    assert refused.err == f"Error: {lines}, line 2: column 'id' has 'x', but needs a whole number (BIGINT).\n"
    lines.write_text('{"id": 1, "item": null}\n{"id": 2}\n')
    refused = lake.run("insert", "shop.orders", str(lines))
    assert refused.err == (
        f"Error: {lines}, line 2: it leaves out item; name every column, or add --fill-missing for NULL.\n"
    )
    assert lake.run("insert", "shop.orders", str(lines), "--fill-missing").code == 0
    missing = lake.run("insert", "shop.orders", str(tmp_path / "none.csv"))
    assert (missing.code, "There is no file" in missing.err) == (3, True)
    unknown = lake.run("insert", "shop.orders", str(tmp_path / "orders.xlsx"))
    assert (unknown.code, "--format csv|parquet|json|arrow" in unknown.err) == (2, True)
    alone = lake.run("insert", "shop.orders", str(bad), "--writer", "me")
    assert (alone.code, "give both or none" in alone.err) == (2, True)


@pytest.mark.parametrize(("kind_column", "mode"), [("_row_kind", "write"), ("op", "upsert"), ("op", "write")])
def test_a_delete_in_json_needs_its_key_and_its_sequence(
    lake: Lake, tmp_path: Path, kind_column: str, mode: str
) -> None:
    fields = [pa.field("id", pa.int64(), nullable=False), ("seq", pa.int64()), ("item", pa.string())]
    options = {"sequence.field": "seq"}
    if kind_column == "op":
        fields.append(("op", pa.string()))
        options["rowkind.field"] = "op"
    lake.metastore.create_table(TableName("shop", "kinds"), pa.schema(fields), primary_key=["id"], options=options)
    file = tmp_path / "rows.jsonl"
    arguments = ("insert", "shop.kinds", str(file), "--mode", mode)
    file.write_text(f'{{"id": 1, "seq": 2, "{kind_column}": "-D"}}\n')
    assert lake.run(*arguments).code == 0
    assert lake.table.written is not None
    assert lake.table.written.schema.names == ["id", "seq", "item", kind_column]
    for line, missing in (('"id": 1, "{}": "-D"', "seq"), ('"id": 1, "seq": 2, "{}": "+U"', "item")):
        file.write_text(f"{{{line.format(kind_column)}}}\n")
        refused = lake.run(*arguments)
        assert (refused.code, f"line 1: it leaves out {missing};" in refused.err) == (2, True), refused.err


def test_latest_is_for_deletes(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "keys.csv"
    file.write_text("id\n1\n")
    refused = lake.run("insert", "shop.orders", str(file), "--latest")
    assert refused.code == 2
    assert "--latest is for --mode delete, and the mode is upsert" in refused.err
    done = lake.run("insert", "shop.orders", str(file), "--mode", "delete", "--latest", "--if-snapshot", "7")
    assert done.code == 0
    (call,) = lake.table.calls
    assert (call["mode"], call["latest"], call["if_snapshot"]) == ("delete", True, 7)
