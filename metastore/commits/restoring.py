"""Restoring an earlier state: which snapshot a change means, resolved while the head is locked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.format.commit.facts import TableHead
from lakelog.format.commit.rebase import Rebased
from lakelog.format.commit.request import Change, CommitRequest, RestoreState, count_files
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind

from ..snapshots.retained import load_retained, load_tag
from ..snapshots.tags import check_tag_name
from ..store.transaction import Transaction
from ..store.validation import check_number, invalid


def check_restores(request: CommitRequest) -> None:
    """Check all changes that restore a state, as far as that is possible without their tables.

    Raises:
        InvalidArgument: Names the field, the value and the remedy.
    """
    for change in request.changes:
        if isinstance(change.remove, RestoreState):
            _check_restore(change, change.remove)


def _check_restore(change: Change, state: RestoreState) -> None:
    if (state.snapshot_id is None) == (not state.tag):
        raise invalid("remove.restore", state, "Name a snapshot or a tag, one of them.")
    if state.tag:
        check_tag_name("remove.restore.tag", state.tag)
    else:
        check_number("remove.restore.snapshot_id", state.snapshot_id or 0, 1)
    if change.kind is not SnapshotKind.OVERWRITE:
        raise invalid("kind", change.kind.value, "What restores a state is an OVERWRITE.")
    if count_files(change):
        raise invalid(
            "add_files",
            f"{count_files(change)} files",
            "Leave them out: a change that restores a state has no files. Commit them after it.",
        )
    if change.changelog is not ChangelogState.NONE:
        raise invalid("changelog", change.changelog.value, "Leave it out: a state is restored without a changelog.")


async def resolve_restores(
    tx: Transaction, changes: Sequence[Rebased], heads: Mapping[str, TableHead]
) -> list[Rebased]:
    """The changes, with the number of a readable snapshot in each that restores a state.

    Raises:
        NotFound: There is no such snapshot or tag.
        SnapshotExpired: The snapshot is no longer retained.
    """
    return [await _resolve(tx, each, heads) for each in changes]


async def _resolve(tx: Transaction, rebased: Rebased, heads: Mapping[str, TableHead]) -> Rebased:
    state = rebased.change.remove
    if not isinstance(state, RestoreState):
        return rebased
    head = heads[rebased.change.table_uuid]
    snapshot_id = (await load_tag(tx, head, state.tag)).snapshot_id if state.tag else state.snapshot_id
    assert snapshot_id is not None, "the edge has checked it"
    kept = await load_retained(tx, head, snapshot_id)
    return replace(rebased, change=replace(rebased.change, remove=RestoreState(kept.snapshot_id)))
