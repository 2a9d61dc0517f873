"""What a plain consumer wrote down, read as columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.testing.log_history import RECORDS_SCHEMA
from lakelog.testing.log_recording import read_recording

SCHEMA = pa.schema([("id", pa.int32()), ("shop", pa.string()), ("v", pa.string()), ("price", pa.decimal128(9, 2))])


def line(offset: int, key: str | None, value: Any, **other: Any) -> str:
    text = value if isinstance(value, str) or value is None else json.dumps(value)
    headers = {"snapshot": 1, "idx": offset, "uuid": "u1", "kind": "+I", "attempt": None, "sequence": None}
    times = {"appended_ms": 1001, "seen_ms": 1002}
    record = {"partition": 0, "offset": offset, **times, **headers, "key": key, "value": text}
    return json.dumps(record | other) + "\n"


def read(path: Path, *lines: str, **how: Any) -> list[dict[str, Any]]:
    path.write_text("".join(lines))
    records = read_recording(path, SCHEMA, how.pop("primary_key", ("id", "shop")), **how)
    assert records.schema == RECORDS_SCHEMA
    return records.to_pylist()


def test_debezium_messages_have_their_row_in_after(tmp_path: Path) -> None:
    key = '{"id": 7, "shop": "x"}'
    image = {"id": 7, "shop": "x", "v": "a\nb", "price": "1.50"}
    created = line(0, key, {"before": None, "after": image, "source": {"table": "t"}, "op": "c"})
    deleted = line(1, key, {"before": image, "after": None, "op": "d"}, kind="-D")
    tombstone = line(3, key, None, kind="-D", idx=2)
    first, second, third = read(tmp_path / "seen", created, deleted, tombstone, row=["v"])
    assert (first["key"], first["row"], first["offset"], first["snapshot"]) == ("7|x", "a\nb", 0, 1)
    assert (second["key"], second["row"], second["kind"]) == ("7|x", None, "-D")
    assert (third["key"], third["row"], third["idx"]) == ("7|x", None, 2)


def test_values_in_json_are_rows(tmp_path: Path) -> None:
    lines = [line(0, None, {"id": 7, "shop": None, "v": "2026-01-01", "price": "1.50"}), line(1, None, {"id": 8})]
    first, second = read(tmp_path / "seen", *lines, row=["id", "shop", "v"], primary_key=(), log_format="json")
    assert (first["key"], first["row"]) == (None, "7|NULL|2026-01-01")
    assert second["row"] == "8|NULL|NULL"


def test_records_of_others_have_no_headers(tmp_path: Path) -> None:
    (record,) = read(
        tmp_path / "seen", line(0, None, {"after": None}, snapshot=None, uuid=None, idx=None, kind=None), row=["v"]
    )
    assert [record[name] for name in ("snapshot", "uuid", "idx", "kind", "key", "row")] == [None] * 6


@pytest.mark.parametrize("lines", [(), (line(0, None, {"after": {"v": "x"}})[:-1],)], ids=["nothing", "half a line"])
def test_what_is_not_whole_is_left_out(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert read(tmp_path / "seen", *lines, row=["v"]) == []
