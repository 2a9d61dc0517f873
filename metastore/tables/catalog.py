"""Databases and tables: names, schemas and options."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakelog.clock import Ids
from lakelog.errors import AlreadyExists, CommitConflict, InvalidArgument, LakelogError, NotFound, OutcomeUnknown
from lakelog.format.commit.facts import TableHead
from lakelog.format.commit.log_content import find_log_content
from lakelog.format.tables.credentials import make_location
from lakelog.format.tables.snapshot import LogContent
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.defaults import WRITE_DEFAULT_KEY, to_default_text, write_default
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.format.types.types import canonical_schema, check_key_type
from lakelog.options.declared.kafka import KAFKA_SERVERS
from lakelog.options.validate import check_alter, validate_table_options
from lakelog.options.values import TableOptions

from ..logs.owner_rules import OwnerRules
from ..logs.topic_life import finish_log, follow_log, has_log, leave_log, of_log
from ..logs.topics import LogTopics
from ..ownership import Principal
from ..store.logs import LogStart
from ..store.records import NewTable, TableRecord
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import MAX_COMMENT, check_encodable, check_name, check_properties, check_text, check_uuid
from .baseline import alter_producer, defers_changelog
from .dropped import describe_dropped
from .lookup import find_table, lock_head

_MAX_NEAREST: Final = 3
_IF_NOT_EXISTS: Final = (
    "make it only where there is none (if_not_exists=True; in a shell --if-not-exists; in SQL IF NOT EXISTS)"
)
"""Shown to users of the SDK, the command line and SQL alike, who each write it in their own way."""


class Catalog:
    """The use cases of databases and tables.

    Args:
        store: Where everything is stored.
        ids: Generates the uuids of new tables.
        warehouse: Absolute URI under which tables get their locations.
        logs: Makes the topics of tables that have a log.
        altered: Called with the uuid of each table whose options were altered.
        dropped: Called with uuid and name of each dropped table.
        database_dropped: Called when a database was dropped, and its grants with it.
        dropped_retention_ms: How long dropped tables can be restored; 0: not at all.
        owner_rules: Which topics and secrets callers below the role `admin` may name.
    """

    def __init__(
        self,
        store: Store,
        ids: Ids,
        warehouse: str,
        logs: LogTopics,
        altered: Callable[[str], None],
        dropped: Callable[[str, str], None],
        database_dropped: Callable[[], None],
        dropped_retention_ms: int,
        owner_rules: OwnerRules,
    ) -> None:
        self._store = store
        self._ids = ids
        self._warehouse = warehouse.rstrip("/")
        self._logs = logs
        self._altered = altered
        self._dropped = dropped
        self._database_dropped = database_dropped
        self._dropped_retention_ms = dropped_retention_ms
        self._owner_rules = owner_rules

    async def create_database(self, name: str, *, if_not_exists: bool = False, comment: str = "") -> bool:
        check_name("database", name)
        check_text("comment", comment, 0, MAX_COMMENT)
        created = await run_transaction(self._store, lambda tx: tx.insert_database(name, comment))
        if not created and not if_not_exists:
            raise AlreadyExists(
                f"Database '{name}' exists already. Choose another name, or {_IF_NOT_EXISTS}.",
                reason="DATABASE_EXISTS",
                metadata={"database": name},
            )
        return created

    async def list_databases(self) -> list[DatabaseInfo]:
        return await run_transaction(self._store, lambda tx: tx.list_databases())

    async def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        check_name("database", name)

        async def drop(tx: Transaction) -> list[TableHead] | None:
            if not await tx.lock_database(name):
                if if_exists:
                    return None
                raise await database_not_found(tx, name)
            tables = await tx.list_tables(name)
            if tables and not cascade:
                holds = f"the table '{tables[0]}'"
                if len(tables) > 1:
                    holds = f"{len(tables)} tables, for instance '{tables[0]}'"
                raise InvalidArgument(
                    f"Database '{name}' has {holds}. Drop its tables first, or with it (cascade=True; in a shell "
                    "--cascade; in SQL CASCADE).",
                    reason="DATABASE_NOT_EMPTY",
                    metadata={"database": name, "tables": str(len(tables))},
                )
            records = [await tx.find_table(TableName(name, table)) for table in tables]
            uuids = [record.info.table_uuid for record in records if record is not None]
            heads = list((await tx.lock_heads(uuids)).values())
            for head in heads:
                await leave_log(tx, head.table_uuid)
                await tx.drop_table(head.table_id, self._dropped_retention_ms)
            await tx.delete_database(name)
            return heads

        dropped = await run_transaction(self._store, drop)
        for head in dropped or ():
            self._dropped(head.table_uuid, head.name)
        if dropped is not None:
            self._database_dropped()
        return dropped is not None

    async def create_table(
        self,
        name: TableName,
        schema: pa.Schema,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        comment: str = "",
        by: Principal,
    ) -> tuple[TableInfo, bool]:
        _check_table_name(name)
        check_text("comment", comment, 0, MAX_COMMENT)
        check_properties("options", options or {})
        if not by.may_all:
            self._owner_rules.check(options or {}, name.database)
        options = self._logs.resolve(options or {})
        columns = make_columns(schema, primary_key, partition_by)
        validate_table_options(options, columns=columns, primary_key=primary_key, partition_by=partition_by)
        table_uuid = self._ids.new_id()
        new = NewTable(
            table_uuid=table_uuid,
            name=name,
            location=make_location(self._warehouse, table_uuid),
            schema=TableSchema(
                0, assign_field_ids(columns), tuple(primary_key), tuple(partition_by), created_by=by.name
            ),
            options=options,
            bucket_count=TableOptions(options).bucket_count(bool(primary_key)),
            comment=comment,
        )

        async def find(tx: Transaction) -> TableRecord | None:
            if not await tx.lock_database(name.database):
                raise await database_not_found(tx, name.database)
            found = await tx.find_table(name)
            if found is not None and not if_not_exists:
                raise AlreadyExists(
                    f"Table '{name}' exists already. Choose another name, or {_IF_NOT_EXISTS}.",
                    reason="TABLE_EXISTS",
                    metadata={"table": str(name), "table_uuid": found.info.table_uuid},
                )
            return found

        start: LogStart | None = None

        async def create(tx: Transaction) -> tuple[TableRecord, bool]:
            found = await find(tx)
            if found is not None:
                return found, False
            made = await tx.insert_table(new)
            if defers_changelog(options):
                await tx.set_defers_changelog(made.table_id, True)
            log = find_log_content(TableOptions(options), has_key=bool(primary_key))
            if log is not LogContent.NONE:
                await tx.set_log(made.table_id, log)
            if start is not None:
                await finish_log(tx, start, made.table_id)
            return made, True

        if has_log(options):
            # Before brokers are asked for a topic that would be useless.
            existing = await run_transaction(self._store, find)
            if existing is not None:
                return existing.info, False
            start = await self._logs.begin(new)
        try:
            record, created = await run_transaction(self._store, create)
        except OutcomeUnknown:
            # The table may have been made: a later step finds out whose topic it is.
            raise
        except LakelogError:
            await self._give_up(start)
            raise
        if not created:
            await self._give_up(start)
        return record.info, created

    async def get_table(self, name: TableName) -> TableInfo:
        _check_table_name(name)

        async def find(tx: Transaction) -> TableRecord:
            found = await tx.find_table(name)
            if found is None:
                raise await table_not_found(tx, name)
            return found

        return (await run_transaction(self._store, find)).info

    async def get_table_by_uuid(self, table_uuid: str) -> TableInfo:
        check_uuid("table_uuid", table_uuid)

        async def find(tx: Transaction) -> TableInfo:
            found = await find_table(tx, table_uuid)
            return found.info

        return await run_transaction(self._store, find)

    async def list_tables(self, database: str) -> list[str]:
        check_name("database", database)

        async def list_names(tx: Transaction) -> list[str]:
            names = await tx.list_tables(database)
            if not names and database not in [found.name for found in await tx.list_databases()]:
                raise await database_not_found(tx, database)
            return names

        return await run_transaction(self._store, list_names)

    async def alter_table(
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str], by: Principal
    ) -> TableInfo:
        check_uuid("table_uuid", table_uuid)
        check_properties("set_options", set_options)
        seen = await self.get_table_by_uuid(table_uuid)
        if not by.may_all:
            self._owner_rules.check_change(seen.options, set_options, unset_options, seen.name.database)
        wanted = _change_options(seen, set_options, unset_options, self._logs)
        # Brokers follow before anything is locked; the record then says what has been done.
        topic = await self._logs.alter(seen, wanted)

        async def alter(tx: Transaction) -> TableInfo:
            head = await lock_head(tx, table_uuid)
            found = await find_table(tx, table_uuid)
            options = _change_options(found.info, set_options, unset_options, self._logs)
            if of_log(options) != of_log(wanted):
                raise CommitConflict(
                    f"Table {found.info.name} was altered by another meanwhile. Look at its options, then alter it "
                    "again.",
                    reason="TABLE_ALTERED",
                    metadata={"table": str(found.info.name), "retry": "same"},
                )
            if topic is not None:
                await follow_log(tx, topic)
            await alter_producer(tx, head, options)
            log = find_log_content(TableOptions(options), has_key=bool(found.info.schema.primary_key))
            if log is not head.log:
                await tx.set_log(found.table_id, log)
            await tx.set_options(found.table_id, options)
            # Under other options other work is due.
            await tx.request_planning(found.table_id)
            altered = await tx.find_table_by_uuid(table_uuid)
            assert altered is not None, "its head is locked"
            return altered.info

        altered = await run_transaction(self._store, alter)
        self._altered(table_uuid)
        return altered

    async def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        _check_table_name(name)

        async def drop(tx: Transaction) -> str | None:
            found = await tx.find_table(name)
            # It may have been dropped between finding and locking: then its head is gone.
            heads = await tx.lock_heads([found.info.table_uuid]) if found is not None else {}
            if not heads:
                if if_exists:
                    return None
                raise await table_not_found(tx, name)
            for table_uuid, head in heads.items():
                await leave_log(tx, table_uuid)
                await tx.drop_table(head.table_id, self._dropped_retention_ms)
                return table_uuid
            return None

        table_uuid = await run_transaction(self._store, drop)
        if table_uuid is None:
            return False
        self._dropped(table_uuid, str(name))
        return True

    async def _give_up(self, start: LogStart | None) -> None:
        if start is not None:
            await self._logs.give_up(start.topic)

    async def list_schemas(self, table_uuid: str) -> list[TableSchema]:
        check_uuid("table_uuid", table_uuid)

        async def list_versions(tx: Transaction) -> list[TableSchema]:
            found = await find_table(tx, table_uuid)
            return await tx.list_schemas(found.table_id)

        return await run_transaction(self._store, list_versions)


def make_columns(schema: pa.Schema, primary_key: Sequence[str], partition_by: Sequence[str]) -> pa.Schema:
    """The columns of a new table: canonical types, key columns NOT NULL, comments and defaults kept. Pure.

    Raises:
        InvalidArgument: A type or key column that a table cannot have.
    """
    for field in schema:
        check_encodable("The name of a column", field.name)
    canonical = canonical_schema(schema)
    keys = set(primary_key)
    for name in dict.fromkeys([*primary_key, *partition_by]):
        if name in canonical.names:
            check_key_type(canonical.field(name).type, name)
    columns = []
    for given, field in zip(schema, canonical, strict=True):
        comment, default = (given.metadata or {}).get(b"comment"), write_default(given.with_type(field.type))
        metadata = {b"comment": comment} if comment else {}
        if default is not None:
            metadata[WRITE_DEFAULT_KEY] = to_default_text(default, field)
        columns.append(pa.field(field.name, field.type, field.nullable and field.name not in keys, metadata))
    return pa.schema(columns)


def _change_options(
    table: TableInfo, set_options: Mapping[str, str], unset: Sequence[str], logs: LogTopics
) -> dict[str, str]:
    check_alter(table.options, set_options, unset)
    options = {key: value for key, value in table.options.items() if key not in unset}
    options.update(set_options)
    if KAFKA_SERVERS.key not in options:
        # The default that a new table gets counts as well.
        options = logs.resolve(options)
    schema = table.schema
    validate_table_options(
        options,
        columns=schema.arrow,
        primary_key=schema.primary_key,
        partition_by=schema.partition_by,
        current=table.options,
    )
    return options


def _check_table_name(name: TableName) -> None:
    check_name("database", name.database)
    check_name("table", name.name)


async def database_not_found(tx: Transaction, name: str) -> NotFound:
    """The error for an unknown database; it names those that are called nearly the same."""
    known = [found.name for found in await tx.list_databases()]
    return NotFound(
        f"Database '{name}' does not exist. {_nearest(name, known, 'There is no database yet; create one first.')}",
        reason="DATABASE_NOT_FOUND",
        metadata={"database": name},
    )


async def table_not_found(tx: Transaction, name: TableName) -> NotFound:
    """The error for an unknown table; it names those that are called nearly the same."""
    known = await tx.list_tables(name.database)
    if not known and name.database not in [found.name for found in await tx.list_databases()]:
        return await database_not_found(tx, name.database)
    nearest = _nearest(name.name, known, f"Database '{name.database}' has no tables.")
    return NotFound(
        f"Table '{name}' does not exist. {nearest}{await describe_dropped(tx, name)}",
        reason="TABLE_NOT_FOUND",
        metadata={"table": str(name)},
    )


def _nearest(name: str, known: Sequence[str], if_none: str) -> str:
    if not known:
        return if_none
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=_MAX_NEAREST)
    shown = [folded[other] for other in near] or sorted(known)[:_MAX_NEAREST]
    names = ", ".join(f"'{other}'" for other in shown)
    if near:
        return f"The nearest {'name is' if len(near) == 1 else 'names are'} {names}."
    more = len(known) - len(shown)
    return f"There is {names}{f' and {more:,} more' if more else ''}."
