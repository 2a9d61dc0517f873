"""Who tells what commits change: altering a table to the changelog producer `full-compaction`, and away from it.

    none, input, lookup --ALTER--> full-compaction: all that is there is told, so that the first full compaction tells
                                   what has changed since
    full-compaction --ALTER--> another: all that commits changed must have been told, else nobody ever would

Both change what the *next* snapshot is like: it stands under the head's lock which commits come before and which after.
So no compaction must have run for the first of them: which files were there, whatever their levels, is remembered, and
they are kept until the first full compaction has compared its result with them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.errors import CommitConflict
from lakelog.format.commit.facts import TableHead
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, FULL_COMPACTION
from lakelog.options.values import TableOptions

from ..store.transaction import Transaction


def defers_changelog(options: Mapping[str, str]) -> bool:
    """Whether full compactions tell what commits to a table with these options change. Pure."""
    return TableOptions(options).get(CHANGELOG_PRODUCER) == FULL_COMPACTION


async def alter_producer(tx: Transaction, head: TableHead, options: Mapping[str, str]) -> None:
    """Follows a table's options that were altered; its head is locked.

    Raises:
        CommitConflict: Changes would never be told.
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
            "in a shell `lakelog table compact --full`), then alter it, while nobody writes to it.",
            reason="CHANGES_UNTOLD",
            metadata={"table": head.name, "option": CHANGELOG_PRODUCER.key, "retry": "never"},
        )
    else:
        await tx.end_baseline(head.table_id, head.latest_snapshot_id + 1)
    await tx.set_defers_changelog(head.table_id, wanted)
