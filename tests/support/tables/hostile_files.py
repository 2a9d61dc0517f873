"""Small Parquet files that unpack to gigabytes, and work on them in a process of its own, whose memory is measured.

`run` forks the process; it runs this module and prints what the work came to.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.errors import LakelogError
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.bucket_changelog import BucketChangelogs, BucketLookup
from lakelog.storage.lookup.copy_cache import CacheLimits, CopyCache
from lakelog.storage.merging.bucket_vectors import build_deletion_vectors
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.local import LocalStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.rewrite.append import FileRewrite, rewrite_files
from lakelog.storage.rewrite.runs import RunRewrite, rewrite_runs
from lakelog.storage.scan.file_scan import FileScan, ScanColumns
from tests.support.forked import preload, run_forked
from tests.support.repository import ROOT

ROWS: Final = 2000
VALUE_BYTES: Final = 1 << 20
OPTIONS: Final = TableOptions({"bucket": "1"})

_MODULE: Final = "tests.support.tables.hostile_files"
preload(_MODULE)

_PEAK: Final = re.compile(r"VmHWM:\s+(\d+) kB")
_TEXT: Final = pa.string()
_LISTS: Final = pa.list_(pa.field("element", _TEXT))
_STRUCTS: Final = pa.struct([pa.field("a", pa.int64()), pa.field("b", _TEXT)])
_MAPS: Final = pa.map_(pa.string(), _TEXT)


@dataclass(frozen=True)
class Hostile:
    """A form of hostile file.

    Args:
        value_type: The type of the column `v`.
        values: Makes the column; little memory is needed for it.
        writes: Further arguments of pyarrow's writer.
        key: The key's column.
    """

    value_type: pa.DataType
    values: Callable[[], pa.Array | pa.ChunkedArray]
    writes: dict[str, Any]
    key: str = "id"

    @property
    def schema(self) -> TableSchema:
        """The table's columns, without a key."""
        fields = [pa.field("id", pa.int64(), nullable=False), pa.field("v", self.value_type, nullable=self.key != "v")]
        return TableSchema(0, assign_field_ids(pa.schema(fields)))

    @property
    def keyed_schema(self) -> TableSchema:
        """The same with the key."""
        return TableSchema(0, self.schema.arrow, primary_key=(self.key,))


def _repeat(value: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([value] * ROWS)


def _large_texts() -> pa.ChunkedArray:
    return _repeat(pa.array(["x" * VALUE_BYTES]))


def _named_texts() -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(ROWS, np.int32), ["x" * VALUE_BYTES])


def _lists() -> pa.Array:
    return pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), _named_texts())


def _structs() -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(np.arange(ROWS)), _named_texts()], ["a", "b"])


def _maps() -> pa.Array:
    return pa.MapArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), pa.array(["k"] * ROWS), _named_texts())


HOSTILE: Final[dict[str, Hostile]] = {
    "dictionary": Hostile(_TEXT, _named_texts, {"use_dictionary": ["v"]}),
    "dictionary_key": Hostile(_TEXT, _named_texts, {"use_dictionary": ["v"]}, key="v"),
    "dictionary_in_list": Hostile(_LISTS, _lists, {"use_dictionary": ["v.list.element"]}),
    "dictionary_in_struct": Hostile(_STRUCTS, _structs, {"use_dictionary": ["v.b"]}),
    "dictionary_in_map": Hostile(_MAPS, _maps, {"use_dictionary": ["v.key_value.value"]}),
    "plain_pages": Hostile(_TEXT, _large_texts, {"use_dictionary": False}),
    "prefixes": Hostile(_TEXT, _large_texts, {"use_dictionary": False, "column_encoding": {"v": "DELTA_BYTE_ARRAY"}}),
}


def write_hostile(folder: Path, form: str) -> None:
    """Writes two files of a form, as writers of two commits might do."""
    hostile = HOSTILE[form]
    values = hostile.values()
    ids = hostile.schema.arrow.field("id")
    # As `v` is in memory: a writer can write a dictionary as it is.
    schema = pa.schema([ids, hostile.schema.arrow.field("v").with_type(values.type)])
    table = pa.table([pa.array(np.arange(ROWS)), values], schema=schema)
    first, second = (folder / f"data/{number}/f.parquet" for number in (1, 2))
    for path in (first, second):
        path.parent.mkdir(parents=True)
    with pq.ParquetWriter(
        first, schema, compression="zstd", store_schema=False, write_statistics=["id"], **hostile.writes
    ) as writer:
        writer.write_table(table, row_group_size=ROWS)
    shutil.copy(first, second)


def to_live(folder: Path, number: int) -> LiveFile:
    """The entry of one of the two files in a plan."""
    path = f"data/{number}/f.parquet"
    size_bytes = (folder / path).stat().st_size
    return LiveFile(number, path, b"", 0, 0, ROWS, 0, size_bytes, None, None, 0, number, number, 0, 1000 * number)


