"""How far the external logs of tables are published, as their publishers report (reliability R3, R8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lakelog.errors import HistoryDiverged, NotFound
from lakelog.format.commit.facts import AttemptState, SentAttempt, TableHead
from lakelog.format.commit.rebase import Rebased
from lakelog.format.log.heartbeat import MAX_ATTEMPTS, SILENT_MS
from lakelog.format.log.publishing import Progress, apply_report, carry_over, move_beginning
from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets, to_publisher_lease
from lakelog.format.retention.expiry import SnapshotLease, SnapshotLeaseKind
from lakelog.format.tables.snapshot import LogContent

from ..jobs.leases import lease_lost
from ..ownership import Principal, check_lease_owner
from ..store.limits import MAX_INT64
from ..store.logs import LogTopic
from ..store.publishing import AttemptSeen, Published
from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_text, check_uuid, invalid
from ..tables.dropped import explain_gone
from ..tables.lookup import find_head
from .topic_life import put_beginning
from .validation import MAX_LOG_PARTITIONS

MAX_SNAPSHOTS: Final = 10_000
_DEFAULT_LIMIT: Final = 1000
_MAX_PROBLEM: Final = 4096
_MAX_REASON: Final = 64
_PAGE: Final = 1000
"""How many snapshots are read together to find ends that are carried over."""
_GIVEN_UP: Final = SentAttempt(AttemptState.ABORTED)


class Publishing(StoreUser):
    """The use cases of publishing."""

    async def get_publish_state(self, table_uuid: str) -> PublishState:
        check_uuid("table_uuid", table_uuid)

        async def load(tx: Transaction) -> PublishState:
            head, topic = await _find_log(tx, table_uuid)
            published = await _find_published(tx, head, topic)
            uuid = published.snapshot_uuid
            if published.snapshot_id and not uuid:
                # The one after which the log begins.
                uuid = (await tx.find_snapshot_uuids(head.table_id, [published.snapshot_id])).get(
                    published.snapshot_id, ""
                )
            last = await tx.find_log_offsets(head.table_id, topic.generation, published.snapshot_id)
            return PublishState(
                table_uuid=table_uuid,
                generation=topic.generation,
                snapshot_id=published.snapshot_id,
                snapshot_uuid=uuid,
                next_index=published.next_index,
                next_uuid=published.next_uuid,
                offsets=() if last is None else last.offsets,
                latest_snapshot_id=head.latest_snapshot_id,
                reported_at_ms=published.reported_at_ms,
                holder=await tx.find_lease_holder(to_publisher_lease(table_uuid)),
                problem=published.problem,
                problem_reason=published.problem_reason,
            )

        return await run_transaction(self._store, load)

    async def report_published(self, report: PublishReport, *, by: Principal) -> None:
        _check_report(report)

        async def write_down(tx: Transaction) -> None:
            await _check_holder(tx, report, by)
            head, _ = await _find_log(tx, report.table_uuid)
            # No one restarts the log before this is written.
            topic = await tx.lock_log_topic(report.table_uuid)
            if topic is None or topic.generation != report.generation:
                raise _other_generation(head, report, topic)
            await tx.lock_published(head.table_id)
            published = await _find_published(tx, head, topic)
            last = await tx.find_log_offsets(head.table_id, topic.generation, published.snapshot_id)
            known = Progress(
                published.snapshot_id,
                published.snapshot_uuid,
                () if last is None else last.offsets,
                published.next_index,
                published.next_uuid,
            )
            if report.begins:
                known = await _move_beginning(tx, head, topic, known, report.begins)
            requested = [each.snapshot_id for each in report.snapshots]
            after = [max([known.snapshot_id, *requested]) + 1]
            uuids = await tx.find_snapshot_uuids(head.table_id, [*requested, *after])
            progress, reported = apply_report(head.name, known, report, uuids)
            if reported:
                await tx.insert_log_offsets(head.table_id, topic.generation, reported, visible_now=report.visible_now)
            await tx.put_published(
                head.table_id,
                Published(
                    topic.generation,
                    progress.snapshot_id,
                    progress.snapshot_uuid,
                    progress.next_index,
                    progress.next_uuid,
                    report.problem,
                    problem_reason=report.problem_reason,
                ),
            )

        await run_transaction(self._store, write_down)

    async def find_log_offsets(self, table_uuid: str, *, until: int | None = None) -> SnapshotOffsets | None:
        check_uuid("table_uuid", table_uuid)
        if until is not None:
            check_number("until", until, 0)

        async def find(tx: Transaction) -> SnapshotOffsets | None:
            head, topic = await _find_log(tx, table_uuid)
            return await tx.find_log_offsets(head.table_id, topic.generation, MAX_INT64 if until is None else until)

        return await run_transaction(self._store, find)

    async def list_log_offsets(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0
    ) -> list[SnapshotOffsets]:
        check_uuid("table_uuid", table_uuid)
        check_number("after", after, 0)
        check_number("until", until, 0)
        check_number("limit", limit, 0, MAX_SNAPSHOTS)

        async def find(tx: Transaction) -> list[SnapshotOffsets]:
            head, topic = await _find_log(tx, table_uuid)
            return await _list_ends(tx, head, topic, after, until or MAX_INT64, limit or _DEFAULT_LIMIT)

        return await run_transaction(self._store, find)

    async def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, SentAttempt]:
        check_uuid("table_uuid", table_uuid)
        _check_attempts(attempt_ids)

        async def find(tx: Transaction) -> dict[str, SentAttempt]:
            if table_uuid not in await tx.find_heads([table_uuid]):
                raise await explain_gone(tx, table_uuid)
            found = await tx.find_sent_attempts(table_uuid, attempt_ids)
            states = {each: _judge(found[each]) if each in found else _GIVEN_UP for each in attempt_ids}
            silent = [each for each, state in states.items() if state.is_silent]
            # While a commit is decided no renewal is noted, and the commit itself is a sign of life.
            for each in await tx.find_busy_attempts(silent) if silent else ():
                states[each] = replace(states[each], is_silent=False)
            return states

        return await run_transaction(self._store, find)

    async def renew_attempts(self, attempt_ids: Sequence[str], *, by: Principal) -> list[str]:
        _check_attempts(attempt_ids)
        owner = None if by.may_all else by.name
        return await run_transaction(self._store, lambda tx: tx.renew_attempts(attempt_ids, owner))


def _check_attempts(attempt_ids: Sequence[str]) -> None:
    if not 1 <= len(attempt_ids) <= MAX_ATTEMPTS:
        raise invalid("attempt_ids", f"{len(attempt_ids)} attempts", f"Give 1 to {MAX_ATTEMPTS} at once.")
    for attempt_id in attempt_ids:
        check_uuid("attempt_ids", attempt_id)


def _judge(seen: AttemptSeen) -> SentAttempt:
    if seen.state is not AttemptState.OPEN:
        return SentAttempt(seen.state, opened_ms=seen.opened_ms)
    if seen.is_over:
        return _GIVEN_UP
    return SentAttempt(AttemptState.OPEN, seen.quiet_ms > SILENT_MS, seen.opened_ms)


async def load_publisher_leases(tx: Transaction, head: TableHead) -> list[SnapshotLease]:
    """Leases for the unpublished snapshots (R8) and the last published one, whose uuid a publisher requests."""
    if head.log is LogContent.NONE:
        return []
    topic = await tx.find_log_topic(head.table_uuid)
    if topic is None:
        return []
    published = await _find_published(tx, head, topic)
    return [SnapshotLease(SnapshotLeaseKind.PUBLISHER, topic.topic, published.snapshot_id)]


async def resolve_sent(tx: Transaction, changes: Sequence[Rebased]) -> list[Rebased]:
    """The changes of a commit, without records sent uncommitted to an earlier generation of a log.

    The heads are locked, so that no log is restarted before the commit.
    """
    return [await _resolve_sent(tx, each) if each.change.sent_offsets is not None else each for each in changes]


async def _list_ends(
    tx: Transaction, head: TableHead, topic: LogTopic, after: int, until: int, limit: int
) -> list[SnapshotOffsets]:
    """The reported ends, and the ends that are carried over between and after them."""
    reported = await tx.list_log_offsets(head.table_id, topic.generation, after, until, limit)
    by_id = {each.snapshot_id: each for each in reported}
    last = reported[-1].snapshot_id if reported else 0
    if len(reported) == last - after and (len(reported) == limit or last == until):
        return reported
    before = await tx.find_log_offsets(head.table_id, topic.generation, after)
    seen = after if before is None else before.snapshot_id
    # After the last reported end only an unbroken run of snapshots without rows has an end.
    while sum(each <= seen for each in by_id) < limit and (seen < last or before is not None):
        snapshots = await tx.list_snapshots(head.table_id, seen, until, _PAGE)
        ends = carry_over(before, snapshots, by_id)
        by_id.update((each.snapshot_id, each) for each in ends if each.snapshot_id > after)
        if len(snapshots) < _PAGE:
            break
        seen = snapshots[-1].snapshot_id
        before = ends[-1] if ends and ends[-1].snapshot_id == seen else None
    return [by_id[each] for each in sorted(by_id)][:limit]


async def _check_holder(tx: Transaction, report: PublishReport, by: Principal) -> None:
    """Raises Fenced or PermissionDenied unless the caller holds the lease of the table's publisher, until the end."""
    lease = to_publisher_lease(report.table_uuid)
    epoch, owner = await tx.lock_lease(lease)
    if epoch != report.epoch:
        raise lease_lost(lease, report.epoch, epoch, await tx.find_lease_holder(lease))
    check_lease_owner(lease, owner, by)


