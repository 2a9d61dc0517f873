"""Any history of writes, overwrites, repeats, transactions and lost connections shows what a dict shows.

LAKELOG_PROPERTY_EXAMPLES and LAKELOG_PROPERTY_STEPS make it larger than CI has time for.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakelog import literal, when_matched, when_not_matched
from lakelog.errors import OutcomeUnknown, Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction
from lakelog.testing.postgres_proxy import PostgresProxy
from tests.property.model import Condition, Kind, Record, TableModel

EXAMPLES = int(os.environ.get("LAKELOG_PROPERTY_EXAMPLES", "12"))
STEPS = int(os.environ.get("LAKELOG_PROPERTY_STEPS", "18"))

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64()), ("s", pa.int64()), ("v", pa.string())])
_names = itertools.count()

partitions = st.sampled_from(["", "a", "ż", "b c/d=e%"])
sequences = st.none() | st.integers(-2, 3)
texts = st.none() | st.sampled_from(["", "x", "y", "zażółć", "NULL"])
keys = st.integers(0, 6)


def records(kinds: Sequence[str], *, most: int = 6) -> st.SearchStrategy[list[Record]]:
    return st.lists(st.builds(Record, partitions, keys, sequences, texts, st.sampled_from(kinds)), max_size=most)


inserts = records(["+I"])
changes = records(["+I", "+U", "-U", "-D"])


def is_below(row: Mapping[str, Any], column: str, bound: int) -> bool:
    return row[column] is not None and row[column] < bound


conditions = st.one_of(
    st.just(Condition("TRUE", lambda row: True)),
    keys.map(lambda k: Condition(f"k = {k}", lambda row: row["k"] == k)),
    keys.map(lambda k: Condition(f"k < {k}", lambda row: is_below(row, "k", k))),
    keys.map(lambda n: Condition(f"s < {n}", lambda row: is_below(row, "s", n))),
    partitions.map(lambda p: Condition(f"p = '{p}'", lambda row: row["p"] == p)),
    partitions.map(lambda p: Condition(f"p <> '{p}' AND k > 2", lambda row: row["p"] != p and row["k"] > 2)),
    st.just(Condition("v IS NULL OR v = 'x'", lambda row: row["v"] in (None, "x"))),
    st.just(Condition("v IN ('', 'y') AND NOT s = 1", lambda row: row["v"] in ("", "y") and row["s"] not in (None, 1))),
)


def to_rows(found: Sequence[Record], *, kinds: bool = False) -> pa.Table:
    columns: dict[str, Any] = {
        name: pa.array([getattr(record, name) for record in found], SCHEMA.field(name).type) for name in SCHEMA.names
    }
    if kinds:
        columns["_row_kind"] = pa.array([record.kind for record in found], pa.string())
    return pa.table(columns)


class Histories(RuleBasedStateMachine):
    """Two tables of one form, their models, and everything that was ever committed."""

    catalog: Catalog
    database: PostgresProxy

    @initialize(
        partitioned=st.booleans(), buckets=st.integers(1, 3), sequence=st.sampled_from(["none", "none", "asc", "desc"])
    )
    def make_tables(self, partitioned: bool, buckets: int, sequence: Any) -> None:
        self.partitioned = partitioned
        self.identifier = 0
        self.done: list[int] = []
        options = {"bucket": str(buckets)}
        if sequence != "none":
            options |= {"sequence.field": "s", "sequence.field.sort-order": sequence}
        number = next(_names)
        self.tables: list[Table] = [
            self.catalog.create_table(
                f"prop.{name}{number}",
                SCHEMA,
                primary_key=["p", "k"],
                partition_by=["p"] if partitioned else [],
                options=options,
            )
            for name in ("one", "two")
        ]
        self.models = [TableModel(sequence), TableModel(sequence)]
        # Which tables a commit was for: only for these is its number taken.
        self.committed: dict[int, tuple[int, ...]] = {}

    # What changes tables

    @rule(which=st.integers(0, 1), rows=inserts)
    def upsert(self, which: int, rows: list[Record]) -> None:
        self._commit([which], lambda tx, n: self._part(tx, n).upsert(to_rows(rows)), lambda m: m.write(rows))

    @rule(which=st.integers(0, 1), rows=records(["-D"], most=4))
    def delete(self, which: int, rows: list[Record]) -> None:
        if self.models[0].sequence != "none":
            # Deletes without a value are refused; those among rows of all kinds have the lowest one.
            rows = [row for row in rows if row.s is not None]
        data = to_rows(rows).select(["p", "k"] if self.models[0].sequence == "none" else ["p", "k", "s"])
        self._commit([which], lambda tx, n: self._part(tx, n).delete(data), lambda m: m.write(rows))

    @rule(which=st.integers(0, 1), rows=changes)
    def write(self, which: int, rows: list[Record]) -> None:
        self._commit([which], lambda tx, n: self._part(tx, n).write(to_rows(rows, kinds=True)), lambda m: m.write(rows))

    @rule(rows=changes)
    def write_both(self, rows: list[Record]) -> None:
        self._commit([0, 1], lambda tx, n: self._part(tx, n).write(to_rows(rows, kinds=True)), lambda m: m.write(rows))

    @rule(which=st.integers(0, 1), condition=conditions, value=texts)
    def update_where(self, which: int, condition: Condition, value: str | None) -> None:
        def apply(model: TableModel) -> None:
            hit = self._rows(which, None, condition)
            model.write([Record(row["p"], row["k"], row["s"], value, "+U") for row in hit])

        self._commit([which], lambda tx, n: self._part(tx, n).update({"v": literal(value)}, condition.sql), apply)

    @rule(which=st.integers(0, 1), rows=inserts)
    def merge(self, which: int, rows: list[Record]) -> None:
        """Rows without `v` delete, others give it to the row of their key, or are new."""
        rows = list({row.key: row for row in rows}.values())
        clauses = (
            when_matched("source.v IS NULL").delete(),
            when_matched().update({"v": "source.v"}),
            when_not_matched("v IS NOT NULL").insert_all(),
        )

        def apply(model: TableModel) -> None:
            there = model.visible()
            for row in rows:
                if row.key in there:
                    kind: Kind = "-D" if row.v is None else "+U"
                    model.write([Record(row.p, row.k, there[row.key][0], row.v, kind)])
                elif row.v is not None:
                    model.write([row])

        self._commit([which], lambda tx, n: self._part(tx, n).merge(to_rows(rows), ["p", "k"], *clauses), apply)

    @rule(which=st.integers(0, 1), pieces=st.lists(changes, min_size=2, max_size=3))
    def write_in_chunks(self, which: int, pieces: list[list[Record]]) -> None:
        """Several writes of one transaction are one after the other."""

        def write(tx: Transaction, number: int) -> None:
            for piece in pieces:
                self._part(tx, number).write(to_rows(piece, kinds=True))

        self._commit([which], write, lambda m: m.write([record for piece in pieces for record in piece]))

    @rule(which=st.integers(0, 1), rows=inserts)
    def overwrite_all(self, which: int, rows: list[Record]) -> None:
        def apply(model: TableModel) -> None:
            model.remove(lambda key: True)
            model.write(rows)

        self._commit([which], lambda tx, n: self._part(tx, n).overwrite(to_rows(rows)), apply)

    @precondition(lambda self: self.partitioned)
    @rule(which=st.integers(0, 1), rows=inserts, partition=partitions, leave_out=st.booleans())
    def overwrite_partition(self, which: int, rows: list[Record], partition: str, leave_out: bool) -> None:
        rows = [Record(partition, row.k, row.s, row.v) for row in rows]
        data = to_rows(rows).drop_columns(["p"]) if leave_out else to_rows(rows)

        def apply(model: TableModel) -> None:
            model.remove(lambda key: key[0] == partition)
            model.write(rows)

        self._commit([which], lambda tx, n: self._part(tx, n).overwrite(data, {"p": partition}), apply)

    @precondition(lambda self: self.partitioned)
    @rule(which=st.integers(0, 1), rows=inserts)
    def overwrite_what_is_there(self, which: int, rows: list[Record]) -> None:
        touched = {row.p for row in rows}

        def apply(model: TableModel) -> None:
            model.remove(lambda key: key[0] in touched)
            model.write(rows)

        self._commit([which], lambda tx, n: self._part(tx, n).overwrite(to_rows(rows), "dynamic"), apply)

    @precondition(lambda self: self.committed)
    @rule(data=st.data(), rows=inserts)
    def repeat_an_old_number(self, data: st.DataObject, rows: list[Record]) -> None:
        """Whatever it brings this time, it is done already."""
        identifier = data.draw(st.sampled_from(sorted(self.committed)))
        tables = self.committed[identifier]
        result = self._run(identifier, tables, lambda tx, n: self._part(tx, n).upsert(to_rows([*rows, *rows])))
        assert result.already_applied or not rows

    @rule(which=st.integers(0, 1), rows=changes)
    def give_up(self, which: int, rows: list[Record]) -> None:
        try:
            with self.catalog.transaction() as transaction:
                self._part(transaction, which).write(to_rows(rows, kinds=True))
                raise ZeroDivisionError
        except (ZeroDivisionError, OutcomeUnknown):
            pass

    # What goes wrong

    @rule(place=st.sampled_from(["before_commit", "after_commit"]), times=st.integers(1, 2))
    def lose_connections_at_commit(self, place: Any, times: int) -> None:
        self.database.cut_at_commit(place, times)

    @rule()
    def kill_all_connections(self) -> None:
        self.database.cut()

    # What is read

    @rule(which=st.integers(0, 1), condition=conditions, columns=st.sampled_from([None, ["v"], ["k", "p"], ["s", "k"]]))
    def scan(self, which: int, condition: Condition, columns: list[str] | None) -> None:
        self._compare(which, condition, columns, None)

    @rule(which=st.integers(0, 1), condition=conditions, back=st.integers(0, 20))
    def travel(self, which: int, condition: Condition, back: int) -> None:
        states = self.models[which].states
        if states:
            self._compare(which, condition, None, max(1, len(states) - back))

    @rule(which=st.integers(0, 1), condition=conditions, limit=st.integers(0, 5))
    def scan_with_limit(self, which: int, condition: Condition, limit: int) -> None:
        found = self.tables[which].scan(filter=condition.sql, limit=limit).to_arrow().to_pylist()
        there = self._rows(which, None, condition)
        assert len(found) == min(limit, len(there))
        assert all(row in there for row in found)

    @invariant()
    def all_is_there(self) -> None:
        if not hasattr(self, "tables"):
            return
        for which, table in enumerate(self.tables):
            self._compare(which, Condition("TRUE", lambda row: True), None, None)
            assert table.scan().count() == len(self.models[which].visible())

    def teardown(self) -> None:
        self.database.heal()
        for table in getattr(self, "tables", []):
            self.catalog.drop_table(table.name)

    # How

    def _part(self, transaction: Transaction, which: int) -> Any:
        return transaction.table(self.tables[which].name)

    def _commit(
        self, which: list[int], write: Callable[[Transaction, int], Any], apply: Callable[[TableModel], Any]
    ) -> None:
        self.identifier += 1
        before = [model.visible() for model in self.models]
        result = self._run(self.identifier, which, write)
        self.committed[self.identifier] = tuple(which)
        for number in which:
            model = self.models[number]
            apply(model)
            snapshot = result.snapshot_ids.get(self.tables[number].name)
            if snapshot is not None:
                model.note(snapshot)
            else:
                assert model.visible() == before[number], "no snapshot, though something changed"

    def _run(self, identifier: int, which: Sequence[int], write: Callable[[Transaction, int], Any]) -> Any:
        """As a user does: what is unknown is repeated under the same number."""
        for _ in range(8):
            try:
                with self.catalog.transaction(writer="w", identifier=identifier) as transaction:
                    for number in which:
                        write(transaction, number)
            except (OutcomeUnknown, Unavailable):
                continue
            return transaction.result
        raise AssertionError("no end of unknown outcomes")

    def _rows(self, which: int, snapshot_id: int | None, condition: Condition) -> list[dict[str, Any]]:
        model = self.models[which]
        state = model.visible() if snapshot_id is None else model.states[snapshot_id]
        rows = [{"p": p, "k": k, "s": s, "v": v} for (p, k), (s, v) in state.items()]
        return [row for row in rows if condition.holds(row)]

    def _compare(self, which: int, condition: Condition, columns: list[str] | None, snapshot_id: int | None) -> None:
        scan = self.tables[which].scan(columns, condition.sql, snapshot_id=snapshot_id)
        found = scan.to_arrow().to_pylist()
        names = columns or SCHEMA.names
        wanted = [{name: row[name] for name in names} for row in self._rows(which, snapshot_id, condition)]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))


@pytest.mark.timeout(600)
def test_any_history_shows_what_a_dict_shows(catalog: Catalog, database: PostgresProxy) -> None:
    Histories.catalog, Histories.database = catalog, database
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize="LAKELOG_PROPERTY_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
        ),
    )
