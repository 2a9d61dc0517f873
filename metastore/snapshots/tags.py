"""Tags: names of snapshots. Creating or deleting one locks the table's head, so that nothing expires meanwhile."""

from __future__ import annotations

from typing import Final

from lakelog.errors import AlreadyExists, NotFound, ResourceExhausted
from lakelog.format.retention.tag import Tag
from lakelog.options.tag_name import find_tag_problem

from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_uuid, invalid
from ..tables.lookup import find_head, lock_head
from .retained import load_retained, load_tag

MAX_TAGS: Final = 10_000
"""Tags of one table: they are listed in one answer, and each retains files."""


class Tags(StoreUser):
    """The use cases of tags."""

    async def create_tag(self, table_uuid: str, name: str, snapshot_id: int = 0) -> Tag:
        check_uuid("table_uuid", table_uuid)
        check_tag_name("name", name)
        check_number("snapshot_id", snapshot_id, 0)

        async def create(tx: Transaction) -> Tag:
            head = await lock_head(tx, table_uuid)
            known = await tx.list_tags(head.table_id)
            taken = next((tag for tag in known if tag.name == name), None)
            if taken is not None:
                raise AlreadyExists(
                    f"Table {head.name} has a tag '{name}' already, of snapshot {taken.snapshot_id}. Choose another "
                    "name, or delete that tag first.",
                    reason="TAG_EXISTS",
                    metadata={"table": head.name, "tag": name, "snapshot_id": str(taken.snapshot_id)},
                )
            if len(known) >= MAX_TAGS:
                raise ResourceExhausted(
                    f"Table {head.name} has {len(known):,} tags, which is the limit. Delete some first.",
                    reason="TOO_MANY_TAGS",
                    metadata={"table": head.name, "limit": str(MAX_TAGS)},
                )
            if not head.latest_snapshot_id:
                raise NotFound(
                    f"{head.name} has no snapshot yet, so there is nothing to be tagged. Write to it first.",
                    reason="SNAPSHOT_NOT_FOUND",
                    metadata={"table": head.name, "latest": "0"},
                )
            snapshot = await load_retained(tx, head, snapshot_id or head.latest_snapshot_id)
            return await tx.insert_tag(head.table_id, name, snapshot)

        return await run_transaction(self._store, create)

    async def list_tags(self, table_uuid: str) -> list[Tag]:
        check_uuid("table_uuid", table_uuid)

        async def load(tx: Transaction) -> list[Tag]:
            head = await find_head(tx, table_uuid)
            return await tx.list_tags(head.table_id)

        return await run_transaction(self._store, load)

    async def delete_tag(self, table_uuid: str, name: str) -> None:
        check_uuid("table_uuid", table_uuid)
        check_tag_name("name", name)

        async def delete(tx: Transaction) -> None:
            head = await lock_head(tx, table_uuid)
            await load_tag(tx, head, name)
            await tx.delete_tag(head.table_id, name)
            # Snapshots that only this tag retained can now expire.
            await tx.request_planning(head.table_id)

        await run_transaction(self._store, delete)


def check_tag_name(field: str, name: str) -> None:
    """Check the name of a new tag."""
    problem = find_tag_problem(name)
    if problem is not None:
        raise invalid(field, name, problem, "The name of the tag")
