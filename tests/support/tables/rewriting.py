"""A bucket whose runs are rewritten while commits go on, and the fold of its commits in Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakelog.format.merge.runs import COMMIT_TIMESTAMP_COLUMN
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.key_lookup import KeyLookup
from lakelog.storage.merging.aligned_runs import RunPart, read_run
from lakelog.storage.merging.deletion_vectors import find_deletion_vectors
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.rewrite.runs import RunRewrite, rewrite_runs
from lakelog.storage.write.table_writer import TableWriter

RETENTION_MS: Final = 10
SCHEMA: Final = TableSchema(
    0,
    assign_field_ids(
        pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("seq", pa.int32()), pa.field("v", pa.int64())])
    ),
    primary_key=("k",),
)
KINDS: Final = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
Record = tuple[int, int | None, str]
"""Key, sequence, kind."""


@dataclasses.dataclass(frozen=True)
class State:
    """What decides a key: sequence, kind, commit time, value."""

    seq: int | None
    kind: str
    time_ms: int
    value: int


class Bucket:
    """One bucket in the product and in the model.

    Args:
        options: Of the table.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {"bucket": "1", "target-file-size": "1 kb", "sequence.delete-retention": f"{RETENTION_MS} ms"}
        if "sequence.field" not in options:
            del given["sequence.delete-retention"]
        self.options = TableOptions({**given, **options})
        self.policy = to_merge_policy(SCHEMA, self.options)
        self.store = MemoryStore("bucket")
        self.files: list[LiveFile] = []
        self.now_ms = 1000
        self._snapshot = 0
        self._file_id = 0
        self._value = 0
        self._model: dict[int, State] = {}

    def commit(self, records: Sequence[Record], pause_ms: int) -> None:
        """Commits some records at once."""
        self.now_ms += pause_ms
        self._snapshot += 1
        values = [self._value + place for place in range(len(records))]
        self._value += len(records)
        columns: dict[str, Any] = {
            "k": [key for key, _, _ in records],
            "seq": [seq for _, seq, _ in records],
            "v": [None if kind == "-D" else value for (_, _, kind), value in zip(records, values, strict=True)],
        }
        table = pa.table(columns, schema=SCHEMA.arrow)
        writer = TableWriter(self.store, SCHEMA, self.options, f"{self._snapshot:032x}")
        writer.write(table, np.array([KINDS[kind] for _, _, kind in records], np.int8))
        for ordinal, file in enumerate(writer.finish()):
            self.files.append(self._place(file, self._snapshot, ordinal, self.now_ms))
        merged: dict[int, State] = {}
        for (key, seq, kind), value in zip(records, values, strict=True):
            self._apply(merged, key, State(seq, kind, self.now_ms, value))
        for key, state in merged.items():
            self._apply(self._model, key, state)

    def begin_rewrite(self, first: int, count: int, memory_bytes: int) -> tuple[list[LiveFile], list[DataFile]]:
        """Rewrites neighbours, counted from the oldest, as they are now; `end_rewrite` puts the result there."""
        inputs = self.files[first : first + count]
        rest = [file for file in self.files if file not in inputs]
        self._file_id += 1
        rewrite = RunRewrite("rewrite", tuple(inputs), tuple(rest), self.now_ms, 1)
        attempt = f"f{self._file_id:031x}"
        return inputs, list(rewrite_runs(self.store, SCHEMA, self.options, attempt, rewrite, memory_bytes=memory_bytes))

    def end_rewrite(self, inputs: Sequence[LiveFile], made: Sequence[DataFile]) -> None:
        """Commits it, as the metastore does."""
        self._snapshot += 1
        latest = max(inputs, key=lambda file: (file.order_snapshot, file.order_ordinal))
        place = (latest.order_snapshot, latest.order_ordinal, latest.order_time_ms)
        self.files = [file for file in self.files if file not in inputs]
        self.files += [self._place(file, *place) for file in made]
        self.files.sort(key=lambda file: (file.order_snapshot, file.order_ordinal, file.file_id))

    def check(self) -> None:
        """What is read is what the fold of the commits gives."""
        wanted = {key: state.value for key, state in self._model.items() if state.kind in ("+I", "+U")}
        data_files = DataFiles(self.store)
        for memory_bytes in (1, 1 << 20):
            found = find_deletion_vectors(self.store, self.files, SCHEMA, self.policy, memory_bytes=memory_bytes)
            shown: dict[int, int] = {}
            for file, left_out in zip(self.files, found, strict=True):
                rows = read_run(data_files, RunPart(file, list(plan_file_schema(SCHEMA, False))))
                kept = np.ones(rows.num_rows, bool)
                kept[[] if left_out is None else left_out] = False
                for row in rows.filter(pa.array(kept)).to_pylist():
                    assert row["k"] not in shown
                    shown[row["k"]] = row["v"]
            assert shown == wanted
        # A delete counts for later commits as well, so that what a lookup finds must be the fold's, to its time.
        lookup = KeyLookup(self.store, SCHEMA, self.policy, None, list(plan_file_schema(SCHEMA, False)))
        keys = pa.table({"k": pa.array(sorted(self._model), pa.int64())})
        if not self.files:
            assert not wanted
            return
        records = lookup.find(self.files, keys).run.table.to_pylist()
        looked_up = {row["k"]: row["v"] for row in records if row[ROW_KIND_COLUMN] in (0, 2)}
        assert looked_up == wanted
        self._check_deletes({row["k"]: row for row in records if row[ROW_KIND_COLUMN] in (1, 3)})

    def _check_deletes(self, found: Mapping[int, Mapping[str, Any]]) -> None:
        """A delete is there with its sequence and time for as long as it may beat a row."""
        for key, state in self._model.items():
            if state.kind in ("-U", "-D") and self.policy.sequence and self.now_ms - state.time_ms <= RETENTION_MS:
                assert (found[key]["seq"], found[key][COMMIT_TIMESTAMP_COLUMN]) == (state.seq, state.time_ms)

    def _place(self, file: DataFile, snapshot: int, ordinal: int, time_ms: int) -> LiveFile:
        self._file_id += 1
        return LiveFile(
            self._file_id,
            **{name: getattr(file, name) for name in _SHARED},
            added_snapshot=self._snapshot,
            order_snapshot=snapshot,
            order_ordinal=ordinal,
            order_time_ms=time_ms,
        )

    def _apply(self, model: dict[int, State], key: int, new: State) -> None:
        old = model.get(key)
        if old is None or (not self.policy.keep_first and self._wins(new, old)):
            model[key] = new

    def _wins(self, new: State, old: State) -> bool:
        if not self.policy.sequence:
            return True
        outlived = old.kind in ("-U", "-D") and new.time_ms - old.time_ms > RETENTION_MS
        return outlived or self._rank(new) >= self._rank(old)

    def _rank(self, state: State) -> float:
        if state.seq is None:
            return float("-inf")
        return -state.seq if self.policy.sequence_descending else state.seq


_SHARED: Final = (
    "path",
    "partition",
    "bucket",
    "level",
    "row_count",
    "delete_count",
    "size_bytes",
    "min_key",
    "max_key",
    "schema_id",
)
