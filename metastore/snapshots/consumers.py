"""Consumers: the positions of named readers of tables. An epoch fences the previous reader of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakelog.errors import Fenced, HistoryDiverged, InvalidArgument, NotFound, ResourceExhausted
from lakelog.format.commit.facts import TableHead
from lakelog.format.retention.consumer import Consumer, ConsumerPosition
from lakelog.options.declared.tables import CONSUMER_EXPIRATION_TIME
from lakelog.options.values import TableOptions

from ..ownership import Principal, check_consumer_owner
from ..store.transaction import Store, StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_table_uuids, check_text, check_uuid, invalid
from ..store.waiting_work import SILENT_MS
from ..tables.lookup import find_head, find_table, lock_head, lock_heads

MAX_TABLES: Final = 1000
"""Tables that one consumer reads together."""

MAX_CONSUMERS: Final = 10_000
"""Consumers of one caller in a table: they stay until they are deleted, are read at each expiry, and are listed in one
answer."""


class Consumers(StoreUser):
    """The use cases of consumers. Only the store's clock judges their age.

    Args:
        store: Where everything is stored.
        moved: Called when positions were set or a reader has opened one, which can make a lag.
    """

    def __init__(self, store: Store, moved: Callable[[], None]) -> None:
        super().__init__(store)
        self._moved = moved

    async def open_consumer(
        self, consumer_id: str, table_uuids: Sequence[str], holder: str, *, by: Principal
    ) -> list[Consumer]:
        _check_consumer(consumer_id)
        if not consumer_id.isprintable():
            # Error messages and lists show the id in one line.
            raise invalid("consumer_id", consumer_id, "Leave out line breaks and other characters that do not print.")
        check_table_uuids("table_uuids", table_uuids, MAX_TABLES)
        check_text("holder", holder, 0, 256)

        async def open_all(tx: Transaction) -> list[Consumer]:
            # Readers of one name take turns by these locks, and no snapshot of the tables expires meanwhile.
            heads = await lock_heads(tx, table_uuids)
            opened: list[Consumer] = []
            for table_uuid in table_uuids:
                head = heads[table_uuid]
                found = await tx.find_consumer(head.table_id, table_uuid, consumer_id)
                if found is None:
                    await _check_count(tx, head, by)
                    found = Consumer(consumer_id, table_uuid, 0, None, "", holder, 0)
                epoch = await tx.make_epoch(found.epoch)
                opened.append(await self._put(tx, head, replace(found, epoch=epoch, holder=holder), by))
            return opened

        opened = await run_transaction(self._store, open_all)
        self._moved()
        return opened

    async def advance_consumer(self, consumer_id: str, positions: Sequence[ConsumerPosition], *, by: Principal) -> None:
        _check_consumer(consumer_id)
        check_table_uuids("positions.table_uuid", [position.table_uuid for position in positions], MAX_TABLES)
        for position in positions:
            check_number("positions.epoch", position.epoch, 1)
            check_number("positions.snapshot_id", position.snapshot_id, 0)
            if position.snapshot_uuid:
                check_uuid("positions.snapshot_uuid", position.snapshot_uuid)

        async def advance(tx: Transaction) -> None:
            heads = await lock_heads(tx, [position.table_uuid for position in positions])
            for position in positions:
                head = heads[position.table_uuid]
                found = await _find_own(tx, head, consumer_id, position.epoch)
                if position.snapshot_id < (found.snapshot_id or 0):
                    raise invalid(
                        "positions.snapshot_id",
                        position.snapshot_id,
                        f"Consumer '{consumer_id}' of table {head.name} is at {found.snapshot_id} by now and never "
                        "goes back by itself; reset it for that.",
                    )
                await _check_in_history(tx, head, position)
                moved = replace(found, snapshot_id=position.snapshot_id, snapshot_uuid=position.snapshot_uuid)
                await self._put(tx, head, moved, by)

        await run_transaction(self._store, advance)
        self._moved()

    async def renew_consumer(self, consumer_id: str, epochs: Mapping[str, int], holder: str, *, by: Principal) -> None:
        _check_consumer(consumer_id)
        check_table_uuids("epochs.table_uuid", list(epochs), MAX_TABLES)
        for epoch in epochs.values():
            check_number("epochs.epoch", epoch, 1)
        check_text("holder", holder, 0, 256)

        async def renew(tx: Transaction) -> None:
            heads = await lock_heads(tx, list(epochs))
            for table_uuid, epoch in epochs.items():
                found = await _find_own(tx, heads[table_uuid], consumer_id, epoch)
                await self._put(tx, heads[table_uuid], replace(found, holder=holder), by)

        await run_transaction(self._store, renew)

    async def list_consumers(self, table_uuid: str) -> list[Consumer]:
        check_uuid("table_uuid", table_uuid)

        async def load(tx: Transaction) -> list[Consumer]:
            head = await find_head(tx, table_uuid)
            expiration_ms = await _expiration_ms(tx, table_uuid)
            now_ms = await tx.now_ms()
            found = await tx.list_consumers(head.table_id, table_uuid)
            return [_as_of(each, expiration_ms, now_ms) for each in found]

        return await run_transaction(self._store, load)

    async def reset_consumer(self, table_uuid: str, consumer_id: str, snapshot_id: int, *, by: Principal) -> None:
        check_uuid("table_uuid", table_uuid)
        _check_consumer(consumer_id)
        check_number("snapshot_id", snapshot_id, 0)

        async def reset(tx: Transaction) -> None:
            head = await lock_head(tx, table_uuid)
            found = await _find(tx, head, consumer_id)
            if snapshot_id > head.latest_snapshot_id:
                raise InvalidArgument(
                    f"Consumer '{consumer_id}' cannot be set to snapshot {snapshot_id}: the newest of table "
                    f"{head.name} is {head.latest_snapshot_id}. Give at most that.",
                    metadata={"field": "snapshot_id", "latest": str(head.latest_snapshot_id)},
                )
            if head.latest_snapshot_id and snapshot_id < head.earliest_change_id - 1:
                raise InvalidArgument(
                    f"Consumer '{consumer_id}' cannot be set to snapshot {snapshot_id}: table {head.name} keeps "
                    f"{head.earliest_change_id} to {head.latest_snapshot_id} only. Give "
                    f"{head.earliest_change_id - 1} or more; the consumer continues after it.",
                    metadata={"field": "snapshot_id", "earliest": str(head.earliest_change_id)},
                )
            known = await tx.list_snapshots(head.table_id, snapshot_id - 1, snapshot_id, 1) if snapshot_id else []
            uuid = known[0].snapshot_uuid if known else ""
            epoch = await tx.make_epoch(found.epoch)
            moved = Consumer(consumer_id, table_uuid, epoch, snapshot_id, uuid, "", 0)
            await self._put(tx, head, moved, by, hands_over=by.may_all)

        await run_transaction(self._store, reset)
        self._moved()

    async def delete_consumer(self, table_uuid: str, consumer_id: str, *, by: Principal) -> None:
        check_uuid("table_uuid", table_uuid)
        _check_consumer(consumer_id)

        async def delete(tx: Transaction) -> None:
            head = await lock_head(tx, table_uuid)
            await _find(tx, head, consumer_id)
            owner = await tx.delete_consumer(head.table_id, consumer_id)
            check_consumer_owner(consumer_id, str(head.name), owner, by)
            # Snapshots that only this consumer retained can now expire.
            await tx.request_planning(head.table_id)

        await run_transaction(self._store, delete)

    async def _put(
        self, tx: Transaction, head: TableHead, consumer: Consumer, by: Principal, *, hands_over: bool = False
    ) -> Consumer:
        used_at_ms, owner = await tx.put_consumer(head.table_id, consumer, None if hands_over else by.name)
        # An error here undoes the change.
        check_consumer_owner(consumer.consumer_id, str(head.name), owner, by)
        stored = replace(consumer, used_at_ms=used_at_ms)
        return _as_of(stored, await _expiration_ms(tx, head.table_uuid), used_at_ms)


def _check_consumer(consumer_id: str) -> None:
    check_text("consumer_id", consumer_id, 1, 256)


async def _find(tx: Transaction, head: TableHead, consumer_id: str) -> Consumer:
    found = await tx.find_consumer(head.table_id, head.table_uuid, consumer_id)
    if found is None:
        raise await _unknown(tx, head, consumer_id)
    return found


async def _check_count(tx: Transaction, head: TableHead, by: Principal) -> None:
    count = await tx.count_consumers(head.table_id, by.name)
    if count >= MAX_CONSUMERS:
        raise ResourceExhausted(
            f"Table {head.name} has {count:,} consumers of {by.name or 'callers without a name'}, which is the limit "
            "of one caller. Delete some: lakelog consumers delete.",
            reason="TOO_MANY_CONSUMERS",
            metadata={"table": str(head.name), "limit": str(MAX_CONSUMERS)},
        )


async def _find_own(tx: Transaction, head: TableHead, consumer_id: str, epoch: int) -> Consumer:
    """The consumer, for the reader that opened it with an epoch."""
    found = await tx.find_consumer(head.table_id, head.table_uuid, consumer_id)
    if found is None or found.epoch != epoch:
        raise _fenced(consumer_id, head, epoch, found)
    return found


async def _expiration_ms(tx: Transaction, table_uuid: str) -> int:
    table = await find_table(tx, table_uuid)
    return TableOptions(table.info.options).get(CONSUMER_EXPIRATION_TIME)


async def _check_in_history(tx: Transaction, head: TableHead, position: ConsumerPosition) -> None:
    if position.snapshot_id > head.latest_snapshot_id:
        if position.snapshot_uuid:
            raise HistoryDiverged(
                f"The reader has seen snapshot {position.snapshot_id} of table {head.name}, but the newest one is "
                f"{head.latest_snapshot_id}: the metastore's database was restored or has lost commits. Read the table "
                "from its beginning.",
                reason="SNAPSHOT_UNKNOWN",
                metadata={"table": head.name, "snapshot_id": str(position.snapshot_id)},
            )
        raise invalid(
            "positions.snapshot_id",
            position.snapshot_id,
            f"The newest snapshot of table {head.name} is {head.latest_snapshot_id}.",
        )
    if not position.snapshot_id or not position.snapshot_uuid:
        return
    found = await tx.list_snapshots(head.table_id, position.snapshot_id - 1, position.snapshot_id, 1)
    if found and found[0].snapshot_uuid != position.snapshot_uuid:
        raise HistoryDiverged(
            f"Snapshot {position.snapshot_id} of table {head.name} is not the one that the reader has seen: the "
            "metastore's database was restored or has lost commits. Read the table from its beginning.",
            metadata={"table": head.name, "snapshot_id": str(position.snapshot_id)},
        )


async def _unknown(tx: Transaction, head: TableHead, consumer_id: str) -> NotFound:
    known = sorted(each.consumer_id for each in await tx.list_consumers(head.table_id, head.table_uuid))
    there = f"it has {', '.join(known[:10])}" if known else "it has none"
    return NotFound(
        f"Table {head.name} has no consumer '{consumer_id}'; {there}. Subscribing with its id makes one.",
        reason="CONSUMER_NOT_FOUND",
        metadata={"consumer_id": consumer_id},
    )


def _as_of(consumer: Consumer, expiration_ms: int, now_ms: int) -> Consumer:
    """A consumer as it is at a time. Pure."""
    expires_at_ms = consumer.used_at_ms + expiration_ms
    is_silent = consumer.used_at_ms + SILENT_MS <= now_ms
    return replace(
        consumer,
        holder="" if is_silent else consumer.holder,
        expires_at_ms=expires_at_ms,
        is_expired=expires_at_ms <= now_ms,
    )


def _fenced(consumer_id: str, head: TableHead, epoch: int, found: Consumer | None) -> Fenced:
    if found is None:
        what = "was deleted"
    elif epoch > found.epoch:
        what = f"was opened by this reader before the metastore's database was set back (epoch {epoch})"
    elif found.holder:
        what = f"is read by '{found.holder}' by now"
    else:
        what = "was reset, or opened by another that has closed since"
    return Fenced(
        f"Consumer '{consumer_id}' of table {head.name} {what}, so this reader's position does not count any more. "
        "Stop it, give it another consumer id, or open the consumer again to go on from where it is.",
        reason="CONSUMER_FENCED",
        metadata={"consumer_id": consumer_id, "table": head.name, "epoch": str(epoch)},
    )
