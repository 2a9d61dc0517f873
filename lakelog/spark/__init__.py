"""lakelog in Spark: `install` once, then `read_table`, `sql`, `write` and so on.

`update`, `delete_where` and `merge` change rows that are there.

Names are imported when first used: tasks on executors import this package too, and need little of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from lakelog.errors import InvalidArgument
from lakelog.extras import explain_missing

if TYPE_CHECKING:
    from lakelog.spark.batch.streaming import write_stream
    from lakelog.spark.batch.table_changes import changes
    from lakelog.spark.batch.table_read import read_table
    from lakelog.spark.batch.table_write import write
    from lakelog.spark.installing import install
    from lakelog.spark.names.new_tables import save_as_table
    from lakelog.spark.names.statements import sql
    from lakelog.spark.names.views import create_views
    from lakelog.spark.row_changes.statements import delete_where, merge, update
    from lakelog.spark.session.session import build_session

__all__ = [
    "build_session",
    "changes",
    "create_views",
    "delete_where",
    "install",
    "merge",
    "read_table",
    "save_as_table",
    "sql",
    "update",
    "write",
    "write_stream",
]

_HOMES: Final = {
    "build_session": "lakelog.spark.session.session",
    "changes": "lakelog.spark.batch.table_changes",
    "create_views": "lakelog.spark.names.views",
    "delete_where": "lakelog.spark.row_changes.statements",
    "install": "lakelog.spark.installing",
    "merge": "lakelog.spark.row_changes.statements",
    "read_table": "lakelog.spark.batch.table_read",
    "save_as_table": "lakelog.spark.names.new_tables",
    "sql": "lakelog.spark.names.statements",
    "update": "lakelog.spark.row_changes.statements",
    "write": "lakelog.spark.batch.table_write",
    "write_stream": "lakelog.spark.batch.streaming",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(home)
    except ModuleNotFoundError as error:
        raise InvalidArgument(explain_missing(error, "lakelog.spark", "spark"), reason="MISSING_EXTRA") from error
    return getattr(module, name)
