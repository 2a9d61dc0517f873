"""Reports the progress of a pipeline: to the metastore for `lakelog pipelines`, to the log, to Prometheus."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.pipeline_report import PipelineReport

from .checkpoint import Totals
from .metrics import Metrics
from .pipeline.spec import Pipeline
from .source_progress import PlannedBatch, SourceProgress

_MOST_NAMES: Final = 20
"""Columns that a line of the log names."""


@dataclass(frozen=True)
class DoneBatch:
    """A batch that is committed.

    Args:
        planned: What it took.
        rows: Rows it brought.
        dead_letters: Records it set aside.
        totals: The totals including it.
        seconds: How long it took.
        already_applied: Whether an earlier try had committed it.
        ignored: Columns that it has and the table does not, where the pipeline leaves such out.
    """

    planned: PlannedBatch
    rows: int
    dead_letters: int
    totals: Totals
    seconds: float
    already_applied: bool
    ignored: tuple[str, ...] = ()


class Progress:
    """Remembers the last report, and reports again. Used from one thread at a time."""

    def __init__(self, pipeline: Pipeline, metastore: Metastore, metrics: Metrics, log: Logger) -> None:
        self._metrics = metrics
        self._unit = pipeline.source.unit
        self._log = log
        self._report = PipelineReport(
            metastore,
            log,
            name=pipeline.name,
            table=pipeline.table,
            source=pipeline.source.description,
        )

    def lead(self, epoch: int) -> None:
        """Reports under this epoch from now on. The reports of an earlier run stay until newer ones replace them."""
        table = self._report.state.table
        self._report.lead(epoch, lambda before: before.table == table)

    @property
    def is_running(self) -> bool:
        """Whether its last report says that it runs; any thread may call this."""
        return self._report.state.state == "running"

    def begin(self, totals: Totals, last: PlannedBatch | None) -> None:
        """Takes the results of earlier runs from the checkpoint."""
        self._apply(totals, last)

    def running(self) -> None:
        """Reports that it runs."""
        self._metrics.running.set(1)
        self._report.update(state="running")

    def batch_done(self, batch: DoneBatch) -> None:
        """Reports a batch."""
        self._apply(batch.totals, batch.planned)
        self._metrics.batches.inc()
        self._metrics.taken.inc(batch.planned.size)
        self._metrics.rows.inc(batch.rows)
        self._metrics.dead_letters.inc(batch.dead_letters)
        self._metrics.last_batch_timestamp.set_to_current_time()
        self._metrics.batch_seconds.observe(batch.seconds)
        self._metrics.ignored_columns.set(len(batch.ignored))
        self._log.info(
            "batch committed",
            batch_id=batch.planned.batch_id,
            **{self._unit: batch.planned.size},
            rows=batch.rows,
            dead_letters=batch.dead_letters,
            position=self._report.state.position,
            lag=self._report.state.lag,
            seconds=round(batch.seconds, 3),
            already_applied=batch.already_applied,
            **({"ignored_columns": list(batch.ignored[:_MOST_NAMES])} if batch.ignored else {}),
        )
        self._report.update(state="running", last_error="")

    def batch_waits(self, batch: PlannedBatch | None) -> None:
        """Records a batch that failed: its input, and all that comes later, waits in the source."""
        if batch is not None:
            self._place(batch.before)

    def failed_for_now(self, error: BaseException) -> None:
        """Reports an error after which the batch is tried again."""
        self._metrics.failures.inc()
        self._report.report_failure(error)

    def files_changed(self, paths: tuple[str, ...]) -> None:
        """Reports files that changed after they were read: their present content is not in the table."""
        self._metrics.changed_files.set(len(paths))
        if not paths:
            return
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        what = (
            f"File {paths[0]}{more} changed after it was read; what it holds now is not read. Give new content a new "
            "name."
        )
        self._log.warning("files changed after they were read", paths=list(paths[:20]), count=len(paths))
        self._report.update(last_error=what)

    def ended(self, error: BaseException | None) -> None:
        """Reports the end: `stopped`, or `failed` with the error."""
        self._metrics.running.set(0)
        self._report.report_end(error)

    def _apply(self, totals: Totals, last: PlannedBatch | None) -> None:
        self._report.state = replace(self._report.state, total_rows=totals.rows, dead_letter_rows=totals.dead_letters)
        if last is not None:
            self._report.state = replace(self._report.state, last_batch_id=last.batch_id)
            self._metrics.last_batch_id.set(last.batch_id)
            self._place(last.after)

    def _place(self, source_progress: SourceProgress) -> None:
        self._report.state = replace(self._report.state, position=source_progress.position, lag=source_progress.lag)
        self._metrics.lag.set(source_progress.lag)
        for part in source_progress.partitions:
            self._metrics.set_partition_lag(part.topic, part.partition, part.lag)
