"""What can be checked of a stream before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lakelog.arguments import parse_table_name
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.declared.tables import FIRST_ROW, MERGE_ENGINE, ROWKIND_FIELD, SEQUENCE_FIELD
from lakelog.options.values import StreamOptions, TableOptions
from lakelog.serving.streams.mismatches import Mismatches
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.stream.read_options import StreamReadOptions

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
        InvalidArgument: Options, columns, condition or sink do not fit; the error has all problems, a line each, as
            `file:line:column: key: what`.
        NotFound: A table does not exist; the error has the other problems as well, as above.
        Unavailable: The metastore does not answer.
    """
    mismatches = Mismatches(stream.places)
    _check_options(stream, mismatches)
    source = target = None
    with mismatches.of("source.table"):
        source = metastore.get_table(parse_table_name(stream.source.table))
    names = None if source is None else _check_source(stream, source, mismatches)
    if stream.sink.type is SinkType.TABLE:
        with mismatches.of("sink.table"):
            target = metastore.get_table(parse_table_name(stream.sink.table))
        if source is not None and target is not None:
            if source.table_uuid == target.table_uuid:
                mismatches.add("sink.table", "it is the source itself. Give another table.")
            elif names is not None:
                _check_table(stream, source, names, target, mismatches)
    elif stream.sink.type is SinkType.PYTHON:
        with mismatches.of("sink.function"):
            load_function(stream)
    mismatches.check()


def _check_options(stream: Stream, mismatches: Mismatches) -> None:
    table, given = {"table": stream.source.table}, stream.source.options
    try:
        StreamReadOptions.of(SourceOptions.of({**table, **given}))
    except InvalidArgument as error:
        for key, value in given.items():
            # Each on its own, so that one does not hide the others; the options that it depends on do not matter here.
            with mismatches.of(f"source.options.{key}"), _without_missing():
                StreamReadOptions.of(SourceOptions.of({**table, key: value}))
        mismatches.add_error("source.options", error)


@contextmanager
def _without_missing() -> Iterator[None]:
    """Accepts an option although another one that it needs is missing."""
    try:
        yield
    except InvalidArgument as error:
        if error.reason != "MISSING_OPTION":
            raise


def _check_source(stream: Stream, source: TableInfo, mismatches: Mismatches) -> tuple[str, ...] | None:
    """The columns of the stream; None: they do not fit."""
    try:
        read_options = StreamReadOptions.of(SourceOptions.of(to_options(stream)))
    except InvalidArgument:
        # An option is wrong, which has been noted; everything that does not depend on options is still checked.
        read_options = StreamReadOptions.of(
            SourceOptions.of(to_options(replace(stream, source=replace(stream.source, options={}))))
        )
    if read_options.filter is not None:
        with mismatches.of("source.filter"):
            replace(read_options, options=StreamOptions({})).check(source)
    with mismatches.of("source.options"):
        replace(read_options, filter=None).check(source)
    with mismatches.of("source.columns"):
        return read_options.names(source)
    return None


def _check_table(
    stream: Stream, source: TableInfo, names: tuple[str, ...], target: TableInfo, mismatches: Mismatches
) -> None:
    renamed = stream.sink.row_kind_column
    carries = ROW_KIND_COLUMN in names and renamed is None
    if carries and not target.schema.primary_key and TableOptions(target.options).get(ROWKIND_FIELD) is None:
        mismatches.add(
            "sink.table",
            f"{target.name} has no primary key, so it cannot take updates and deletes of "
            f"{source.name}. Give it one, or `row_kind_column: op`, a column of it that then says what each row is.",
        )
    left_out: list[str] = []
    if carries and target.schema.primary_key:
        left_out = _check_key(source, names, target, mismatches)
        _check_order(source, target, mismatches)
    given = [renamed if each == ROW_KIND_COLUMN and renamed is not None else each for each in names]
    known = set(target.schema.arrow.names) | ({ROW_KIND_COLUMN} if carries else set())
    unknown = [each for each in given if each not in known]
    if unknown:
        mismatches.add(
            "sink.table",
            f"{target.name} has no column {', '.join(unknown)}. Leave it out by "
            "`source.columns`, or add it to the table.",
        )
    missing = [
        each.name
        for each in target.schema.arrow
        if each.name not in given and each.name not in left_out and not (each.nullable and stream.sink.fill_missing)
    ]
    if missing:
        mismatches.add(
            "sink.table",
            f"{target.name} needs the column {', '.join(missing)}, which the stream does not have. Read it, or set "
            'sink.missing_columns: "null" for columns that may be NULL.',
        )


def _check_key(source: TableInfo, names: tuple[str, ...], target: TableInfo, mismatches: Mismatches) -> list[str]:
    """Checks that each row of the source has its own row in the sink: two that shared one would overwrite each other.

    Returns:
        Columns of the sink's key that the source has and the stream lacks; the problem has been noted.
    """
    needed, key = source.schema.primary_key, target.schema.primary_key
    lacking = [name for name in needed if name not in key]
    if lacking:
        mismatches.add(
            "sink.table",
            f"the primary key ({', '.join(key)}) of {target.name} lacks "
            f"{', '.join(lacking)} of the primary key ({', '.join(needed)}) of {source.name}, so that rows of several "
            "keys would be one row there, which the delete of any of them removes. Take a table whose primary key has "
            "all these columns, or one with `row_kind_column: op`, a column of it that then says what each row is.",
        )
    left_out = [name for name in key if name in source.schema.arrow.names and name not in names]
    if left_out:
        mismatches.add(
            "source.columns",
            f"{', '.join(left_out)} is left out, which is of the primary key "
            f"({', '.join(key)}) of {target.name}. Add it.",
        )
    return left_out


def _check_order(source: TableInfo, target: TableInfo, mismatches: Mismatches) -> None:
    """Checks the order: the source's changes are in their order, and a sink with another order loses some of them.

    SUBTLE: the same `sequence.field` on both sides is no better. For some time after its commit a delete wins over rows
        of lower sequence, and in the sink that commit is later. Rows that an overwrite replaced have any sequence. So
        the source accepts rows that the sink refuses.
    """
    options = TableOptions(target.options)
    sequence = options.get(SEQUENCE_FIELD)
    if sequence:
        mismatches.add(
            "sink.table",
            f"{target.name} has 'sequence.field' = '{','.join(sequence)}', by which updates "
            f"and deletes of {source.name} would lose against rows that they replace. Take a table without it (the "
            "changes come in the order that the source decided), or one with `row_kind_column: op`, a column of it "
            "that then says what each row is.",
        )
    keeps_first = options.get(MERGE_ENGINE) == FIRST_ROW
    if keeps_first and TableOptions(source.options).get(MERGE_ENGINE) != FIRST_ROW:
        mismatches.add(
            "sink.table",
            f"{target.name} has 'merge-engine' = '{FIRST_ROW}', so it cannot take updates "
            f"and deletes of {source.name}. Take a table that keeps the last row, or one with `row_kind_column: op`, a "
            "column of it that then says what each row is.",
        )
