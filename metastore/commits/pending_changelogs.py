"""Attaching changelogs to snapshots that were committed without them."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.commit.attachment import (
    MAX_SNAPSHOTS,
    AttachFacts,
    AttachRequest,
    AttachResult,
    apply_attach,
    check_attach,
)
from lakelog.format.commit.effects import place_changelog_files
from lakelog.format.commit.facts import PlacedChangelogFile
from lakelog.format.commit.rules import Verdict
from lakelog.format.tables.snapshot import Snapshot

from ..heavy_work import HeavyWork
from ..ownership import Principal, check_attempt_owner, check_job_owner
from ..snapshots.watching import WatchHub
from ..store.limits import Limits
from ..store.records import Attachment
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_change, check_number, check_uuid, invalid
from ..tables.lookup import lock_head
from ..tables.partitions import PartitionRules


class PendingChangelogs:
    """The use case of attaching: one transaction under the head's lock, as a commit, but it moves no head.

    Args:
        store: Where everything is stored.
        limits: How many files may be named.
        watches: Notified up to which snapshot no changelog is pending.
        partitions: Checks encoded partitions.
        work: Its threads check and place the files, if there are many.
    """

    def __init__(
        self, store: Store, limits: Limits, watches: WatchHub, partitions: PartitionRules, work: HeavyWork
    ) -> None:
        self._threads = work.commits
        self._store = store
        self._limits = limits
        self._watches = watches
        self._partitions = partitions

    async def attach_changelogs(self, request: AttachRequest, *, by: Principal) -> AttachResult:
        size = sum(len(changelog.files) for changelog in request.changelogs)
        await self._threads.run(size, self._check, request)

        async def attach(tx: Transaction) -> tuple[AttachResult, int]:
            head = await lock_head(tx, request.table_uuid)
            job = await tx.lock_job(request.job_id)
            if job is not None and job.table_uuid != request.table_uuid:
                raise invalid("job_id", request.job_id, f"It is a job of {job.table}, not of {head.name}.")
            attempt = await tx.lock_attempt(request.attempt_id)
            if attempt is not None:
                check_attempt_owner(attempt, by)
            opened = await tx.list_open_snapshots(head.table_id, len(request.changelogs) + 1)
            facts = AttachFacts(head, job, attempt, opened)
            if await self._threads.run(size, check_attach, request, facts) is Verdict.ALREADY_APPLIED:
                return AttachResult(True, head.first_pending_snapshot), head.complete_until
            if job is not None:
                check_job_owner(job, by)
            await self._partitions.check_change(tx, head, request.to_change())
            after = apply_attach(request, facts)
            placed = await self._threads.run(size, _place, request, opened)
            ids = [each.snapshot_id for each in request.changelogs]
            await tx.attach_changelogs(Attachment(after, ids, placed, request.attempt_id))
            return AttachResult(False, after.first_pending_snapshot), after.complete_until

        result, complete = await run_transaction(self._store, attach)
        self._watches.attached(request.table_uuid, complete)
        return result

    def _check(self, request: AttachRequest) -> None:
        check_uuid("attempt_id", request.attempt_id)
        check_number("job_id", request.job_id, 1)
        check_number("epoch", request.epoch, 1)
        if not 1 <= len(request.changelogs) <= MAX_SNAPSHOTS:
            raise invalid(
                "changelogs", f"{len(request.changelogs)} snapshots", f"Give those of 1 to {MAX_SNAPSHOTS} at once."
            )
        ids = [each.snapshot_id for each in request.changelogs]
        if sorted(set(ids)) != ids:
            raise invalid("changelogs.snapshot_id", ids[:20], "Name each snapshot once, in rising order.")
        for snapshot_id in (ids[0], ids[-1]):
            check_number("changelogs.snapshot_id", snapshot_id, 1)
        for each in request.changelogs:
            if each.snapshot_uuid:
                check_uuid("changelogs.snapshot_uuid", each.snapshot_uuid)
        if len(request.files) > self._limits.max_commit_files:
            raise invalid("changelogs.files", f"{len(request.files)} files", "Attach to fewer snapshots at once.")
        check_change(request.to_change())


def _place(request: AttachRequest, opened: Sequence[Snapshot]) -> list[PlacedChangelogFile]:
    return [
        file
        for changelog, snapshot in zip(request.changelogs, opened, strict=False)
        for file in place_changelog_files(changelog.files, snapshot)
    ]
