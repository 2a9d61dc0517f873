"""Reports the progress of a stream: to the metastore for `lakelog pipelines`, to the log, to Prometheus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.pipeline_report import PipelineReport
from lakelog.spark.stream.offsets import StreamOffset

from .metrics import StreamMetrics
from .spec import SinkType, Stream


class StreamProgress:
    """Remembers the last report, and reports again. Used from one thread at a time."""

    def __init__(self, stream: Stream, metastore: Metastore, metrics: StreamMetrics, log: Logger) -> None:
        self._metastore = metastore
        self._metrics = metrics
        self._log = log
        self._name = stream.name
        # Alerts see neither a stream that has never run nor its first failure in a metric that is not there yet.
        metrics.running.labels(self._name).set(0)
        metrics.failures.labels(self._name)
        self._seen_batch = -1
        self._report = PipelineReport(
            metastore,
            log,
            name=stream.name,
            table=stream.sink.table if stream.sink.type is SinkType.TABLE else stream.source.table,
            source=f"changes of {stream.source.table} to {stream.sink}",
        )

    def lead(self, epoch: int) -> None:
        """Reports under this epoch from now on. The reports of an earlier run stay until newer ones replace them."""
        source = self._report.state.source
        self._report.lead(epoch, lambda before: before.source == source)

    @property
    def is_running(self) -> bool:
        """Whether its last report says that it runs; any thread may call this."""
        return self._report.state.state == "running"

    def running(self) -> None:
        """Reports that it runs."""
        self._metrics.running.labels(self._name).set(1)
        self._report.update(state="running")

    def see(self, progress: Mapping[str, Any]) -> None:
        """Takes note of a batch from Spark's progress; a known or empty batch changes nothing."""
        batch_id, rows = int(progress["batchId"]), int(progress["numInputRows"])
        offset = _read_offset(progress)
        snapshot_id, table_uuid = offset.snapshot_id, offset.table_uuid
        position = f"snapshot {snapshot_id}"
        if offset.has_rows_before and offset.file_count is not None:
            position += f", {offset.files_done} of {offset.file_count} files of its rows"
        if batch_id <= self._seen_batch or position == self._report.state.position:
            return
        self._seen_batch = batch_id
        lag = self._measure_lag(table_uuid, snapshot_id)
        labels = self._name
        self._metrics.batches.labels(labels).inc()
        self._metrics.rows.labels(labels).inc(rows)
        self._metrics.last_batch_id.labels(labels).set(batch_id)
        self._metrics.last_batch_timestamp.labels(labels).set_to_current_time()
        self._metrics.snapshot_id.labels(labels).set(snapshot_id)
        if lag is not None:
            self._metrics.lag_snapshots.labels(labels).set(lag)
        self._log.info("batch done", batch_id=batch_id, rows=rows, snapshot_id=snapshot_id, lag=lag)
        self._report.state = replace(
            self._report.state,
            last_batch_id=batch_id,
            position=position,
            lag=lag,
            total_rows=self._report.state.total_rows + rows,
            last_error="",
        )
        self._report.update(state="running")

    def failed_for_now(self, error: BaseException) -> None:
        """Reports an error after which the batch is tried again."""
        self._metrics.failures.labels(self._name).inc()
        self._report.report_failure(error)

    def ended(self, error: BaseException | None) -> None:
        """Reports the end: `stopped`, or `failed` with the error."""
        self._metrics.running.labels(self._name).set(0)
        self._report.report_end(error)

    def _measure_lag(self, table_uuid: str, snapshot_id: int) -> int | None:
        try:
            (latest,) = self._metastore.list_latest([table_uuid])
        except LakelogError:
            return None
        return max(latest.snapshot_id - snapshot_id, 0)


def _read_offset(progress: Mapping[str, Any]) -> StreamOffset:
    offset = progress["sources"][0]["endOffset"]
    while isinstance(offset, str):
        # Spark gives it as a string, which contains the JSON of the source.
        offset = json.loads(offset)
    return StreamOffset.from_json(offset)
