"""What a pipeline reports reaches the metastore, whatever stands in the record that stopped it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from metastore.memory import MemoryStore
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from writer.files.batch_log import BatchFiles
from writer.files.listing import FoundFile
from writer.kafka.offset_log import BatchOffsets, TopicRanges
from writer.kafka.ranges import OffsetRange
from writer.metrics import Metrics
from writer.pipeline.spec import BadRecords, FileSource, Format, Mode, Pipeline
from writer.progress import Progress


@pytest.fixture
def metastore() -> Iterator[InProcessMetastore]:
    async def open_store() -> MemoryStore:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, lambda store: UseCases(store, "file:///w/"))
    yield metastore
    metastore.close()


def test_files_of_a_batch_that_failed_wait_in_the_source(metastore: InProcessMetastore) -> None:
    progress, epoch, _ = make_progress(metastore)
    progress.lead(epoch)
    files = (FoundFile("a.csv", 1, 1), FoundFile("b.csv", 1, 1))
    progress.batch_waits(BatchFiles(3, files, 5, 9))
    progress.batch_waits(None)
    progress.ended(InvalidArgument("x", reason="BAD_RECORD"))
    (found,) = metastore.list_pipelines()
    assert (found.position, found.lag, found.last_batch_id) == ("5 of 9 files", 4, None)


def make_progress(metastore: InProcessMetastore) -> tuple[Progress, int, Metrics]:
    source = FileSource(Path("/in"), Format.CSV)
    pipeline = Pipeline(
        Path("p.yaml"), "p", "d.t", None, source, Mode.APPEND, None, 1.0, Path("/c"), BadRecords.STOP, None
    )
    epoch = metastore.acquire_lease(pipeline.lease, "me", 60_000).epoch
    metrics = Metrics("p", "files")
    return Progress(pipeline, metastore, metrics, structlog.get_logger()), epoch, metrics


@pytest.mark.parametrize("text", ["a\0b", "half a \ud800 character", "line\nbreak", "x" * 10_000])
def test_the_last_error_is_reported_whatever_is_in_it(metastore: InProcessMetastore, text: str) -> None:
    progress, epoch, _ = make_progress(metastore)
    progress.lead(epoch)
    progress.ended(InvalidArgument(text, reason="BAD_RECORD"))
    (found,) = metastore.list_pipelines()
    assert found.state == "failed"
    assert found.last_error.isprintable()
    assert found.last_error[:4] == {"a": "a\\x0", "h": "half", "l": "line", "x": "xxxx"}[text[0]]


def test_each_partition_of_a_topic_has_its_lag(metastore: InProcessMetastore) -> None:
    progress, epoch, metrics = make_progress(metastore)
    progress.lead(epoch)
    ranges = (OffsetRange("orders", 0, 5, 7), OffsetRange("orders", 1, 0, 0))
    progress.batch_waits(BatchOffsets(3, (TopicRanges("orders", "id", ranges, (9, 4)),), 5))
    labels = {"pipeline": "p", "topic": "orders"}
    found = {
        number: metrics.registry.get_sample_value(
            "lakelog_writer_partition_lag_records", {**labels, "partition": str(number)}
        )
        for number in (0, 1)
    }
    assert found == {0: 4, 1: 4}
    assert metrics.registry.get_sample_value("lakelog_writer_lag_files", {"pipeline": "p"}) == 8
