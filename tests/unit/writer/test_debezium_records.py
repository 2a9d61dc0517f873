"""Messages of Debezium become rows of the table; those that do not are told with their place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.records.bad_records import BadRecord
from writer.kafka.values import read_debezium_values
from writer.pipeline.kafka_spec import RecordFormat

from .kafka_records import FIELDS, Case, change, show
from .topics import Topics


def test_changes_of_debezium(topics: Topics, tmp_path: Path) -> None:
    row = {"id": 1, "item": "tea", "price": "3.50", "of_the_database": True}
    topics.send(
        change("c", None, row), change("u", row, {**row, "item": "cup"}), change("d", {**row, "item": "cup"}, None),
        None, change("r", None, {"id": 2, "item": "pot"}),
    )  # fmt: skip
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True)
    rows, bad = case.read()
    assert bad == []
    assert show(rows) == [("+I", 1, "tea"), ("+U", 1, "cup"), ("-D", 1, "cup"), ("+I", 2, "pot")]
    assert str(rows[0]["price"]) == "3.50"
    # A table whose changelog is its input takes the old row as well.
    case.old_rows = True
    assert show(case.read()[0]) == [
        ("+I", 1, "tea"), ("-U", 1, "tea"), ("+U", 1, "cup"), ("-D", 1, "cup"), ("+I", 2, "pot"),
    ]  # fmt: skip


@pytest.mark.parametrize("old_rows", [False, True])
def test_an_update_of_the_key_deletes_the_old_row(topics: Topics, tmp_path: Path, old_rows: bool) -> None:
    """The table's key need not be the source's, of which Debezium itself makes a delete and an insert."""
    topics.send(
        change("c", None, {"id": 1, "item": "tea"}), change("u", {"id": 1, "item": "tea"}, {"id": 2, "item": "tea"}),
        change("u", {"item": "tea"}, {"id": 2, "item": "cup"}), change("u", None, {"id": 2, "item": "pot"}),
    )  # fmt: skip
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, old_rows=old_rows, stop=True).read(end=2)
    assert show(rows) == [("+I", 1, "tea"), ("-D", 1, "tea"), ("+I", 2, "tea")]
    assert bad == []
    if not old_rows:  # An old row of which the key is not known is none.
        rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON).read(start=2)
        assert (show(rows), bad) == ([("+U", 2, "cup"), ("+U", 2, "pot")], [])


@pytest.mark.parametrize("old_rows", [False, True])
def test_an_update_of_the_key_whose_old_or_new_row_does_not_fit_is_bad_as_a_whole(
    topics: Topics, tmp_path: Path, old_rows: bool
) -> None:
    """Half of it would be a state that the source never had; and each record has one letter."""
    row = {"id": 1, "shop": "a", "item": "tea"}
    topics.send(
        change("u", {**row, "shop": None}, {**row, "id": 2}),
        change("u", row, {**row, "id": 3, "item": None}),
        change("u", {**row, "shop": None}, {**row, "id": 4, "item": None}),
        change("u", row, {**row, "id": 5}),
        change("u", {"id": 5, "item": "tea"}, {**row, "id": 5, "item": "cup"}),
    )
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, old_rows=old_rows, key=("id", "shop"))
    case.fields = [
        FIELDS[0],
        pa.field("shop", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
    ]
    rows, bad = case.read()
    # The old row of the last one has not all of its key: nobody can say which row it is.
    assert show(rows) == [("-D", 1, "tea"), ("+I", 5, "tea"), ("+U", 5, "cup")]
    assert [(letter["offset"], letter["column"]) for letter in bad] == [(0, "shop"), (1, "item"), (2, "shop")]
    assert json.loads(bad[0]["raw"])["after"]["id"] == 2


def test_an_update_that_has_no_new_row_takes_nothing_away(topics: Topics, tmp_path: Path) -> None:
    """Its old row alone would be a delete that nobody has asked for."""
    row = {"id": 1, "item": "tea"}
    topics.send(change("u", row, None), change("u", row, {**row, "item": "cup"}))
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, old_rows=True).read()
    assert show(rows) == [("-U", 1, "tea"), ("+U", 1, "cup")]
    assert [letter["offset"] for letter in bad] == [0]


def test_debezium_without_old_rows(topics: Topics, tmp_path: Path) -> None:
    """As Postgres sends it by default: no old row of an update, of a delete the key alone."""
    topics.send(change("u", None, {"id": 1, "item": "cup"}), change("d", {"id": 1, "item": None}, None))
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, old_rows=True, ignore_unknown=True).read()
    assert show(rows) == [("+U", 1, "cup"), ("-D", 1, None)]
    assert bad == []


def test_a_delete_without_its_old_row_is_of_the_row_that_its_key_names(topics: Topics, tmp_path: Path) -> None:
    """As with REPLICA IDENTITY NOTHING, or where an SMT drops the old row."""
    said = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
    delete = change("d", None, None)
    topics.send(
        change("c", None, {"id": 1, "item": "tea"}), delete, delete, None, delete, delete, delete, delete,
        change("c", None, {"id": 7, "item": "pot"}),
        keys=[
            b'{"id": 1}', b'{"id": 1}', json.dumps({"schema": said, "payload": {"id": 2}}).encode(), b'{"id": 2}',
            b'{"item": "x"}', b'{"id": "x"}', b"nonsense", b"", b'{"id": 7}',
        ],
    )  # fmt: skip
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    assert show(rows) == [("+I", 1, "tea"), ("-D", 1, None), ("-D", 2, None), ("+I", 7, "pot")]
    assert [letter["offset"] for letter in bad] == [4, 5, 6, 7]
    assert all("neither an old row nor a key" in letter["reason"] for letter in bad)


def test_a_delete_of_a_table_without_a_key_needs_its_old_row() -> None:
    bad: list[BadRecord] = []
    found = read_debezium_values(
        pa.array([change("d", None, None)], pa.binary()),
        pa.array([b'{"id": 1}'], pa.binary()),
        np.array([5]),
        pa.schema([("id", pa.int64())]),
        key=pa.schema([]),
        deletes=np.zeros(1, np.bool_),
        time_unit=None,
        with_old_rows=False,
        report=bad.append,
    )
    assert found is None
    assert [each.line for each in bad] == [5]


def test_debezium_with_its_schema(topics: Topics, tmp_path: Path) -> None:
    fields = [{"field": "id", "type": "int64"}, {"field": "at", "name": "io.debezium.time.Timestamp", "type": "int64"}]
    schema = {"fields": [{"field": "before", "fields": fields}, {"field": "after", "fields": fields}]}
    payload = {"before": None, "after": {"id": 1, "at": 1_767_225_600_000}, "op": "c"}
    topics.send(json.dumps({"schema": schema, "payload": payload}).encode())
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    assert bad == []
    assert rows[0]["at"].isoformat() == "2026-01-01T00:00:00+00:00"


def test_numbers_of_time_without_a_schema_need_their_unit(topics: Topics, tmp_path: Path) -> None:
    topics.send(change("c", None, {"id": 1, "at": 1_767_225_600_000}))
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True)
    bad = case.read()[1]
    assert [letter["offset"] for letter in bad] == [0]
    assert "has 1767225600000, but needs TIMESTAMP" in bad[0]["reason"]
    assert "source.time_unit" in bad[0]["reason"]
    case.time_unit = "ms"
    rows, _ = case.read()
    assert rows[0]["at"].isoformat() == "2026-01-01T00:00:00+00:00"


def test_messages_that_are_none_of_debezium(topics: Topics, tmp_path: Path) -> None:
    topics.send(
        b"nonsense", change("x", None, {"id": 1}), change("d", None, None), change("c", None, {"id": "x"}),
        change("c", None, {"item": "no key"}), change("c", None, {"id": 5}),
    )  # fmt: skip
    rows, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    assert show(rows) == [("+I", 5, None)]
    assert [letter["offset"] for letter in bad] == [0, 1, 2, 3, 4]
    assert "REPLICA IDENTITY" in bad[2]["reason"]
    assert bad[0]["raw"] == "nonsense"
    assert [letter["column"] for letter in bad[:4]] == [None, None, None, "id"]
    assert all("no message of Debezium" in letter["reason"] for letter in bad[:2])
    assert bad[3]["reason"] == "column 'id' has \"x\", but needs BIGINT"


def test_the_column_of_a_message_that_does_not_fit_is_reported(topics: Topics, tmp_path: Path) -> None:
    wrapped = json.dumps({"payload": {"op": "u", "before": None, "after": {"id": 1, "item": 7}}}).encode()
    deep = b'{"op":"c","after":{"id":' + b"[" * 5000 + b"]" * 5000 + b"}}"
    topics.send(
        wrapped, change("u", {"id": "y" * 200}, {"id": 1}), b'{"op":"c","after":{"id":1,"item":"\xff"}}', deep,
        b'{"op":"c","after":{"id":2.5}}', b"", b"[]",
    )  # fmt: skip
    _, bad = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, ignore_unknown=True).read()
    reported = {letter["offset"]: (letter["column"], letter["reason"]) for letter in bad}
    assert reported[0] == ("item", "column 'item' has 7, but needs STRING")
    assert reported[2][0] is None
    assert reported[3][0] in (None, "id")
    assert reported[4] == ("id", "column 'id' has 2.5, but needs BIGINT")
    assert {reported[offset][0] for offset in (5, 6)} == {None}


@pytest.mark.parametrize("with_schema", [False, True])
def test_a_column_that_the_new_row_leaves_out_is_refused(topics: Topics, tmp_path: Path, with_schema: bool) -> None:
    """An old row, and the row of a delete, may leave columns out: they take away by their key."""
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, fill_missing=False, old_rows=True, fields=FIELDS[:3])
    whole = {"id": 1, "item": None, "price": None}
    messages = [
        change("c", None, whole),
        change("u", {"id": 1}, {"id": 1, "item": "price"}),
        change("u", {"id": 1}, whole),
        change("d", {"id": 1}, None),
    ]
    if with_schema:
        messages = [b'{"schema": null, "payload": %s}' % message for message in messages]
    topics.send(*messages)
    rows, bad = case.read()
    assert [(row["_row_kind"], row["id"]) for row in rows] == [("+I", 1), ("-U", 1), ("+U", 1), ("-D", 1)]
    assert [letter["column"] for letter in bad] == ["price"]


@pytest.mark.parametrize("with_schema", [False, True])
def test_a_delete_whose_old_row_leaves_its_sequence_out_is_refused(
    topics: Topics, tmp_path: Path, with_schema: bool
) -> None:
    case = Case(topics, tmp_path, RecordFormat.DEBEZIUM_JSON, fields=FIELDS[:3], sequence=("price",))
    messages = [
        change("d", {"id": 1}, None),
        change("d", {"id": 2, "price": "1.5"}, None),
        change("d", {"id": 3, "price": None}, None),
        # Another key: the old row is deleted, and the record is one.
        change("u", {"id": 4}, {"id": 5, "item": "a", "price": "2"}),
        change("u", {"id": 6, "price": "1"}, {"id": 7, "item": "a", "price": "2"}),
    ]
    if with_schema:
        messages = [b'{"schema": null, "payload": %s}' % message for message in messages]
    topics.send(*messages)
    rows, bad = case.read()
    assert [(row["_row_kind"], row["id"]) for row in rows] == [("-D", 2), ("-D", 3), ("-D", 6), ("+I", 7)]
    assert [(letter["offset"], letter["column"]) for letter in bad] == [(0, "price"), (3, "price")]
