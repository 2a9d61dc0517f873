"""One table of files out of the chunks of a plan. Pure and vectorised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import DataCorrupted
from lakelog.format.tables.files import FILE_SCHEMA, STATISTICS_FIELD

ORDER: Final = ("partition", "bucket", "order_snapshot", "order_ordinal", "file_id")
"""The columns that order the files of a plan; all that a compaction writes into one bucket has one order key."""


def assemble_files(chunks: Iterable[tuple[bytes, Iterable[int]]], *, with_statistics: bool = False) -> pa.Table:
    """Puts the chunks of a plan together.

    Args:
        chunks: For each chunk an Arrow IPC stream with the columns of `FILE_SCHEMA`, and the ids of files, of this
            chunk or of any other, that do not belong to the plan.
        with_statistics: The plan was requested with statistics.

    Returns:
        One row for each file, with the columns of `FILE_SCHEMA` and perhaps `STATISTICS_FIELD`, ordered by `ORDER`.

    Raises:
        DataCorrupted: A chunk is not such a stream.
    """
    tables: list[pa.Table] = []
    without: list[int] = []
    for number, (entries, without_file_ids) in enumerate(chunks):
        tables.append(_read_chunk(entries, number, with_statistics=with_statistics))
        without.extend(without_file_ids)
    if not tables:
        return (FILE_SCHEMA.append(STATISTICS_FIELD) if with_statistics else FILE_SCHEMA).empty_table()
    files = pa.concat_tables(tables)
    if without:
        files = files.filter(pc.invert(pc.is_in(files["file_id"], value_set=pa.array(without, pa.int64()))))
    files = files.combine_chunks()
    if not _is_ordered(files):
        files = files.sort_by([(name, "ascending") for name in ORDER])
    return files


def _read_chunk(entries: bytes, number: int, *, with_statistics: bool) -> pa.Table:
    try:
        table = pa.ipc.open_stream(pa.py_buffer(entries)).read_all()
        table.validate()
        files = table.select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
        if not with_statistics:
            return files
        # A metastore of an earlier version does not know the request, and sends none.
        is_known = STATISTICS_FIELD.name in table.schema.names
        found = table.column(STATISTICS_FIELD.name) if is_known else pa.nulls(table.num_rows)
        return files.append_column(STATISTICS_FIELD, found.cast(STATISTICS_FIELD.type))
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataCorrupted(
            f"Chunk {number} of the plan ({len(entries)} bytes) is not an Arrow stream of file entries: {error}. "
            "Plan again; if it comes back, the metastore is of another version or its stored chunks are damaged.",
            metadata={"chunk": str(number)},
        ) from error


def _is_ordered(files: pa.Table) -> bool:
    """Whether no row sorts before its predecessor. Far cheaper than sorting, and mostly true."""
    if files.num_rows < 2:
        return True
    # From the last column to the first: greater, or equal and in order by the columns after it.
    ordered: pa.ChunkedArray | None = None
    for name in reversed(ORDER):
        before, after = files[name].slice(0, files.num_rows - 1), files[name].slice(1)
        if ordered is None:
            ordered = pc.less_equal(before, after)
        else:
            ordered = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), ordered))
    return bool(pc.all(ordered).as_py())
