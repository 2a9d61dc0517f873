"""Telling how far a stream is: to the metastore for `lakelog pipelines`, to the log, to Prometheus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lakelog.client.metastore import Metastore
from lakelog.errors import Fenced, LakelogError
from lakelog.format import work
from lakelog.serving.logs import Log

from .metrics import StreamMetrics
from .spec import SinkType, Stream

_MAX_ERROR: Final = 2000


class StreamProgress:
    """Keeps what was reported last, and reports anew. Used from one thread at a time.

    Args:
        stream: The stream.
        metastore: To whom reports go.
        metrics: What is measured.
        log: For lines.
    """

    def __init__(self, stream: Stream, metastore: Metastore, metrics: StreamMetrics, log: Log) -> None:
        self._metastore = metastore
        self._metrics = metrics
        self._log = log
        self._name = stream.name
        self._epoch = 0
        self._seen_batch = -1
        self._state = work.Pipeline(
            name=stream.name,
            table=stream.sink.table if stream.sink.type is SinkType.TABLE else stream.source.table,
            source=f"changes of {stream.source.table} to {stream.sink}"[:4000],
            state="starting",
            last_batch_id=None,
            position="",
            lag=None,
            total_rows=0,
            dead_letter_rows=0,
            last_error="",
        )

    def lead(self, epoch: int) -> None:
        """Reports under this epoch from here on. What an earlier run reported stays until it is known better."""
        self._epoch = epoch
        before = next((found for found in self._metastore.list_pipelines() if found.name == self._name), None)
        if before is not None and before.source == self._state.source:
            self._state = replace(
                self._state,
                last_batch_id=before.last_batch_id,
                position=before.position,
                lag=before.lag,
                total_rows=before.total_rows,
            )
        self._report(state="starting")

    def running(self) -> None:
        """Reports that it runs."""
        self._metrics.running.labels(self._name).set(1)
        self._report(state="running")

    def see(self, progress: Mapping[str, Any]) -> None:
        """Takes note of a batch as Spark tells of it; of one that was told of before, or took nothing, of nothing."""
        batch_id, rows = int(progress["batchId"]), int(progress["numInputRows"])
        snapshot_id, table_uuid = _read_offset(progress)
        position = f"snapshot {snapshot_id}"
        if batch_id <= self._seen_batch or position == self._state.position:
            return
        self._seen_batch = batch_id
        lag = self._measure_lag(table_uuid, snapshot_id)
        labels = self._name
        self._metrics.batches.labels(labels).inc()
        self._metrics.rows.labels(labels).inc(rows)
        self._metrics.last_batch_id.labels(labels).set(batch_id)
        self._metrics.snapshot_id.labels(labels).set(snapshot_id)
        if lag is not None:
            self._metrics.lag_snapshots.labels(labels).set(lag)
        self._log.info("batch done", batch_id=batch_id, rows=rows, snapshot_id=snapshot_id, lag=lag)
        self._state = replace(
            self._state,
            last_batch_id=batch_id,
            position=position,
            lag=lag,
            total_rows=self._state.total_rows + rows,
            last_error="",
        )
        self._report(state="running")

    def failed_for_now(self, error: BaseException) -> None:
        """Reports an error after which the batch is tried again."""
        self._metrics.failures.labels(self._name).inc()
        self._report(last_error=_one_line(error))

    def ended(self, error: BaseException | None) -> None:
        """Reports the end: `stopped`, or `failed` with what was wrong."""
        self._metrics.running.labels(self._name).set(0)
        if error is None:
            self._report(state="stopped")
        else:
            self._report(state="failed", last_error=_one_line(error))

    def _measure_lag(self, table_uuid: str, snapshot_id: int) -> int | None:
        try:
            (latest,) = self._metastore.list_latest([table_uuid])
        except LakelogError:
            return None
        return max(latest.snapshot_id - snapshot_id, 0)

    def _report(self, **changes: str) -> None:
        self._state = replace(self._state, **changes)  # type: ignore[arg-type]
        if not self._epoch:
            return
        try:
            self._metastore.report_pipeline(self._state, self._epoch)
        except Fenced:
            # The lease's keeper, or the next batch, finds out the same and acts on it.
            self._log.warning("report refused: another instance has taken over", epoch=self._epoch)
        except LakelogError as error:
            self._log.warning("report lost", error=error.message)


def _read_offset(progress: Mapping[str, Any]) -> tuple[int, str]:
    offset = progress["sources"][0]["endOffset"]
    while isinstance(offset, str):
        # Spark tells it as a text, which holds the JSON that the source made.
        offset = json.loads(offset)
    return int(offset["snapshot"]), str(offset["table"])


def _one_line(error: BaseException) -> str:
    text = " ".join((str(error) or type(error).__name__).split())
    text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _MAX_ERROR else text[: _MAX_ERROR - 3] + "..."
