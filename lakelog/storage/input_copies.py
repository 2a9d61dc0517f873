"""Which of the records that a table takes are written as they came, besides the sorted runs that are made of them."""

from __future__ import annotations

import enum

from lakelog.format.snapshot import LogContent
from lakelog.options.table_options import PRECOMMIT_COMPACT
from lakelog.options.values import TableOptions


class InputCopies(enum.Enum):
    """Records in files of their own: a bucket's of one buffer each, ordered by key, then arrival."""

    NONE = "none"
    """None are written."""
    ALL = "all"
    """All of them."""
    MERGED = "merged"
    """Those of buffers in which a key came more than once; else the run holds all records itself and is named in the
    place of a copy."""


def plan_input_copies(options: TableOptions, producer: str, log: LogContent) -> InputCopies:
    """Which copies the changelog and the log of a commit ask for. Pure.

    Args:
        options: The table's.
        producer: Who makes the commit's changelog (`lakelog.writes.commit_changelog.find_producer`).
        log: What the commit brings to the external log.
    """
    if producer == "input":
        return InputCopies.ALL
    if log is not LogContent.SEGMENTS:
        return InputCopies.NONE
    # Runs that are merged before the commit are no place for records that came before.
    return InputCopies.ALL if options.get(PRECOMMIT_COMPACT) else InputCopies.MERGED
