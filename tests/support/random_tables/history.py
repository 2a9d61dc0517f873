"""One random table and what happens to it, in the product and in the model, step by step."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from lakelog.results import WriteResult
from lakelog.sdk.catalog import Catalog
from tests.support.random_tables.columns import convert, to_arrow
from tests.support.random_tables.conditions import EVERYTHING, Condition, Row, draw_condition
from tests.support.random_tables.form import TableForm
from tests.support.random_tables.model import Record, TableModel


class History(TableForm):
    """A table of a random form, and what became of it.

    Args:
        catalog: Where it is made.
        name: Its full name.
        seed: Decides everything.
    """

    def __init__(self, catalog: Catalog, name: str, seed: int) -> None:
        super().__init__(Random(seed))
        self.table = catalog.create_table(
            name,
            pa.schema([column.field for column in self.columns]),
            primary_key=self.key,
            partition_by=self.partition_by,
            options=self.options,
        )
        retracts = ("-U", "-D")
        ignored = (
            retracts if "ignore-delete" in self.options else ("-U",) if "ignore-update-before" in self.options else ()
        )
        self.model = TableModel(
            tuple(self.key),
            tuple(self.partition_by),
            tuple(self.sequence),
            self.options.get("sequence.field.sort-order") == "desc",
            ignored,
            self.options.get("rowkind.field"),
            self.keeps_first,
        )
        self.identifiers = {"w1": 0, "w2": 0}
        # Of columns with a default, what a write stores that leaves them out.
        self.defaults: Row = {}

    def __repr__(self) -> str:
        return f"{self.table!r} with {self.options}"

    def now_ms(self) -> int:
        """When what is committed now is committed; matters only with `sequence.delete-retention`."""
        return 0

    # How it is used

    def send(self, call: str, data: pa.Table, more: dict[str, Any]) -> WriteResult:
        """Writes rows; `call` is the SDK's name of it."""
        # The input may leave out columns in which nothing has a value.
        fills = {} if call == "delete" else {"fill_missing": True}
        result: WriteResult = getattr(self.table, call)(self._as_input(data), **more, **fills)
        return result

    def read(self, names: list[str] | None, condition: str, snapshot_id: int | None) -> pa.Table:
        """Reads rows."""
        scan = self.table.scan(names, condition, snapshot_id=snapshot_id)
        found = scan.to_arrow()
        assert found.schema.equals(scan.schema)
        assert scan.count() == found.num_rows
        limit = self.random.randrange(found.num_rows + 2)
        some = self.table.scan(names, condition, limit, snapshot_id=snapshot_id).to_arrow()
        assert some.num_rows == min(limit, found.num_rows)
        left = sorted_rows(found.to_pylist())
        for row in sorted_rows(some.to_pylist()):
            left.remove(row)
        return found

    # What happens to it

    def step(self) -> None:
        random = self.random
        calls: list[Callable[[], None]] = [self._append] * 4 + [self._overwrite] * 2 + [self._repeat]
        if self.key:
            calls += [self._delete] * 3 + [self._write] * 5
        random.choice(calls)()

    def _rows(self, most: int = 40) -> list[Row]:
        random = self.random
        count = random.choice((0, 1, 2, random.randrange(most), random.randrange(most)))
        if random.random() < 0.02:
            count = 3000
        return [self._row() for _ in range(count)]

    def _row(self) -> Row:
        random = self.random
        row = {column.name: column.draw(random, 0.3) for column in self.columns}
        for name, pool in self.pools.items():
            row[name] = random.choice(pool) if random.random() < 0.9 or name in self.partition_by else row[name]
        if self.kind_column:
            row[self.kind_column] = random.choice(("+I", "+I", "+U", "-U", "-D"))
        return row

    def _records(self, rows: Sequence[Row], kinds: Sequence[str] | None = None) -> list[Record]:
        if kinds is None:
            kinds = [row[self.kind_column] if self.kind_column else "+I" for row in rows]
        return [Record(row, kind) for row, kind in zip(rows, kinds, strict=True)]

    def always_given(self) -> set[str]:
        """Columns that a write never leaves out, though they take NULL."""
        return set()

    def _as_input(self, data: pa.Table) -> Any:
        """The same rows in another form."""
        random = self.random
        names = random.sample(data.schema.names, data.num_columns)
        for name in list(names):
            column = self.by_name.get(name)
            if column is None:
                continue
            left_out = column.nullable and name not in self.always_given()
            if left_out and data.num_rows == data.column(name).null_count and random.random() < 0.5:
                names.remove(name)
            elif column.type.also and random.random() < 0.3:
                wanted = random.choice(column.type.also)
                place = data.schema.get_field_index(name)
                converted = convert(data.column(name), wanted)
                data = data.set_column(place, pa.field(name, converted.type), converted)
        data = data.select(names) if names else data
        if random.random() < 0.3 and data.num_rows > 1:
            cut = random.randrange(data.num_rows)
            pieces = [data.slice(0, cut), data.slice(cut)]
            return iter(pieces) if random.random() < 0.5 else pa.concat_tables(pieces)
        if random.random() < 0.2:
            return data.to_reader(max_chunksize=7)
        return data

    def _append(self) -> None:
        rows = self._rows()
        data = to_arrow(self.columns, rows)
        call = "upsert" if self.key and self.random.random() < 0.5 else "append"
        self._commit(lambda more: self.send(call, data, more), self._records(data.to_pylist()), None)

    def _delete(self) -> None:
        names = [*self.key, *self.sequence]
        columns = [self.by_name[name] for name in names]
        data = to_arrow(columns, self._rows(10))
        for name in self.sequence:
            # Deletes without a value are refused; those among rows of all kinds have the lowest one.
            data = data.filter(data.column(name).is_valid())
        rows = [dict.fromkeys(self.by_name) | self.defaults | row for row in data.to_pylist()]
        records = self._records(rows, ["-D"] * len(rows))
        self._commit(lambda more: self.send("delete", data, more), records, None)

    def _write(self) -> None:
        rows = self._rows()
        data = to_arrow(self.columns, rows)
        if self.kind_column:
            self._commit(lambda more: self.send("write", data, more), self._records(data.to_pylist()), None)
            return
        kinds = [self.random.choice(("+I", "+U", "-U", "-D")) for _ in rows]
        records = self._records(data.to_pylist(), kinds)
        data = data.append_column("_row_kind", pa.array(kinds, pa.string()))
        self._commit(lambda more: self.send("write", data, more), records, None)

    def _overwrite(self) -> None:
        random = self.random
        rows = self._rows()
        way = random.choice(("whole", "static", "dynamic")) if self.partition_by else "whole"
        if way == "static":
            names = random.sample(self.partition_by, random.randrange(1, len(self.partition_by) + 1))
            values = {name: random.choice(self.pools[name]) for name in names}
            rows = [row | values for row in rows]
            data = to_arrow(self.columns, rows)
            records = self._records(data.to_pylist())
            target = to_arrow([self.by_name[name] for name in names], [values]).to_pylist()[0]
            if random.random() < 0.5:
                data = data.drop_columns(names)

            def removed(row: Row) -> bool:
                return all(repr(row[name]) == repr(target[name]) for name in names)

            self._commit(lambda more: self.send("overwrite", data, {"partition": target} | more), records, removed)
            return
        data = to_arrow(self.columns, rows)
        records = self._records(data.to_pylist())
        if way == "whole":
            self._commit(lambda more: self.send("overwrite", data, more), records, lambda row: True)
            return
        touched = {self._partition(record.row) for record in self.model.kept(records)}
        self._commit(
            lambda more: self.send("overwrite", data, {"partition": "dynamic"} | more),
            records,
            lambda row: self._partition(row) in touched,
        )

    def _partition(self, row: Row) -> str:
        return repr([row[name] for name in self.partition_by])

    def _repeat(self) -> None:
        """A number that was used answers with what came of it, whatever is written this time."""
        known = [(writer, number) for writer, done in self.model.done.items() for number in done]
        if not known:
            return
        writer, number = self.random.choice(known)
        rows = self._rows()
        result = self.table.append(to_arrow(self.columns, rows), writer=writer, identifier=number)
        assert result == WriteResult(self.model.done[writer][number], True), result

    def _commit(
        self,
        call: Callable[[dict[str, Any]], WriteResult],
        records: Sequence[Record],
        removed: Callable[[Row], bool] | None,
    ) -> None:
        random = self.random
        more: dict[str, Any] = {}
        writer = random.choice((None, "w1", "w2"))
        identifier = 0
        if writer is not None:
            before = self.identifiers[writer]
            identifier = before + random.choice((1, 1, 3))
            more |= {"writer": writer, "identifier": identifier}
            if before and random.random() < 0.3:
                more["previous_identifier"] = before
            self.identifiers[writer] = identifier
        watermark = random.choice((None, None, random.randrange(10**6)))
        if watermark is not None:
            more["watermark"] = watermark if random.random() < 0.5 else _EPOCH + dt.timedelta(milliseconds=watermark)
        properties = random.choice(({}, {"job": "ż", "empty": ""}))
        if properties:
            more["properties"] = properties
        allow_empty = random.random() < 0.1
        if allow_empty:
            more["allow_empty"] = True
        kept = self.model.kept(records)
        result = call(more)
        assert not result.already_applied
        if result.snapshot_id is None:
            assert not kept
            assert not allow_empty
            gone = [] if removed is None else [record for record in self.model.records if removed(record.row)]
            assert not gone, "an overwrite that removes rows makes a snapshot"
        self.model.commit(
            kept,
            removed,
            result.snapshot_id,
            writer=writer,
            identifier=identifier,
            watermark=watermark,
            properties=properties,
            time_ms=self.now_ms(),
        )

    # What it shows

    def check_newest(self) -> None:
        self._check_state(None, None, EVERYTHING)

    def check_reads(self, count: int) -> None:
        """Random reads of random snapshots."""
        for _ in range(count):
            snapshots = self.model.snapshots
            snapshot_id = self.random.choice((None, self.random.randrange(len(snapshots)) + 1)) if snapshots else None
            self.check_read(snapshot_id)

    def check_read(self, snapshot_id: int | None) -> None:
        """A random read of a snapshot, or of the newest."""
        rows = self.model.snapshots[snapshot_id - 1].rows if snapshot_id else self.model.rows()
        names = self.random.sample([*self.by_name], self.random.randrange(len(self.by_name) + 1))
        condition = draw_condition(self.random, self.columns, rows)
        self._check_state(snapshot_id, names if self.random.random() < 0.7 else None, condition)

    def check_times(self) -> None:
        """A read at a time is one of the newest snapshot by then."""
        listed = self.table.snapshots().to_pylist()
        for each in listed:
            wanted = max(other["id"] for other in listed if other["committed_at"] <= each["committed_at"])
            scan = self.table.scan(timestamp=each["committed_at"])
            assert scan.snapshot_id == wanted
            assert sorted_rows(scan.to_arrow().to_pylist()) == sorted_rows(self.model.snapshots[wanted - 1].rows)

    def check_listing(self) -> None:
        """Snapshots tell what was said of them, files what is in them."""
        listed = self.table.snapshots().to_pylist()
        assert len(listed) == len(self.model.snapshots)
        for each, model in zip(listed, self.model.snapshots, strict=True):
            assert each["kind"] == model.kind
            assert each["watermark"] == model.watermark
            assert dict(each["properties"]) == model.properties
            if model.writer is not None:
                assert (each["writer"], each["identifier"]) == (model.writer, model.identifier)
            files = self.table.files(each["id"])
            assert sum(files.column("rows").to_pylist()) == each["rows"]
            if not self.key:
                assert each["rows"] == len(model.rows)

    def check_changes(self) -> None:
        """What was written is what each commit's rows were merged to."""
        if self.keeps_first:
            # What was written may be no row of the table.
            return
        for number, model in enumerate(self.model.snapshots, 1):
            found = self.table.changes(number - 1, number, raw=True).to_arrow().to_pylist()
            wanted = [record.row | {"_row_kind": record.kind, "_snapshot_id": number} for record in model.delta]
            assert sorted_rows(found) == sorted_rows(wanted), f"{self!r}: changes of snapshot {number}"

    def check_order(self) -> None:
        """Rows of a bucket of an append table come in the order in which they were written."""
        if not self.bucket_key:
            return
        found = self.table.scan().to_arrow().to_pylist()
        for rows in (found, self.model.rows()):
            groups: dict[str, list[str]] = {}
            for row in rows:
                bucket = self._partition(row) + repr(row[self.bucket_key[0]])
                groups.setdefault(bucket, []).append(repr(sorted(row.items())))
            if rows is found:
                read = groups
        assert read == groups

    def _check_state(self, snapshot_id: int | None, names: list[str] | None, condition: Condition) -> None:
        rows = self.model.rows() if snapshot_id is None else self.model.snapshots[snapshot_id - 1].rows
        wanted = [row for row in rows if condition.says(row) is True]
        shown = names if names is not None else [column.name for column in self.columns]
        projected = sorted_rows([{name: row[name] for name in shown} for row in wanted])
        reported = f"{self!r} at {snapshot_id}, columns {names}, filter {condition.sql}"
        found = self.read(names, condition.sql, snapshot_id)
        assert found.num_rows == len(wanted), reported
        if shown:
            assert sorted_rows(found.to_pylist()) == projected, reported


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def sorted_rows(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)
