"""Committed positions: which rows of a bucket a commit superseded, as its writer found them when it looked rows up.

A small Parquet file with two columns: `file`, the path of a data file in its table, and `position`, a row's position in
it. It has paths, because files that the commit itself brings have no id yet. Positions stay valid: a row that was
superseded once is never shown again.

The rows of an append table that commits have removed are written in the same form: for each data file all positions
that no read shows. Each data file has a row group of its own, and the footer lists their paths, so that a reader of one
data file reads no others' positions.

The positions of a commit's own lookup are valid by themselves. Positions that were found later, for all files of a
section at once, depend on all of these files: such a file also lists them, and is valid while all of them are live.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.errors import DataCorrupted, Unavailable
from lakelog.storage.objects.io_errors import translate_io_error
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.pages.decoding import DECODED_BYTES, Leaf, plan_decoding
from lakelog.storage.parquet.pages.page_headers import read_chunk_pages
from lakelog.storage.parquet.reader import PARQUET_LIMITS, check_footer_size, translated
from lakelog.storage.parquet.writer import PATH_KEY

RowIndices = npt.NDArray[np.int64]

_SECTIONS_KEY: Final = "lakelog.sections"

_FILES_KEY: Final = "lakelog.files"
"""The data file of each row group; files of earlier versions have one row group for all, and no such list."""

_MOST_POSITIONS: Final = 1 << 26
"""A commit replaces more rows of a bucket only if the bucket is far too large."""

_BATCH_ROWS: Final = 1 << 18
"""So many positions are decoded at once; each takes some forty bytes of memory meanwhile."""

_MOST_FOOTER_BYTES: Final = 8 << 20
"""A footer takes some 25 times its size in memory. Ours have two columns, and the paths of the sections' files."""

_SCHEMA: Final = pa.schema(
    [pa.field("file", pa.dictionary(pa.int32(), pa.string()), False), pa.field("position", pa.int32(), False)],
)
"""A data file has less than two thousand million rows."""


@dataclass(frozen=True)
class CommittedDeletionVectors:
    """The content of a file of positions.

    Args:
        by_path: Rising positions by the data file's path.
        sections: Paths of files that are valid only together; empty: each position is valid by itself.
    """

    by_path: Mapping[str, RowIndices]
    sections: Sequence[Collection[str]] = ()

    def hold_for(self, paths: Collection[str]) -> bool:
        """Whether they are valid among some files, which are all whose keys meet. Pure."""
        there = set(paths)
        return all(there.isdisjoint(section) or there.issuperset(section) for section in self.sections)


def write_deletion_vectors(
    store: ObjectStore,
    path: str,
    deleted: Mapping[str, RowIndices],
    sections: Sequence[Sequence[str]] = (),
) -> None:
    """Writes which rows of some data files are superseded; blocks until it is durable.

    Args:
        store: Where the table's files are.
        path: The path to write to.
        deleted: Rising positions by the file's path.
        sections: Paths of the files whose positions were found together, and which the positions depend on; empty if
            each is valid by itself.

    Raises:
        AlreadyExists: There is such a file; other errors of the store are possible as well.
    """
    writer = DeletionVectorWriter(store, path)
    for name in sorted(deleted):
        writer.add(name, deleted[name])
    writer.finish(sections)


class DeletionVectorWriter:
    """Writes a file of deletion vectors, data file by data file; it is encoded in memory until it is finished.

    Args:
        store: Where the table's files are.
        path: The path to write to.
    """

    def __init__(self, store: ObjectStore, path: str) -> None:
        self.path: Final = path
        self._store = store
        self._sink = pa.BufferOutputStream()
        self._files: list[str] = []
        self._parquet = pq.ParquetWriter(
            self._sink,
            _SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=["file"],
            column_encoding={"position": "DELTA_BINARY_PACKED"},
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        )

    def add(self, name: str, positions: RowIndices) -> None:
        """Adds the rising positions of a data file, given by its path; each file once."""
        numbers = pa.array(np.zeros(len(positions), np.int32))
        files = pa.DictionaryArray.from_arrays(numbers, pa.array([name], pa.string()))
        rows = pa.Table.from_arrays([files, pa.array(positions.astype(np.int32))], schema=_SCHEMA)
        if len(positions):
            self._parquet.write_table(rows, row_group_size=len(positions))
            self._files.append(name)

    def finish(self, sections: Sequence[Sequence[str]] = ()) -> None:
        """Writes the file; blocks until it is durable. Arguments and errors as of `write_deletion_vectors`."""
        # The file contains its own path, so a file that was moved to another's place is detected.
        self._parquet.add_key_value_metadata({PATH_KEY: self.path, _FILES_KEY: json.dumps(self._files)})
        if sections:
            self._parquet.add_key_value_metadata({_SECTIONS_KEY: json.dumps([list(each) for each in sections])})
        self._parquet.close()
        _write(self._store, self.path, self._sink.getvalue())