class Work:
    """Each method does what a reader, a writer or a compactor does, and returns how many rows it saw."""

    def __init__(self, folder: Path, form: str) -> None:
        self._store = LocalStore(str(folder))
        self._hostile = HOSTILE[form]
        self._files = [to_live(folder, number) for number in (1, 2)]
        self._folder = folder

    def scan(self) -> int:
        """Reads all."""
        return sum(batch.num_rows for batch in self._scan().read_batches())

    def scan_by_limit(self) -> int:
        """Reads two rows."""
        return sum(batch.num_rows for batch in self._scan().read_batches(limit=2))

    def scan_one_file(self) -> int:
        """Reads a little file."""
        return sum(batch.num_rows for batch in self._scan(1).read_batches())

    def merge_on_read(self) -> int:
        """Reads with the rows of one key merged."""
        schema = self._hostile.keyed_schema
        policy = to_merge_policy(schema, OPTIONS)
        scan = FileScan(self._store, self._files, schema, self._scan().columns, policy, threads=2)
        return sum(batch.num_rows for batch in scan.read_batches())

    def compact(self) -> int:
        """Rewrites the runs of a bucket."""
        work = RunRewrite("r", tuple(self._files), (), 10**6, 3)
        return _count(rewrite_runs(self._store, self._hostile.keyed_schema, OPTIONS, "a" * 32, work))

    def compact_appended(self) -> int:
        """Combines the files of a table without a key."""
        return _count(
            rewrite_files(
                self._store, self._hostile.schema, TableOptions({}), "b" * 32, FileRewrite("r", (*self._files,))
            )
        )

    def build_deletion_vectors(self) -> int:
        """Finds the rows that others replace."""
        built = build_deletion_vectors(
            self._store, self._hostile.keyed_schema, OPTIONS, "data/3/deletion-vectors-0", [self._files], lambda: None
        )
        return sum(section.deleted_count for section in built.sections)

    def look_up(self) -> int:
        """Writes the changelog of the second commit."""
        copies = CopyCache(self._folder / "copies", CacheLimits(None, 1 << 30, 1 << 40))
        changelogs = BucketChangelogs(self._store, self._hostile.keyed_schema, OPTIONS, "c" * 32, copies)
        emitted = changelogs.write(BucketLookup("c", (b"", 0), (self._files[1],), (self._files[0],)))
        return _count(emitted.files)

    def _scan(self, files: int = 2) -> FileScan:
        schema = self._hostile.schema
        columns = ScanColumns(tuple(schema.arrow), tuple(schema.arrow.names))
        return FileScan(self._store, self._files[:files], schema, columns, None, threads=2)


def _count(files: Iterable[Any]) -> int:
    return sum(file.row_count for file in files)


@dataclass(frozen=True)
class Result:
    """What work came to.

    Args:
        peak_mb: The most memory that the process has held; the libraries alone take some 150 MB.
        rows: How many rows it saw.
        error: The reason and the text of its error.
    """

    peak_mb: int
    rows: int
    error: str


def run(folder: Path, form: str, work: str, *, unprotected: bool = False) -> Result:
    """Does work in a process of its own."""
    arguments = [str(folder), form, work, "unprotected" if unprotected else ""]
    done = run_forked(_MODULE, arguments, folder=ROOT, environment=os.environ, within_s=240)
    assert done.returncode == 0, done.stderr
    return Result(**json.loads(done.stdout))


def main(arguments: Sequence[str]) -> None:
    """What `run` starts."""
    folder, form, work, unprotected = arguments
    if unprotected:
        _unprotect()
    rows, error = 0, ""
    try:
        rows = getattr(Work(Path(folder), form), work)()
    except LakelogError as failure:
        error = f"{failure.reason}: {failure}"
    except Exception as failure:
        # Without the protection, texts of two gigabytes are too much for Arrow as well.
        error = repr(failure)
    # Not `ru_maxrss`, which begins with that of the process that started this one.
    peak_mb = int(_PEAK.search(Path("/proc/self/status").read_text(encoding="utf-8"))[1]) >> 10  # type: ignore[index]
    sys.stdout.write(json.dumps(asdict(Result(peak_mb, rows, error))))


def _unprotect() -> None:
    """Decodes as many rows at once as if no value were large."""
    from lakelog.storage.parquet import reader
    from lakelog.storage.parquet.pages.decoding import Decoding, Leaf

    def plan_without_limit(leaves: Sequence[Leaf], row_count: int, most_rows: int, budget_bytes: int) -> Decoding:
        return Decoding(most_rows)

    vars(reader)["plan_decoding"] = plan_without_limit


if __name__ == "__main__":
    main(sys.argv[1:])
