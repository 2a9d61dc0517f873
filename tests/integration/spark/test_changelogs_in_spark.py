"""Tables whose commits bring their changelog, read by Spark: it is shown as it stands (semantics 3.4, 3.5)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.tables.table import Table
from lakelog.spark.stream import keyed_splits
from tests.integration.spark.spark_tables import MakeTable
from tests.support.random_tables.history import sorted_rows
from tests.support.spark.driven_stream import STREAMED, emitted, flat, put, read_driven, stream_of

Emitted = tuple[Any, ...]

FIRST: list[Emitted] = [(1, "+I", 1, "a"), (1, "+I", 4, "d")]
SECOND: dict[str, list[Emitted]] = {
    "input": [(2, "+U", 1, "A"), (2, "+I", 1, "B"), (2, "-D", 4, None), (2, "-D", 9, None)],
    "lookup": [(2, "-U", 1, "a"), (2, "+U", 1, "B"), (2, "-D", 4, "d")],
}
THIRD: dict[str, list[Emitted]] = {
    "input": [(3, "+I", 1, "B")],
    # It says that somebody wrote the row, which two equal states do not.
    "lookup": [(3, "-U", 1, "B"), (3, "+U", 1, "B")],
}


def write(table: Table, *records: tuple[str, int, str | None]) -> None:
    kinds = pa.array([kind for kind, _, _ in records])
    table.write(pa.table({"_row_kind": kinds, "k": [k for _, k, _ in records], "v": [v for _, _, v in records]}))


def make_changed(make_table: MakeTable, producer: str) -> Table:
    table = make_table(STREAMED, ("k",), options={"bucket": "2", "changelog-producer": producer})
    table.upsert(put((1, "a"), (4, "d")))
    write(table, ("+U", 1, "A"), ("-D", 4, None), ("+I", 1, "B"), ("-D", 9, None))
    table.upsert(put((1, "B")))
    return table


def forbid_states(*arguments: object) -> None:
    raise AssertionError("a state was asked for")


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_a_changelog_is_shown_as_it_stands(
    stack: EmbeddedStack, make_table: MakeTable, producer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_changed(make_table, producer)
    # Control: without a changelog states are asked for; see the next test.
    monkeypatch.setattr(keyed_splits, "request_state", forbid_states)
    wanted = [*FIRST, *SECOND[producer], *THIRD[producer]]
    for limits in ({}, {"maxRowsPerTrigger": "1"}):
        stream = stream_of(stack, table, scan__snapshot_id="1", **limits)
        batches = stream.run()
        assert len(batches) == (3 if limits else 1)
        assert flat(batches) == emitted(_as_rows(wanted))
    for mode in ("changelog", "auto"):
        options = {"incremental-between": "1,3", "incremental-between-scan-mode": mode}
        found = read_driven(stack.target, table.name, options | {"metadata-columns": "_snapshot_id"})
        assert emitted(found) == emitted(_as_rows(wanted[2:]))
        assert sorted_rows(read_driven(stack.target, table.name, options)) == sorted_rows(
            table.scan(options=options).to_arrow().to_pylist()
        )


def test_states_are_asked_for_where_there_is_no_changelog(
    stack: EmbeddedStack, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_changed(make_table, "none")
    options = {"incremental-between": "1,3", "incremental-between-scan-mode": "changelog"}
    assert len(read_driven(stack.target, table.name, options)) == 3
    monkeypatch.setattr(keyed_splits, "request_state", forbid_states)
    with pytest.raises(AssertionError, match="a state was asked for"):
        read_driven(stack.target, table.name, options)


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_what_was_written_is_shown_on_request(stack: EmbeddedStack, make_table: MakeTable, producer: str) -> None:
    table = make_changed(make_table, producer)
    stream = stream_of(stack, table, scan__snapshot_id="2", scan__remove_normalize="true")
    # The last row a key of each commit.
    written = [(2, "+I", 1, "B"), (2, "-D", 4, None), (2, "-D", 9, None), (3, "+I", 1, "B")]
    assert flat(stream.run()) == emitted(_as_rows(written))
    delta = read_driven(stack.target, table.name, {"incremental-between": "1,3"})
    assert delta == [{"k": 1, "v": "B"}] * 2


def test_a_range_may_hold_snapshots_of_both_sorts(stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_table(STREAMED, ("k",), options={"bucket": "2"})
    for number, producer in enumerate(("none", "lookup", "none", "none", "input", "none")):
        table.alter(set={"changelog-producer": producer})
        table.upsert(put((1, str(number)), (2, "same")))
    table.alter(set={"changelog-producer": "lookup"})
    table.overwrite(put((1, "over")))
    table.upsert(put((1, "end")))
    rows = table.changes(columns=["k", "v", "_row_kind", "_snapshot_id"]).to_arrow().to_pylist()
    wanted = emitted(rows)
    stream = stream_of(stack, table, scan__snapshot_id="1")
    (batch,) = stream.run()
    assert emitted(batch) == wanted
    for task in stream.show_tasks(0):
        ids = [row["_snapshot_id"] for row in task]
        assert ids == sorted(ids), "a bucket's changes come in the order of the snapshots"
    by_snapshot = stream_of(stack, table, scan__snapshot_id="1", maxRowsPerTrigger="1").run()
    assert flat(by_snapshot) == wanted
    for first in range(1, 9):
        later = stream_of(stack, table, scan__snapshot_id=str(first)).run()
        assert flat(later) == [each for each in wanted if each[0] >= first]
    table.alter(set={"streaming-read-overwrite": "true"})
    shown = table.changes(columns=["k", "v", "_row_kind", "_snapshot_id"]).to_arrow().to_pylist()
    assert {row["_row_kind"] for row in shown if row["_snapshot_id"] == 7} == {"-D", "-U", "+U"}
    assert flat(stream_of(stack, table, scan__snapshot_id="1").run()) == emitted(shown)


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_columns_and_filters(stack: EmbeddedStack, make_table: MakeTable, producer: str) -> None:
    table = make_changed(make_table, producer)
    for columns, condition in ((["v"], "k = 1"), (["k"], "v = 'B'"), (["v", "k"], "v IS NULL OR k > 3")):
        wanted = table.changes(1, columns=[*columns, "_row_kind", "_snapshot_id"], filter=condition).to_arrow()
        options = {"columns": ",".join(columns), "filter": condition}
        found = [row for batch in stream_of(stack, table, scan__snapshot_id="2", **options).run() for row in batch]
        assert wanted.num_rows > 0
        assert sorted_rows(found) == sorted_rows(wanted.to_pylist())


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_changes_in_a_session(spark: SparkSession, make_table: MakeTable, producer: str) -> None:
    table = make_changed(make_table, producer)
    # One in between that brings no changelog.
    table.alter(set={"changelog-producer": "none"})
    lakelog.spark.write(spark.createDataFrame([(7, "spark")], "k bigint, v string"), table.name, mode="append")
    table.alter(set={"changelog-producer": producer})
    lakelog.spark.write(spark.createDataFrame([(7, "again")], "k bigint, v string"), table.name, mode="append")
    wanted = table.changes().to_arrow().to_pylist()
    found = lakelog.spark.changes(spark, table.name).toArrow().to_pylist()
    assert sorted_rows(found) == sorted_rows(wanted)
    assert len({row["_snapshot_id"] for row in found}) == 5


def _as_rows(wanted: list[Emitted]) -> list[dict[str, Any]]:
    return [dict(zip(("_snapshot_id", "_row_kind", "k", "v"), each, strict=True)) for each in wanted]
