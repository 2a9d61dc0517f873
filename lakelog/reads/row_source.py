"""Where the rows of a scan come from: one read, or several in sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, cast

import pyarrow as pa

from lakelog.storage.lookup.caches import Caches
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.read_counts import ReadCounts


class RowSource(Protocol):
    """Where the rows of a scan come from; picklable without its caches."""

    @property
    def files(self) -> Sequence[LiveFile]:
        """The data files to read."""

    @property
    def returned_schema(self) -> pa.Schema:
        """The returned columns."""

    def read_batches(self, *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Reads the rows; a generator. Closing it ends the read. None of the batches is empty.

        Args:
            limit: How many rows the caller takes; None: all. More rows can come, but fewer are read ahead.
        """

    def count_rows(self) -> int:
        """Counts the rows that `read_batches` returns."""

    def with_caches(self, caches: Caches | None) -> RowSource:
        """A copy with the caches of a process, or without caches, to be sent to another process."""

    def counted_by(self, counts: ReadCounts) -> RowSource:
        """A copy that counts what it reads; the caches count what it looks up."""


@dataclass(frozen=True)
class SuccessiveRows:
    """The rows of several sources in sequence.

    Args:
        sources: Their columns may differ from the returned ones in nullability.
        returned_schema: The returned columns.
    """

    sources: Sequence[RowSource]
    returned_schema: pa.Schema

    @property
    def files(self) -> Sequence[LiveFile]:
        """The files of all sources."""
        return [file for source in self.sources for file in source.files]

    def read_batches(self, *, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Reads the sources one after the other."""
        schema = self.returned_schema
        left = limit
        for source in self.sources:
            with closing(cast(Generator[pa.RecordBatch, None, None], source.read_batches(limit=left))) as batches:
                for batch in batches:
                    if left is not None:
                        left = max(0, left - batch.num_rows)
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if len(schema) else batch
            if left == 0:
                return

    def count_rows(self) -> int:
        """Counts the rows of all sources."""
        return sum(source.count_rows() for source in self.sources)

    def with_caches(self, caches: Caches | None) -> SuccessiveRows:
        """A copy with the caches of a process, or without caches."""
        return dataclasses.replace(self, sources=[source.with_caches(caches) for source in self.sources])

    def counted_by(self, counts: ReadCounts) -> SuccessiveRows:
        """A copy whose sources count what they read."""
        return dataclasses.replace(self, sources=[source.counted_by(counts) for source in self.sources])
