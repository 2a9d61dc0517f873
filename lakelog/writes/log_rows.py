"""Refuses rows whose records would not fit into the external log when they are written (reliability R7)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.format.tables.snapshot import LogContent
from lakelog.format.tables.table import TableInfo
from lakelog.log.codecs import LogCodec
from lakelog.log.table_codec import load_log_settings, make_codec


@dataclass(frozen=True)
class LogRows:
    """What a table's log accepts. Picklable; pure.

    Args:
        codec: Makes its records.
        max_record_bytes: The size of the largest allowed record.
    """

    codec: LogCodec
    max_record_bytes: int

    def check(self, rows: pa.Table) -> None:
        """Checks that each row fits.

        Raises:
            InvalidArgument: Names the first row that does not.
        """
        self.codec.check_row_sizes(rows, self.max_record_bytes)


def plan_log_rows(info: TableInfo, log: LogContent) -> LogRows | None:
    """Returns the check for the rows of a commit; None: the commit brings nothing to a log. Pure."""
    if log is LogContent.NONE:
        return None
    return LogRows(make_codec(info, info.schema), load_log_settings(info).max_record_bytes)
