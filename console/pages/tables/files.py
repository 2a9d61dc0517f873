"""The live files of a table: sizes, levels, key ranges, deletion vectors, partitions; and one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa

from lakelog.errors import InvalidArgument, NotFound
from lakelog.pictures.levels import draw_levels, load_levels
from lakelog.sdk.tables.table import Table

from ..page import PAGE_ROWS, Column, Listing, Page, PageRequest, table_address
from .buckets import list_buckets
from .first import find_newest
from .numbers import Number, NumberField, read_number
from .opened import open_table, table_page
from .partitions import PLACE, list_partitions, to_condition, to_words
from .pictures import draw
from .rows import to_rows

MOST_BY_ITSELF: Final = 20_000
"""Files of larger tables are listed by partition, bucket or level, or when somebody asks for all of them: a million
take seconds."""

_FILES: Final = (
    Column("path", "File", "ids"),
    Column("partition", "Partition", "code"),
    Column("bucket", "Bucket", "count"),
    Column("level", "Level", "count", "0: as writers wrote it"),
    Column("rows", "Rows", "count"),
    Column("bytes", "Size", "bytes"),
    Column("deletes", "Deletes", "count", "rows that delete, or that no read shows"),
    Column("min_key", "First key", "code"),
    Column("max_key", "Last key", "code"),
    Column("added_snapshot", "Added by", "count", "the snapshot that added it"),
    Column("written_at", "Written", "time", "when its newest rows were committed"),
    Column("schema_id", "Schema", "count"),
    Column("deletion_vector", "Deletion vector", "ids"),
)
_LEVELS: Final = (
    Column("level", "Level", "count"),
    Column("files", "Files", "count"),
    Column("rows", "Rows", "count"),
    Column("bytes", "Size", "bytes"),
    Column("smallest", "Smallest file", "bytes"),
    Column("largest", "Largest file", "bytes"),
    Column("deletes", "Deletes", "count"),
    Column("vectors", "With a deletion vector", "count"),
)
_STATISTICS: Final = (
    Column("column", "Column", "code"),
    Column("min", "Least", "code"),
    Column("max", "Greatest", "code"),
    Column("nulls", "NULLs", "count"),
)
_BUCKET: Final = NumberField("bucket", "bucket", 0)
_LEVEL: Final = NumberField("level", "level", 0)
_PLACE: Final = NumberField("place", "place in the list", 0)


@dataclass(frozen=True)
class _Filter:
    """What the form asks for.

    Args:
        where: A condition on the columns of `$files`, as it was typed.
        bucket: Only this bucket.
        level: Only this level.
        is_asked: Whether anything narrows the list, or all files were asked for.
        problem: What is wrong with the condition.
    """

    where: str
    bucket: Number
    level: Number
    is_asked: bool
    problem: str = ""

    @property
    def condition(self) -> str | None:
        """The whole condition."""
        numbers = [
            f"{name} = {each.value}" for name, each in (("bucket", self.bucket), ("level", self.level)) if each.text
        ]
        if not numbers:
            return self.where or None
        return " AND ".join([*([f"({self.where})"] if self.where else []), *numbers])

    @property
    def has_problem(self) -> bool:
        """Whether a field cannot be used."""
        return bool(self.problem or self.bucket.problem or self.level.problem)


def files(request: PageRequest) -> Page:
    """The live files."""
    opened = open_table(request)
    table, newest = opened.table, find_newest(request, opened.table)
    wanted = _read_filter(request)
    total = 0 if newest is None else newest.total_files
    parts: dict[str, Any] = {"facts": {"files": total, "bytes": 0 if newest is None else newest.total_bytes}}
    is_shown = total <= MOST_BY_ITSELF or wanted.is_asked
    picture = None
    if total and is_shown and not wanted.has_problem:
        try:
            found = table.system_table("files").scan(_names(), wanted.condition).to_arrow()
        except InvalidArgument as error:
            wanted = _Filter(wanted.where, wanted.bucket, wanted.level, True, error.message)
        else:
            parts |= {"levels": _sum_levels(found), "files": _list_files(request, table, found)}
            if found.num_rows <= MOST_BY_ITSELF and not wanted.where and not wanted.level.text:
                picture = (
                    draw(lambda: load_levels(table, bucket=wanted.bucket.value), draw_levels)
                    if found.num_rows
                    else None
                )
                if table.primary_key and found.num_rows:
                    parts["buckets"] = list_buckets(table, wanted.bucket.value)
    # The sums of a million files take a second.
    if table.partition_by and total and (total <= MOST_BY_ITSELF or request.query.keys() & {"partitions", PLACE}):
        parts["partitions"] = list_partitions(request, table)
    return table_page(
        opened,
        "files",
        "files.html",
        parts,
        is_live=is_shown and total <= MOST_BY_ITSELF,
        wanted=wanted,
        picture=picture,
        is_shown=is_shown,
        example=_make_example(table),
        jobs_address=table_address(table.name, "jobs"),
        has_partitions=bool(table.partition_by and total),
    )


def file(request: PageRequest) -> Page:
    """One file: `path` names it, `partition` and `bucket` say where to look.

    Raises:
        NotFound: It is not live any more.
        InvalidArgument: The address names no file.
    """
    opened = open_table(request)
    table, path = opened.table, request.query.get("path", "")
    if not path:
        raise InvalidArgument("The address names no file: give path=.", metadata={"field": "path"})
    where = _join([request.query.get("where", ""), "path = :path"])
    found = table.system_table("files").scan([*_names(), "statistics"], where, params={"path": path}).to_arrow()
    if not found.num_rows:
        raise NotFound(
            f"Table {table.name} has no live file {path:.200}: a compaction or an overwrite may have replaced it. "
            "Snapshots before that still have it.",
            reason="FILE_NOT_FOUND",
            metadata={"table": table.name},
        )
    facts = to_rows(found.drop_columns("statistics"))[0]
    facts["partition"] = to_words(facts["partition"])
    statistics = found.column("statistics").combine_chunks()
    return table_page(
        opened,
        "files",
        "file.html",
        {"facts": facts, "statistics": _list_statistics(statistics)},
        title="a file",
        is_live=False,
    )


def _read_filter(request: PageRequest) -> _Filter:
    where = request.query.get("where", "").strip()
    bucket = read_number(request.query.get("bucket"), _BUCKET)
    level = read_number(request.query.get("level"), _LEVEL)
    is_asked = bool(where or bucket.text or level.text or "all" in request.query)
    return _Filter(where, bucket, level, is_asked)


def _names() -> list[str]:
    return [column.key for column in _FILES]


def _list_files(request: PageRequest, table: Table, found: pa.Table) -> Listing:
    first = min(read_number(request.query.get("after"), _PLACE).value or 0, found.num_rows)
    rows = []
    for row in to_rows(found.slice(first, PAGE_ROWS)):
        where = to_condition(row["partition"], row["bucket"])
        one = urlencode({"path": row["path"], "where": where})
        rows.append(
            {
                **row,
                "partition": to_words(row["partition"]),
                "_links": {
                    "path": f"{table_address(table.name, 'files/one')}?{one}",
                    "added_snapshot": table_address(table.name, f"snapshots/{row['added_snapshot']}"),
                },
            }
        )
    end = first + len(rows)
    more = end < found.num_rows
    note = f"Files {first + 1:,} to {end:,} of {found.num_rows:,}, in the order of a read." if more or first else ""
    next_query = request.with_query(after=end, of=table.uuid) if more else None
    empty = "No file is like this." if request.query else "The table has no files."
    columns = _FILES if table.partition_by else [each for each in _FILES if each.key != "partition"]
    return Listing("files", "Files", columns, rows, empty, next_query, note)


def _sum_levels(found: pa.Table) -> Listing:
    has_vector = pa.compute.is_valid(found.column("deletion_vector")).cast(pa.int64())
    grouped = (
        found.append_column("vectors", has_vector)
        .group_by("level", use_threads=False)
        .aggregate(
            [
                ("path", "count"),
                ("rows", "sum"),
                ("bytes", "sum"),
                ("bytes", "min"),
                ("bytes", "max"),
                ("deletes", "sum"),
                ("vectors", "sum"),
            ]
        )
        .sort_by("level")
    )
    names = ("level", "path_count", "rows_sum", "bytes_sum", "bytes_min", "bytes_max", "deletes_sum", "vectors_sum")
    keys = [column.key for column in _LEVELS]
    rows = [dict(zip(keys, (row[name] for name in names), strict=True)) for row in grouped.to_pylist()]
    return Listing("levels", "Sizes by level", _LEVELS, rows, "There are no files.")


def _list_statistics(statistics: pa.StructArray) -> Listing:
    rows = []
    for field in statistics.type if statistics.type.num_fields else ():
        own = statistics.field(field.name)
        if own[0].is_valid:
            least, greatest, nulls = (own.field(name)[0] for name in ("min", "max", "nulls"))
            rows.append(
                {
                    "column": field.name,
                    "min": str(least) if least.is_valid else None,
                    "max": str(greatest) if greatest.is_valid else None,
                    "nulls": nulls.as_py(),
                }
            )
    return Listing("statistics", "Statistics of its columns", _STATISTICS, rows, "It says nothing of its columns.")


def _make_example(table: Table) -> str:
    return f"partition.{table.partition_by[0]} = ..." if table.partition_by else "bytes < 1000000"


def _join(conditions: list[str]) -> str:
    return " AND ".join(f"({each})" for each in conditions if each.strip())
