"""Local copies of data files for lookups by key: uncompressed Arrow files, mapped into memory.

A copy has some columns of a data file, row by row in the file's order, and an index of its keys. If the key is one
integer-like column, that sorted column is the index. Otherwise the index is two columns: the keys' codes in rising
order and their positions. Both are searched for a batch of keys at a time; only the pages that are hit are read. A
Bloom filter, in the last batch of the copy, comes first: most keys are not in most small files.

A copy is written under a temporary name and renamed when it is complete, so no process sees half of one. It is not
synchronised to disk: the cache makes sure that no copy outlives a crash of the machine.

A checksum follows the Arrow file, since wrong rows from here would be committed into changelogs. Checking it reads all
of the copy, in some 2 % of the time that making it took, and detects any change until then, by a failing disk or
another program. Changed bytes in an open copy are not detected; a truncation is, whenever the cache returns the copy.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.keys.bloom_filter import KeyFilter, make_filter
from lakelog.format.keys.codes import Codes, are_exact, find_key_codes
from lakelog.format.keys.ordering import integer_values
from lakelog.format.merge.equality import equal_rows
from lakelog.storage.lookup.sought_keys import SoughtKeys
from lakelog.storage.parquet.reader import DataFileReader

RowIndices = npt.NDArray[np.int64]

_CODE: Final = "\x00code"
_POSITION: Final = "\x00position"
_ABSENT: Final = -1

_CHECKSUM_BYTES: Final = 4
_READ_BYTES: Final = 1 << 20

_FILTER: Final = b"lakelog.key-filter"
_MAX_FILTERED_ROWS: Final = 1 << 18
"""Larger files have no filter: they are few, most keys are in them, and it would take 50 ns or more per row to make."""


class LocalCopy:
    """An open copy. Threads may share it; it still works when its file is deleted, and holds no file descriptor.

    Args:
        path: A copy made by `write_copy`.
        check: Whether to read all of it and check that it is unchanged.

    Raises:
        OSError: It does not exist, or cannot be read.
        pa.ArrowInvalid: It is not complete, or with `check`: it has changed.
    """

    def __init__(self, path: Path, *, check: bool = True) -> None:
        if check:
            _check(path)
        # The buffers of the batches keep the mapping.
        with pa.memory_map(str(path)) as mapped:
            content = mapped.read_buffer()
        self.size_bytes: Final[int] = content.size
        with pa.ipc.open_file(content.slice(0, max(0, content.size - _CHECKSUM_BYTES))) as file:
            self._schema = file.schema
            self._batches = [file.get_batch(number) for number in range(file.num_record_batches)]
            last = file.num_record_batches - 1
            words = None if last < 0 else (file.get_batch_with_custom_metadata(last).custom_metadata or {}).get(_FILTER)
        self._filter: KeyFilter | None = None
        if words is not None:
            self._filter = KeyFilter(np.frombuffer(words, np.uint64))
            self._batches.pop()
        self._starts = np.concatenate([[0], np.cumsum([batch.num_rows for batch in self._batches])]).astype(np.int64)

    @property
    def row_count(self) -> int:
        """How many rows the data file has."""
        return int(self._starts[-1])

    @property
    def column_names(self) -> frozenset[str]:
        """The data file's columns that it contains."""
        return frozenset(self._schema.names) - {_CODE, _POSITION}

    def find(self, keys: SoughtKeys, places: RowIndices) -> RowIndices:
        """Finds the rows of some keys.

        Args:
            keys: Keys of the types that the copy was made with.
            places: Which of them to look up.

        Returns:
            For each place the position of its key's row in the data file; -1: there is none.
        """
        found = np.full(len(places), _ABSENT, np.int64)
        if self._filter is None:
            maybe = np.arange(len(places))
        else:
            hashes = keys.hashes if len(places) == len(keys) else keys.hashes.take(places)
            maybe = np.flatnonzero(self._filter.may_hold(hashes))
        if len(maybe):
            found[maybe] = self._find(keys, places[maybe])
        return found

    def _find(self, keys: SoughtKeys, places: RowIndices) -> RowIndices:
        codes = keys.codes[places]
        order = np.argsort(codes, kind="stable")
        in_order = codes[order]
        at = self._search(keys.table.schema.names[0] if keys.are_exact else _CODE, in_order)
        found = np.full(len(codes), _ABSENT, np.int64)
        if keys.are_exact:
            found[order] = at
            return found
        # Different keys can have the same code: those of one code are adjacent, and are compared in steps.
        names = keys.table.schema.names
        left = np.flatnonzero(at != _ABSENT)
        while len(left):
            positions = self._numbers(_POSITION, at[left])
            wanted = keys.table.take(pa.array(places[order[left]]))
            same = equal_rows(self._take(positions, names), wanted, names)
            found[order[left[same]]] = positions[same]
            left = left[~same]
            at[left] += 1
            left = left[at[left] < self.row_count]
            left = left[self._numbers(_CODE, at[left]) == in_order[left]]
        return found

    def take(self, positions: RowIndices, fields: Sequence[pa.Field]) -> pa.Table:
        """Returns some rows.

        Args:
            positions: Positions in the data file, in any order.
            fields: Columns of the copy.

        Returns:
            The rows in the order of the positions.
        """
        return self._take(positions, [field.name for field in fields])

    def _take(self, positions: RowIndices, names: Sequence[str]) -> pa.Table:
        schema = pa.schema([self._schema.field(name) for name in names])
        if len(self._batches) == 1:
            taken = self._batches[0].select(list(names)).take(pa.array(positions))
            return pa.Table.from_batches([taken], schema)
        order = np.argsort(positions, kind="stable")
        rising = positions[order]
        ends = np.searchsorted(rising, self._starts)
        parts = [
            batch.select(list(names)).take(pa.array(rising[first:last] - start))
            for batch, start, first, last in zip(self._batches, self._starts, ends, ends[1:], strict=False)
            if last > first
        ]
        rows = pa.Table.from_batches(parts, schema)
        if (order[1:] > order[:-1]).all():
            return rows
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return rows.take(pa.array(back))

    def _numbers(self, name: str, positions: RowIndices) -> RowIndices:
        return self._take(positions, [name]).column(0).to_numpy().astype(np.int64)

    def _search(self, name: str, codes: RowIndices) -> RowIndices:
        """The first place of each of the rising codes in a sorted column; -1 if it is missing."""
        places = np.full(len(codes), _ABSENT, np.int64)
        begun = 0
        for batch, start in zip(self._batches, self._starts, strict=False):
            # In the file's own integer width: a copy would cost more than the search.
            own = integer_values(batch.column(name))
            if len(own) == 0 or begun == len(codes):
                continue
            first, last = begun + np.searchsorted(codes[begun:], own[[0, -1]], side="left")
            end = last + int(np.searchsorted(codes[last:], own[-1], side="right"))
            wanted = codes[first:end].astype(own.dtype)
            at = np.searchsorted(own, wanted)
            hit = np.flatnonzero(own[np.minimum(at, len(own) - 1)] == wanted)
            # A code may begin in the batch before.
            hit = hit[places[first:end][hit] == _ABSENT]
            places[first + hit] = start + at[hit]
            begun = int(last)
        return places