def _write(store: ObjectStore, path: str, content: pa.Buffer) -> None:
    writer = store.create(path)
    try:
        writer.sink.write(content)
        writer.commit()
    except OSError as error:
        writer.abort()
        name = f"{store.location}{path}"
        raise translate_io_error(error, name) or Unavailable(
            f"File {name} cannot be written: {str(error)[:300]}. Nothing of it is visible; write again.",
            metadata={"path": name},
        ) from error
    except BaseException:
        writer.abort()
        raise


def read_deletion_vectors(store: ObjectStore, path: str, row_counts: Mapping[str, int]) -> CommittedDeletionVectors:
    """Reads what a file of `write_deletion_vectors` says of some data files. Blocks.

    Memory holds eight bytes for each row of these data files at most: a small file can stand for millions of positions.

    Args:
        store: Where the table's files are.
        path: The file.
        row_counts: The number of rows by the data file's path. Others are passed over, as compactions replace files.

    Raises:
        DataCorrupted: It is damaged or missing, or names rows that a data file does not have; named.
    """
    found: dict[str, list[RowIndices]] = {}
    with translated(f"{store.location}{path}"), store.open_input(path) as source:
        check_footer_size(source, source.size(), _MOST_FOOTER_BYTES)
        try:
            parquet = pq.ParquetFile(source, read_dictionary=["file"], **PARQUET_LIMITS)
        except KeyError:
            raise DataCorrupted("it holds no positions of rows") from None
        said = parquet.metadata.metadata or {}
        named = said.get(PATH_KEY.encode(), b"").decode(errors="replace")
        if named != path:
            raise DataCorrupted(f"it is the file {named[:200]}, put in this one's place", reason="FILE_SWAPPED")
        if parquet.schema_arrow.remove_metadata() != _SCHEMA:
            raise DataCorrupted("it holds no positions of rows")
        sections = _read_sections(said.get(_SECTIONS_KEY.encode(), b"[]"))
        groups = _pick_groups(said.get(_FILES_KEY.encode()), parquet.metadata.num_row_groups, row_counts)
        for batch in _read_batches(parquet, source, groups):
            for name, indices in _split_by_file(batch):
                if name in row_counts:
                    _add(found.setdefault(name, []), name, indices, row_counts[name])
    return CommittedDeletionVectors({name: np.concatenate(parts) for name, parts in found.items()}, sections)


def is_deletion_vector_file(parquet: pq.ParquetFile) -> bool:
    """Whether a file has positions and no rows of the table."""
    return bool(parquet.schema_arrow.remove_metadata() == _SCHEMA or parquet.schema_arrow.names == _SCHEMA.names)


def _pick_groups(said: bytes | None, group_count: int, row_counts: Mapping[str, int]) -> Sequence[int]:
    """The row groups with positions of some data files."""
    if said is None:
        return range(group_count)
    names = _read_names(said)
    if len(names) != group_count:
        raise DataCorrupted(f"it has {group_count} row groups, and says so of {len(names)}")
    return [number for number, name in enumerate(names) if name in row_counts]


def _read_batches(parquet: pq.ParquetFile, source: pa.NativeFile, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
    metadata = parquet.metadata
    count = sum(metadata.row_group(group).num_rows for group in groups)
    if count > _MOST_POSITIONS:
        raise DataCorrupted(f"it claims {count} positions, and at most {_MOST_POSITIONS} are read")
    for group in groups:
        row_group = metadata.row_group(group)
        leaves = [
            Leaf(metadata.schema.column(place), read_chunk_pages(source.read_at, row_group.column(place)))
            for place in range(row_group.num_columns)
        ]
        decoding = plan_decoding(leaves, row_group.num_rows, _BATCH_ROWS, DECODED_BYTES)
        yield from parquet.iter_batches(decoding.rows, row_groups=[group], use_threads=False)


def _split_by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, RowIndices]]:
    files, positions = batch.columns
    numbers = np.asarray(files.indices)
    indices = positions.to_numpy().astype(np.int64)
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(np.unique(numbers)) < len(starts):
        # Each change of file is a step in Python, and a small file can have millions.
        raise DataCorrupted("the positions of a data file do not stand together")
    names = files.dictionary.take(pa.array(numbers[starts])).to_pylist()
    return zip(names, np.split(indices, starts[1:]), strict=True)


def _add(parts: list[RowIndices], name: str, indices: RowIndices, row_count: int) -> None:
    """Adds the next positions of a data file; they rise, so there are never more than the file has rows."""
    least = parts[-1][-1] + 1 if parts else 0
    if indices[0] < least or indices[-1] >= row_count or (np.diff(indices) <= 0).any():
        raise DataCorrupted(
            f"the positions that it has for data file {name} are none of its {row_count} rows, or do not rise"
        )
    parts.append(indices)


def _read_names(text: bytes) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise DataCorrupted(f"it does not say which files it is about: {text[:100]!r}")
    return [str(name) for name in found]


def _read_sections(text: bytes) -> list[list[str]]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(section, list) for section in found):
        raise DataCorrupted(f"it does not say which files it is about: {text[:100]!r}")
    return [[str(path) for path in section] for section in found]
