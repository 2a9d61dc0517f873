"""Makes the codec of a table's log from the table's options."""

from __future__ import annotations

from lakelog.errors import InternalError
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.log.codecs import LogCodec, LogForm
from lakelog.log.settings import LogSettings, read_log_settings
from lakelog.options.declared.tables import SEQUENCE_FIELD, SEQUENCE_SORT_ORDER
from lakelog.options.values import TableOptions


def load_log_settings(table: TableInfo) -> LogSettings:
    """The settings of the log of a table that has one. Pure.

    Raises:
        InternalError: The table has no log.
    """
    settings = read_log_settings(table.options, has_primary_key=bool(table.schema.primary_key))
    if settings is None:
        raise InternalError(f"Table {table.name} has no log, but was taken for one that has.")
    return settings


def make_codec(table: TableInfo, schema: TableSchema) -> LogCodec:
    """Makes the codec for the rows of one of the table's schemas. Pure."""
    settings, options = load_log_settings(table), TableOptions(table.options)
    form = LogForm(
        value_format=settings.format,
        key_format=settings.key_format,
        is_upsert=settings.is_upsert,
        sequence_fields=options.get(SEQUENCE_FIELD),
        sequence_descends=options.get(SEQUENCE_SORT_ORDER) == "desc",
    )
    return LogCodec(schema, table.name, form)
