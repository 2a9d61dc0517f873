"""Consumers in Postgres. Only its clock sets their times."""

from __future__ import annotations

from typing import Final

from lakelog.format.retention.consumer import Consumer

from ..store.transaction import ConsumerTransaction
from .catalog import NOW_MS, epoch_after
from .connection.session import InSession

_COLUMNS: Final = """
    consumer_id, epoch, snapshot_id, coalesce(replace(snapshot_uuid::text, '-', ''), ''), holder, used_at_ms
"""

_FIND: Final = f"SELECT {_COLUMNS} FROM consumer WHERE table_id = %s AND consumer_id = %s"

_LIST: Final = f"SELECT {_COLUMNS} FROM consumer WHERE table_id = %s ORDER BY consumer_id"

_COUNT: Final = "SELECT count(*) FROM consumer WHERE table_id = %s AND coalesce(owner, '') = %s"

_PUT: Final = f"""
INSERT INTO consumer (table_id, consumer_id, epoch, snapshot_id, snapshot_uuid, holder, owner, used_at_ms)
VALUES (%s, %s, %s, %s, nullif(%s, '')::uuid, %s, nullif(%s, ''), {NOW_MS})
ON CONFLICT (table_id, consumer_id) DO UPDATE SET epoch = excluded.epoch, snapshot_id = excluded.snapshot_id,
    snapshot_uuid = excluded.snapshot_uuid, holder = excluded.holder, used_at_ms = excluded.used_at_ms,
    owner = CASE WHEN %s::boolean THEN coalesce(consumer.owner, excluded.owner) END
RETURNING used_at_ms, coalesce(owner, '')
"""

_DELETE: Final = "DELETE FROM consumer WHERE table_id = %s AND consumer_id = %s RETURNING coalesce(owner, '')"


class PostgresConsumers(InSession, ConsumerTransaction):
    """See `metastore.store.transaction.ConsumerTransaction`."""

    async def now_ms(self) -> int:
        rows = await self._session.read(f"SELECT {NOW_MS}")
        now: int = rows[0][0]
        return now

    async def make_epoch(self, last: int) -> int:
        rows = await self._session.read(f"SELECT {epoch_after('%s::bigint')}", (last,))
        epoch: int = rows[0][0]
        return epoch

    async def find_consumer(self, table_id: int, table_uuid: str, consumer_id: str) -> Consumer | None:
        row = await self._session.read_one(_FIND, (table_id, consumer_id))
        return None if row is None else Consumer(row[0], table_uuid, *row[1:])

    async def list_consumers(self, table_id: int, table_uuid: str) -> list[Consumer]:
        return [Consumer(row[0], table_uuid, *row[1:]) for row in await self._session.read(_LIST, (table_id,))]

    async def count_consumers(self, table_id: int, owner: str) -> int:
        count: int = (await self._session.read(_COUNT, (table_id, owner)))[0][0]
        return count

    async def put_consumer(self, table_id: int, consumer: Consumer, owner: str | None) -> tuple[int, str]:
        values = (consumer.epoch, consumer.snapshot_id, consumer.snapshot_uuid, consumer.holder)
        owned = (owner or "", owner is not None)
        return (await self._session.write(_PUT, (table_id, consumer.consumer_id, *values, *owned)))[0]

    async def delete_consumer(self, table_id: int, consumer_id: str) -> str:
        rows = await self._session.write(_DELETE, (table_id, consumer_id))
        return rows[0][0] if rows else ""
