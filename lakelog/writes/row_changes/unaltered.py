"""Whether a table still has the columns by which a change of its rows was made. Pure."""

from __future__ import annotations

from lakelog.errors import CommitConflict
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema


def check_unaltered(expected: TableInfo, table_uuid: str, schema: TableSchema) -> None:
    """Checks a table that was looked up again. Pure.

    Args:
        expected: The table as it was when the change began.
        table_uuid: The table now.
        schema: Its columns now.

    Raises:
        CommitConflict: It is another table, or has other columns; the change is to begin again. Nothing happened.
    """
    now, then = (table_uuid, schema.schema_id), (expected.table_uuid, expected.schema.schema_id)
    # Ids come again after a database was set back.
    if now == then and schema.digest == expected.schema.digest:
        return
    raise CommitConflict(
        f"The columns of {expected.name} were altered while its rows were to be changed. Nothing was written.",
        reason="SCHEMA_CHANGED",
        metadata={"table": str(expected.name), "retry": "replan"},
    )
