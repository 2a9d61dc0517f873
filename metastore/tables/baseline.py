"""Which process emits what commits change: altering a table to the producer `full-compaction`, and away from it.

    none, input, lookup --ALTER--> full-compaction: all live files enter the baseline, so that the first full
                                   compaction emits what has changed since
    full-compaction --ALTER--> another: all changes must have been emitted, or they never would be

Both change how the *next* snapshot is made: under the head's lock it is certain which commits come before and after. So
no compaction need run before the first change: the files that were live, at any level, are remembered, and are retained
until the first full compaction has compared its result with them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.errors import CommitConflict
from lakelog.format.commit.facts import TableHead
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, FULL_COMPACTION
from lakelog.options.values import TableOptions

from ..store.transaction import Transaction


def defers_changelog(options: Mapping[str, str]) -> bool:
    """Whether full compactions emit what commits to a table with these options change. Pure."""
    return TableOptions(options).get(CHANGELOG_PRODUCER) == FULL_COMPACTION


async def alter_producer(tx: Transaction, head: TableHead, options: Mapping[str, str]) -> None:
    """Updates the baseline after a table's options were altered; its head is locked.

    Raises:
        CommitConflict: Changes would never be emitted.
    """
    wanted = defers_changelog(options)
    if wanted is head.defers_changelog:
        return
    if wanted:
        await tx.begin_baseline(head.table_id, head.latest_snapshot_id + 1)
    elif await tx.has_pending_changes(head.table_id):
        raise CommitConflict(
            f"The changelog of {head.name} does not hold yet what has changed since it was last compacted as a whole, "
            f"and with another '{CHANGELOG_PRODUCER.key}' it never would. Compact it as a whole (compact(full=True); "
            "in a shell `lakelog table compact --full`), then alter it, while no one writes to it.",
            reason="CHANGES_UNTOLD",
            metadata={"table": head.name, "option": CHANGELOG_PRODUCER.key, "retry": "never"},
        )
    else:
        await tx.end_baseline(head.table_id, head.latest_snapshot_id + 1)
    await tx.set_defers_changelog(head.table_id, wanted)
