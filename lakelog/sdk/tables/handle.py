"""A table's handle: what the client knows of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakelog.context import Context
from lakelog.errors import NotFound
from lakelog.format.tables.table import TableInfo
from lakelog.writes.write_state import WriteState


class TableHandle:
    """One table, even if it loses its name; see `lakelog.Table`.

    Args:
        context: The metastore, stores, caches and clock.
        writes: State that its writes share with those to other tables of its catalog.
        info: The table as the catalog last returned it.
    """

    def __init__(self, context: Context, writes: WriteState, info: TableInfo) -> None:
        self._context = context
        self._writes = writes
        self._info = info

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in list(self._info.schema.arrow)[:20])
        more = "" if len(self._info.schema.arrow) <= 20 else ", ..."
        key = f", primary key {', '.join(self.primary_key)}" if self.primary_key else ""
        parts = f", partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"<table {self.name} ({columns}{more}){key}{parts}>"

    @property
    def info(self) -> TableInfo:
        """The table as the catalog returned it when this handle was made, or last written to or altered."""
        return self._info

    @property
    def context(self) -> Context:
        """What it shares with its catalog: metastore, stores, caches and clock."""
        return self._context

    @property
    def name(self) -> str:
        """Its full name, `database.table`."""
        return str(self._info.name)

    @property
    def uuid(self) -> str:
        """Its identity: 32 hexadecimal digits; another table of the same name has another one."""
        return self._info.table_uuid

    @property
    def location(self) -> str:
        """The URI of the folder with its files."""
        return self._info.location

    @property
    def comment(self) -> str:
        """What it is for; may be empty."""
        return self._info.comment

    @property
    def schema(self) -> pa.Schema:
        """Its columns, as this handle received them last (see the class)."""
        return pa.schema([field.remove_metadata() for field in self._info.schema.arrow])

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of the primary key's columns; empty for an append table."""
        return self._info.schema.primary_key

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Names of the partition columns; empty for none."""
        return self._info.schema.partition_by

    @property
    def options(self) -> dict[str, str]:
        """The options that were set, by key, as this handle received them last (see the class)."""
        return dict(self._info.options)

    def _refresh(self) -> TableInfo:
        self._info = self._request(lambda: self._context.metastore.get_table_by_uuid(self.uuid))
        return self._info

    def _request(self, question: Callable[[], Any]) -> Any:
        """Calls the metastore; if the table is gone, the error names this handle's table."""
        try:
            return question()
        except NotFound as error:
            # Another table may be missing: one that a query names, which is the source of a merge.
            if error.reason != "TABLE_NOT_FOUND" or error.metadata.get("table_uuid") != self.uuid:
                raise
            restore = (
                f" To have this one back: catalog.restore_table('{self.name}', uuid='{self.uuid}')."
                if error.metadata.get("restorable") == "true"
                else ""
            )
            raise NotFound(
                f"Table {self.name} was dropped since this handle was made (uuid {self.uuid}). If a table of that name "
                f"exists again, it is another one: get it by catalog.table('{self.name}').{restore}",
                reason=error.reason,
                metadata=error.metadata,
            ) from error
