"""What can be known of a stream before Spark is started."""

from __future__ import annotations

from lakelog.arguments import parse_table_name
from lakelog.client.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.table import TableInfo
from lakelog.options.table_options import ROWKIND_FIELD
from lakelog.options.values import TableOptions
from lakelog.spark.source_options import SourceOptions
from lakelog.spark.stream.terms import StreamTerms

from .sinks import load_function
from .spec import SinkType, Stream


def to_options(stream: Stream) -> dict[str, str]:
    """The options of the stream's read in Spark. Pure."""
    source = stream.source
    options = {"table": source.table, **source.options}
    if source.columns is not None:
        options["columns"] = ",".join(source.columns)
    if source.filter is not None:
        options["filter"] = source.filter
    return options


def check_stream(metastore: Metastore, stream: Stream) -> None:
    """Checks a stream against its tables; blocks on the metastore.

    Raises:
        InvalidArgument: Options, columns, condition or sink do not fit; named.
        NotFound: A table does not exist.
        Unavailable: The metastore does not answer.
    """
    terms = StreamTerms.of(SourceOptions.of(to_options(stream)))
    source = metastore.get_table(parse_table_name(stream.source.table))
    names = terms.names(source)
    terms.check(source)
    if stream.sink.type is SinkType.TABLE:
        _check_table(stream, source, names, metastore.get_table(parse_table_name(stream.sink.table)))
    elif stream.sink.type is SinkType.PYTHON:
        load_function(stream)


def _check_table(stream: Stream, source: TableInfo, names: tuple[str, ...], target: TableInfo) -> None:
    if source.table_uuid == target.table_uuid:
        raise InvalidArgument(f"{stream.file}: sink.table is the source itself. Give another table.")
    renamed = stream.sink.row_kind_column
    carries = ROW_KIND_COLUMN in names and renamed is None
    if carries and not target.schema.primary_key and TableOptions(target.options).get(ROWKIND_FIELD) is None:
        raise InvalidArgument(
            f"{stream.file}: sink.table: {target.name} has no primary key, so it cannot take updates and deletes of "
            f"{source.name}. Give it one, or `row_kind_column: op`, a column of it that then says what each row is.",
            metadata={"field": "sink.table"},
        )
    given = [renamed if each == ROW_KIND_COLUMN and renamed is not None else each for each in names]
    known = set(target.schema.arrow.names) | ({ROW_KIND_COLUMN} if carries else set())
    unknown = [each for each in given if each not in known]
    if unknown:
        raise InvalidArgument(
            f"{stream.file}: sink.table: {target.name} has no column {', '.join(unknown)}. Leave it out by "
            "`source.columns`, or add it to the table.",
            metadata={"field": "sink.table", "column": unknown[0]},
        )
    missing = [each.name for each in target.schema.arrow if not each.nullable and each.name not in given]
    if missing:
        raise InvalidArgument(
            f"{stream.file}: sink.table: {target.name} needs the column {', '.join(missing)}, which the stream does "
            "not have. Read it, or make the column nullable.",
            metadata={"field": "sink.table", "column": missing[0]},
        )