async def _move_beginning(
    tx: Transaction, head: TableHead, topic: LogTopic, known: Progress, begins: tuple[int, ...]
) -> Progress:
    """Records where a generation begins; returns the progress after it."""
    found = await tx.find_log_offsets(head.table_id, topic.generation, topic.starts_after)
    beginning = () if found is None else found.offsets
    moved = move_beginning(head.name, known, topic.starts_after, beginning, begins)
    if moved == beginning:
        return known
    await put_beginning(tx, topic, head.table_id, moved)
    return replace(known, offsets=moved)


async def _resolve_sent(tx: Transaction, rebased: Rebased) -> Rebased:
    topic = await tx.find_log_topic(rebased.change.table_uuid)
    if topic is not None and topic.generation == rebased.change.sent_generation:
        return rebased
    return replace(rebased, change=replace(rebased.change, sent_offsets=None))


async def _find_log(tx: Transaction, table_uuid: str) -> tuple[TableHead, LogTopic]:
    head = await find_head(tx, table_uuid)
    topic = await tx.find_log_topic(table_uuid)
    if topic is None:
        raise NotFound(
            f"Table {head.name} has no log: its 'log.system' is 'none'.",
            reason="LOG_NOT_FOUND",
            metadata={"table": head.name, "table_uuid": table_uuid},
        )
    return head, topic


