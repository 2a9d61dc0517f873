"""What a commit brings to its table's external log, and the rules for it (semantics 4.1, 4.7). Pure.

All rows of the files of a table with a log go into the log as well. A commit that does not bring them is refused: its
writer does not know of the log, and the rows would never be published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lakelog.errors import CommitConflict
from lakelog.format.commit.facts import TableHead
from lakelog.format.commit.request import Change
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import LogContent, SnapshotKind
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.log import CHANGELOG_CONTENT, KAFKA, LOG_CONTENT, LOG_SYSTEM
from lakelog.options.declared.tables import CHANGELOG_PRODUCER
from lakelog.options.values import TableOptions


def find_log_content(options: TableOptions, *, has_key: bool) -> LogContent:
    """Returns which files of an APPEND hold the rows for its table's log. Pure.

    Args:
        options: The table's options.
        has_key: Whether it has a primary key.
    """
    if options.get(LOG_SYSTEM) != KAFKA:
        return LogContent.NONE
    if not has_key:
        return LogContent.DATA
    # With the producer `input` changelog files hold the same records: they are written once.
    if options.get(LOG_CONTENT) == CHANGELOG_CONTENT or options.get(CHANGELOG_PRODUCER) == "input":
        return LogContent.CHANGELOG
    return LogContent.SEGMENTS


def plan_log_content(info: TableInfo, options: TableOptions, *, replaces: bool) -> LogContent:
    """Returns what a commit brings to its table's external log. Pure.

    Args:
        info: The table, as the commit knows it.
        options: Its options.
        replaces: Whether it is an overwrite, which brings nothing (semantics 4.7).
    """
    return LogContent.NONE if replaces else find_log_content(options, has_key=bool(info.schema.primary_key))


def to_log_file(file: DataFile) -> DataFile:
    """Describes a data file of a commit that is also a log segment. Pure."""
    return replace(file, statistics=(), deletion_vector_path=None)


def to_log_files(log: LogContent, copies: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """The log segments of a commit, given the files with its records as they arrived. Pure."""
    return tuple(map(to_log_file, copies)) if log is LogContent.SEGMENTS else ()


def check_log(change: Change, head: TableHead) -> None:
    """Checks that a change brings the rows for the table's log; a change without rows need not say so. Pure.

    Raises:
        CommitConflict: It does not: its writer knows an older state of the table, or no logs at all.
    """
    if change.kind is not SnapshotKind.APPEND or change.log is head.log:
        return
    if change.log is LogContent.NONE and not (change.add_files or change.changelog_files):
        return
    raise CommitConflict(
        f"The commit to {head.name} brings {_SAID[change.log]} to its external log, but {_SAID[head.log]} must come: "
        "the table was altered, or the writer is of a version that knows no logs. Load the table again and write the "
        "data anew, with a newer version where that does not help.",
        reason="LOG_CONTENT_CHANGED",
        metadata={
            "table": head.name,
            "log": change.log.value,
            "needed": head.log.value,
            "retry": "never",
        },
    )


_SAID: Final = {
    LogContent.NONE: "nothing",
    LogContent.DATA: "its data files",
    LogContent.CHANGELOG: "its changelog files",
    LogContent.SEGMENTS: "log segments",
}
