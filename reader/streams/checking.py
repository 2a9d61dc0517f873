"""What can be known of a stream before Spark is started."""

from __future__ import annotations

from lakelog.arguments import parse_table_name
from lakelog.client.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.table import TableInfo
from lakelog.options.table_options import FIRST_ROW, MERGE_ENGINE, ROWKIND_FIELD, SEQUENCE_FIELD
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
    if carries and target.schema.primary_key:
        _check_key(stream, source, names, target)
        _check_order(stream, source, target)
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


def _check_key(stream: Stream, source: TableInfo, names: tuple[str, ...], target: TableInfo) -> None:
    """Each row of the source needs a row of its own in the sink: two that shared one would take it from each other."""
    needed, key = source.schema.primary_key, target.schema.primary_key
    lacking = [name for name in needed if name not in key]
    if lacking:
        raise InvalidArgument(
            f"{stream.file}: sink.table: the primary key ({', '.join(key)}) of {target.name} lacks "
            f"{', '.join(lacking)} of the primary key ({', '.join(needed)}) of {source.name}, so that rows of several "
            "keys would be one row there, which the delete of any of them removes. Take a table whose primary key has "
            "all these columns, or one with `row_kind_column: op`, a column of it that then says what each row is.",
            metadata={"field": "sink.table", "column": lacking[0]},
        )
    left_out = [name for name in key if name in source.schema.arrow.names and name not in names]
    if left_out:
        raise InvalidArgument(
            f"{stream.file}: source.columns: {', '.join(left_out)} is left out, which is of the primary key "
            f"({', '.join(key)}) of {target.name}. Add it.",
            metadata={"field": "source.columns", "column": left_out[0]},
        )


def _check_order(stream: Stream, source: TableInfo, target: TableInfo) -> None:
    """The source's changes are in their order; a sink that puts its rows in another loses some of them.

    SUBTLE: the same `sequence.field` on both sides is no better. A delete beats rows of lower sequence for some time
    after its commit, which in the sink is later, and what was replaced by overwriting has any sequence: the source
    takes rows then that the sink refuses.
    """
    options = TableOptions(target.options)
    sequence = options.get(SEQUENCE_FIELD)
    if sequence:
        raise InvalidArgument(
            f"{stream.file}: sink.table: {target.name} has 'sequence.field' = '{','.join(sequence)}', by which updates "
            f"and deletes of {source.name} would lose against rows that they replace. Take a table without it (the "
            "changes come in the order that the source decided), or one with `row_kind_column: op`, a column of it "
            "that then says what each row is.",
            metadata={"field": "sink.table", "option": SEQUENCE_FIELD.key},
        )
    keeps_first = options.get(MERGE_ENGINE) == FIRST_ROW
    if keeps_first and TableOptions(source.options).get(MERGE_ENGINE) != FIRST_ROW:
        raise InvalidArgument(
            f"{stream.file}: sink.table: {target.name} has 'merge-engine' = '{FIRST_ROW}', so it cannot take updates "
            f"and deletes of {source.name}. Take a table that keeps the last row, or one with `row_kind_column: op`, a "
            "column of it that then says what each row is.",
            metadata={"field": "sink.table", "option": MERGE_ENGINE.key},
        )
