"""Where the rows of a scan come from: one read, or several, one behind the other."""

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
        """The data files it is about."""

    @property
    def returned_schema(self) -> pa.Schema:
        """The columns that are returned."""

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the rows; a generator, which ends the read when it is closed. None of the batches is empty."""

    def count_rows(self) -> int:
        """Counts the rows that `read_batches` gives."""

    def with_caches(self, caches: Caches | None) -> RowSource:
        """Itself with the caches of a process, or with none, to be taken to another one."""

    def counted_by(self, counts: ReadCounts) -> RowSource:
        """Itself, telling what it reads; what it looks up, the caches count."""


@dataclass(frozen=True)
class SuccessiveRows:
    """The rows of several sources, those of each behind those of the one before.

    Args:
        sources: Their columns may differ from those that are returned in what may be NULL.
        returned_schema: The columns that are returned.
    """

    sources: Sequence[RowSource]
    returned_schema: pa.Schema

    @property
    def files(self) -> Sequence[LiveFile]:
        """The files of all."""
        return [file for source in self.sources for file in source.files]

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the sources one after the other."""
        schema = self.returned_schema
        for source in self.sources:
            with closing(cast(Generator[pa.RecordBatch, None, None], source.read_batches())) as batches:
                for batch in batches:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema) if len(schema) else batch

    def count_rows(self) -> int:
        """Counts the rows of all."""
        return sum(source.count_rows() for source in self.sources)

    def with_caches(self, caches: Caches | None) -> SuccessiveRows:
        """Itself with the caches of a process, or with none."""
        return dataclasses.replace(self, sources=[source.with_caches(caches) for source in self.sources])

    def counted_by(self, counts: ReadCounts) -> SuccessiveRows:
        """Itself, telling what its sources read."""
        return dataclasses.replace(self, sources=[source.counted_by(counts) for source in self.sources])