ReadRows: TypeAlias = Callable[[Sequence[pa.Field]], Iterator[pa.RecordBatch]]
"""Reads columns of a data file's rows, in their order; called once or twice."""


def read_file(reader: DataFileReader) -> ReadRows:
    """Reads from the open data file."""

    def read(fields: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        return reader.read_batches(range(reader.metadata.num_row_groups), reader.map_columns(fields))

    return read


def read_rows(rows: pa.Table) -> ReadRows:
    """Reads from the rows themselves, with the same result as from the data file."""

    def read(fields: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in fields]
        yield from rows.select(names).combine_chunks().to_batches()

    return read


class CopyTooLargeError(Exception):
    """A copy would be larger than allowed."""


def write_copy(
    read: ReadRows, fields: Sequence[pa.Field], key: Sequence[str], path: Path, most_bytes: int | None = None
) -> None:
    """Makes a copy; memory holds 16 bytes per row, for small files 60, and some batches.

    Args:
        read: Reads the data file's rows; they are sorted by the key, one row a key.
        fields: The columns to copy, including those of the key.
        key: Names of the key's columns.
        path: The path of the copy; an existing one is replaced. The folder exists.
        most_bytes: The limit of its size; None: no limit.

    Raises:
        CopyTooLargeError: It would be larger; nothing of it remains.
        DataCorrupted: The data file is damaged.
        OSError: The copy cannot be written; nothing of it remains.
    """
    own = {field.name: field for field in fields}
    indexed = not are_exact([own[name].type for name in key])
    columns = [*fields, pa.field(_CODE, pa.int64()), pa.field(_POSITION, pa.int32())] if indexed else list(fields)
    schema = pa.schema([field.remove_metadata() for field in columns])
    codes, order = _index(read, [own[name] for name in key]) if indexed else (None, None)
    filtered: list[Codes] = []
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(part, "wb") as file:
            sink = _Summed(file)
            with pa.ipc.new_file(sink, schema) as writer:
                start = 0
                for batch in read(fields):
                    arrays = batch.columns
                    end = start + batch.num_rows
                    if codes is not None and order is not None:
                        arrays = [*arrays, pa.array(codes[start:end]), pa.array(order[start:end])]
                        filtered.append(codes[start:end])
                    elif end <= _MAX_FILTERED_ROWS:
                        filtered.append(find_key_codes([batch.column(name) for name in key]))
                    start = end
                    if most_bytes is not None and file.tell() + batch.nbytes > most_bytes:
                        raise CopyTooLargeError
                    writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                if start <= _MAX_FILTERED_ROWS:
                    words = make_filter(np.concatenate([np.empty(0, np.int64), *filtered]))
                    writer.write_batch(pa.RecordBatch.from_pylist([], schema), {_FILTER: words.tobytes()})
            file.write(_to_bytes(sink.checksum))
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _index(read: ReadRows, key: Sequence[pa.Field]) -> tuple[RowIndices, npt.NDArray[np.int32]]:
    """The codes of all keys in rising order, and the position of each."""
    codes = np.concatenate([np.empty(0, np.int64), *(find_key_codes(batch.columns) for batch in read(key))])
    order = np.argsort(codes, kind="stable")
    return codes[order], order.astype(np.int32)


class _Summed:
    """A file that Arrow writes to, with the checksum of what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.checksum = 0

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _to_bytes(checksum: int) -> bytes:
    return checksum.to_bytes(_CHECKSUM_BYTES, "little")


def _check(path: Path) -> None:
    # Not through the mapping: a disk that cannot read a page would end the process.
    checksum = 0
    with open(path, "rb", buffering=0) as file:
        left = os.fstat(file.fileno()).st_size - _CHECKSUM_BYTES
        while left > 0 and (part := file.read(min(left, _READ_BYTES))):
            checksum = zlib.crc32(part, checksum)
            left -= len(part)
        tail = file.read(_CHECKSUM_BYTES)
    if tail != _to_bytes(checksum):
        raise pa.ArrowInvalid(f"{path} is not as it was written: its checksum does not match.")
