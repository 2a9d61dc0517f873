"""Checks of what a commit brings to its table's external log that do not need the table."""

from __future__ import annotations

from collections import Counter
from typing import Final

from lakelog.format.commit.log_content import to_log_file
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import ChangelogState, LogContent, SnapshotKind

from ..store.limits import MAX_ID
from ..store.validation import check_number, invalid

MAX_LOG_PARTITIONS: Final = 65_536
"""As many as a table may have buckets."""


def check_logs(request: CommitRequest) -> None:
    """Check what the changes of a commit bring to external logs.

    Raises:
        InvalidArgument: It contradicts itself, or the other parts of the change.
    """
    for change in request.changes:
        if change.log is not LogContent.NONE or change.log_files or change.sent_offsets is not None:
            _check_log(change)


def _check_log(change: Change) -> None:
    if change.log is not LogContent.NONE and change.kind is not SnapshotKind.APPEND:
        raise invalid("log", change.log.value, "Only what an APPEND brings goes to the external log. Leave it out.")
    if change.log is LogContent.CHANGELOG and change.changelog not in (ChangelogState.ATTACHED, ChangelogState.PENDING):
        raise invalid(
            "log",
            change.log.value,
            f"changelog is '{change.changelog.value}', so that there are no files to send. Say ATTACHED or OPEN there.",
        )
    if change.sent_offsets is not None:
        _check_sent(change)
    if change.log_files or change.log is LogContent.SEGMENTS:
        _check_segments(change)


def _check_segments(change: Change) -> None:
    if change.log is not LogContent.SEGMENTS:
        raise invalid(
            "log_files",
            f"{len(change.log_files)} files",
            f"log says '{change.log.value}': say SEGMENTS, or leave them out.",
        )
    names = Counter(file.path for file in change.log_files)
    if len(names) < len(change.log_files):
        raise invalid("log_files", names.most_common(1)[0][0], "Name each log segment once in a commit.")
    changelog = {file.path for file in change.changelog_files}
    added = {file.path: file for file in change.add_files}
    for file in change.log_files:
        if file.statistics:
            raise invalid("log_files.statistics", file.path, "Leave them out: a log is read as a whole.")
        if file.path in changelog:
            raise invalid("log_files", file.path, "That is a changelog file; say CHANGELOG, or write segments.")
        same = added.get(file.path)
        if same is not None and to_log_file(same) != file:
            raise invalid("log_files", file.path, "That is a data file of the commit: describe it as it is there.")
    rows = sum(file.row_count for file in change.add_files)
    logged = sum(file.row_count for file in change.log_files)
    if logged < rows:
        # Merging rows of one key leaves fewer of them, never more.
        raise invalid(
            "log_files",
            f"{logged} rows",
            f"The data files hold {rows} rows: segments hold all that came in. Bring those of the other files, too.",
        )


def _check_sent(change: Change) -> None:
    sent = change.sent_offsets or {}
    if change.log is LogContent.NONE:
        raise invalid("sent_offsets", dict(sent), "log says that nothing goes to the log. Leave them out.")
    check_number("sent_generation", change.sent_generation, 1, 2**31 - 1)
    if len(sent) > MAX_LOG_PARTITIONS:
        raise invalid("sent_offsets", f"{len(sent)} partitions", f"Give at most {MAX_LOG_PARTITIONS}.")
    for partition, offset in sent.items():
        if not 0 <= partition < MAX_LOG_PARTITIONS or not 0 < offset <= MAX_ID:
            raise invalid(
                "sent_offsets",
                f"{offset} in partition {partition}",
                f"Give partitions from 0 to {MAX_LOG_PARTITIONS - 1} and the offset after the last record, from 1 to "
                f"{MAX_ID}.",
            )
