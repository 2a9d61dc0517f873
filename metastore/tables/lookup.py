"""Tables by their uuids. One that is gone is an error, which says what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.commit.facts import TableHead

from ..store.records import TableRecord
from ..store.transaction import Transaction
from .dropped import explain_gone


async def find_table(tx: Transaction, table_uuid: str) -> TableRecord:
    """A table of the catalog."""
    table = await tx.find_table_by_uuid(table_uuid)
    if table is None:
        raise await explain_gone(tx, table_uuid)
    return table


async def find_head(tx: Transaction, table_uuid: str) -> TableHead:
    """The head of a table, without locking it."""
    head = (await tx.find_heads([table_uuid])).get(table_uuid)
    if head is None:
        raise await explain_gone(tx, table_uuid)
    return head


async def lock_head(tx: Transaction, table_uuid: str) -> TableHead:
    """The head of a table, locked."""
    return (await lock_heads(tx, [table_uuid]))[table_uuid]


async def lock_heads(tx: Transaction, table_uuids: Sequence[str]) -> dict[str, TableHead]:
    """The heads of all of these tables by uuid, locked."""
    heads = await tx.lock_heads(table_uuids)
    for table_uuid in table_uuids:
        if table_uuid not in heads:
            raise await explain_gone(tx, table_uuid)
    return heads