async def _find_published(tx: Transaction, head: TableHead, topic: LogTopic) -> Published:
    """How far the current generation of a log is published; reports of others do not count."""
    found = await tx.find_published(head.table_id)
    if found is None or found.generation != topic.generation:
        return Published(topic.generation, topic.starts_after)
    return found


def _other_generation(head: TableHead, report: PublishReport, topic: LogTopic | None) -> HistoryDiverged:
    current = 0 if topic is None else topic.generation
    return HistoryDiverged(
        f"The log of {head.name} was restarted: it has generation {current}, the report is of {report.generation}. "
        "Begin to publish it from its present start.",
        reason="LOG_GENERATION",
        metadata={"table": head.name, "generation": str(report.generation), "current": str(current)},
    )


def _check_report(report: PublishReport) -> None:
    check_uuid("table_uuid", report.table_uuid)
    check_number("generation", report.generation, 1, 2**31 - 1)
    check_number("epoch", report.epoch, 1)
    check_number("next_index", report.next_index, 0)
    if bool(report.next_uuid) is not bool(report.next_index):
        raise invalid("next_uuid", report.next_uuid, "Give it if and only if next_index is above 0.")
    if report.next_uuid:
        check_uuid("next_uuid", report.next_uuid)
    check_text("problem", report.problem, 0, _MAX_PROBLEM)
    check_text("problem_reason", report.problem_reason, 0, _MAX_REASON)
    if len(report.snapshots) > MAX_SNAPSHOTS:
        raise invalid("snapshots", f"{len(report.snapshots)} snapshots", f"Give at most {MAX_SNAPSHOTS} at once.")
    if report.begins:
        _check_offsets("begins", report.begins)
    ids = [each.snapshot_id for each in report.snapshots]
    if sorted(set(ids)) != ids:
        raise invalid("snapshots.snapshot_id", ids[:20], "Name each snapshot once, in rising order, from 1.")
    for snapshot_id in (*ids[:1], *ids[-1:]):
        check_number("snapshots.snapshot_id", snapshot_id, 1)
    for each in report.snapshots:
        check_uuid("snapshots.snapshot_uuid", each.snapshot_uuid)
        _check_offsets("snapshots.offsets", each.offsets)


def _check_offsets(field: str, offsets: Sequence[int]) -> None:
    if not 1 <= len(offsets) <= MAX_LOG_PARTITIONS:
        raise invalid(field, f"{len(offsets)} partitions", f"Give those of 1 to {MAX_LOG_PARTITIONS}.")
    if min(offsets) < 0:
        raise invalid(field, min(offsets), "Offsets begin with 0.")
    check_number(field, max(offsets), 0)
