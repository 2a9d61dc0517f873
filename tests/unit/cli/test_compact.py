"""What `lakelog table compact` tells while it waits."""

from __future__ import annotations

import io

from lakelog.cli.commands.tables.compact import _Progress
from lakelog.cli.output.output_format import OutputFormat
from lakelog.cli.output.printer import Printer
from lakelog.sdk.maintenance.compaction_wait import CompactionProgress


class _Clock:
    time_s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds


def test_progress_is_reported_where_there_is_some_and_once_a_second_at_most() -> None:
    clock, err = _Clock(), io.StringIO()
    progress = _Progress(Printer(OutputFormat.TABLE, io.StringIO(), err), clock)
    for time_s, ended, running in ((0.5, 1, 1), (1.0, 2, 1), (1.5, 3, 1), (2.5, 3, 1), (60.0, 3, 1), (61.0, 9, 0)):
        clock.time_s = time_s
        progress.report(CompactionProgress(9, ended, running))
    assert err.getvalue().splitlines() == [
        "2 of 9 buckets ended, 1 being compacted.",
        "3 of 9 buckets ended, 1 being compacted.",
        "9 of 9 buckets ended, 0 being compacted.",
    ]
