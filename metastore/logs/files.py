"""Plans of the external log: which files hold what snapshots bring to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot

from ..store.records import FileQuery
from ..store.transaction import Transaction
from ..store.validation import invalid


def check_log_request(request: PlanRequest) -> None:
    """Check the request for a plan of the log.

    Raises:
        InvalidArgument: It is not of a range, or leaves something out, which would change the places of rows.
    """
    if not isinstance(request.at, InRange):
        raise invalid("log", True, "A state has no log: ask for that of a range of snapshots.")
    if request.changelog:
        raise invalid("log", True, "Ask for the log or for changelogs, not for both.")
    narrowed = (request.predicate, request.first_key, request.last_key) != (None, None, None)
    if narrowed or request.buckets or request.partitions:
        raise invalid("log", True, "A log is planned as a whole: leave out predicate, buckets, partitions and keys.")


async def load_log_files(tx: Transaction, query: FileQuery, snapshots: Sequence[Snapshot]) -> pa.Table:
    """The files that hold what some snapshots bring to the log, in any order.

    Args:
        tx: Loads them.
        query: Of the range of the snapshots.
        snapshots: The snapshots.
    """
    found = []
    for content, load, of_log in (
        (LogContent.DATA, tx.load_files, False),
        (LogContent.CHANGELOG, tx.load_changelog_files, False),
        (LogContent.SEGMENTS, tx.load_changelog_files, True),
    ):
        wanted = [each.snapshot_id for each in snapshots if each.log is content and not _is_pending(each)]
        if wanted:
            bounds = replace(query, added_after=wanted[0] - 1, added_until=wanted[-1], of_log=of_log)
            files = await load(bounds)
            # Other snapshots may lie between them, such as compactions.
            found.append(files.filter(pc.is_in(files.column("added_snapshot"), pa.array(wanted, pa.int64()))))
    return pa.concat_tables(found) if found else FILE_SCHEMA.empty_table()


def _is_pending(snapshot: Snapshot) -> bool:
    return snapshot.log is LogContent.CHANGELOG and snapshot.changelog is ChangelogState.PENDING
