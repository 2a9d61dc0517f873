"""The buckets of a table, those that a read has to merge most first: runs, and bytes by level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.keys.partition_text import name_partition
from lakelog.format.tables.plan import Plan
from lakelog.options.values import TableOptions
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import Picture
from lakelog.pictures.svg.scales import Scale, size_ticks
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import measure, plural, size

MOST_BUCKETS: Final = 24
_ROW: Final = 24
_BAR: Final = 15


@dataclass(frozen=True)
class LevelSum:
    """The files of one level of a bucket."""

    level: int
    files: int
    bytes: int


@dataclass(frozen=True)
class BucketSum:
    """A bucket.

    Args:
        partition: The partition as text; empty: the table has none.
        bucket: The bucket; None: the table has partitions alone.
        runs: Sorted runs that a read merges; in a table without a key: files.
        files: Its files.
        bytes: Their size.
        deletes: Rows that delete, or that no read shows.
        vectors: Files with a deletion vector.
        levels: By rising level.
    """

    partition: str
    bucket: int | None
    runs: int
    files: int
    bytes: int
    deletes: int
    vectors: int
    levels: tuple[LevelSum, ...]


@dataclass(frozen=True)
class Buckets:
    """What the picture shows.

    Args:
        table: The table's name.
        snapshot_id: The state; 0: the table has no snapshot.
        has_key: Whether the table has a primary key, so that files form runs.
        total: All buckets with files.
        files: All files.
        bytes: Their size.
        most_runs: Of any bucket.
        buckets: Those with the most runs, at most `MOST_BUCKETS`.
    """

    table: str
    snapshot_id: int
    has_key: bool
    total: int
    files: int
    bytes: int
    most_runs: int
    buckets: tuple[BucketSum, ...]


def to_buckets(table: str, plan: Plan) -> Buckets:
    """Sums over the files of a plan, of any number. Pure; no loop over files."""
    files, has_key = plan.files, bool(plan.schema.primary_key)
    has_buckets = TableOptions(plan.table.options).bucket_count(has_key) > 0
    snapshot_id = 0 if plan.snapshot is None else plan.snapshot.snapshot_id
    has_vector = pc.greater(pc.binary_length(pc.fill_null(files.column("deletion_vector_path"), "")), 0)
    files = files.append_column("vectors", has_vector.cast(pa.int64()))
    keys = ["partition", "bucket", "level"]
    sums = [("path", "count"), ("size_bytes", "sum"), ("delete_count", "sum"), ("vectors", "sum")]
    levels = files.group_by(keys, use_threads=False).aggregate(sums)
    level, count = (levels.column(name).to_numpy() for name in ("level", "path_count"))
    runs = np.where(level == 0, count, 1) if has_key else count
    levels = levels.append_column("runs", pa.array(runs, pa.int64()))
    names = ("runs", "path_count", "size_bytes_sum", "delete_count_sum", "vectors_sum")
    grouped = levels.group_by(keys[:2], use_threads=False).aggregate([(name, "sum") for name in names])
    order = [
        ("runs_sum", "descending"),
        ("size_bytes_sum_sum", "descending"),
        *((key, "ascending") for key in keys[:2]),
    ]
    shown = grouped.sort_by(order).slice(0, MOST_BUCKETS)
    return Buckets(
        table,
        snapshot_id,
        has_key,
        grouped.num_rows,
        plan.files.num_rows,
        pc.sum(files.column("size_bytes")).as_py() or 0,
        pc.max(grouped.column("runs_sum")).as_py() or 0,
        tuple(
            BucketSum(
                name_partition(plan.schema, row["partition"]),
                row["bucket"] if has_buckets else None,
                runs=row["runs_sum"],
                files=row["path_count_sum"],
                bytes=row["size_bytes_sum_sum"],
                deletes=row["delete_count_sum_sum"],
                vectors=row["vectors_sum_sum"],
                levels=_to_levels(levels, row["partition"], row["bucket"]),
            )
            for row in shown.to_pylist()
        ),
    )


def _to_levels(levels: pa.Table, partition: bytes, bucket: int) -> tuple[LevelSum, ...]:
    is_own = pc.and_(pc.equal(levels.column("partition"), partition), pc.equal(levels.column("bucket"), bucket))
    own = levels.filter(is_own).sort_by("level").select(["level", "path_count", "size_bytes_sum"])
    return tuple(LevelSum(*row.values()) for row in own.to_pylist())


def draw_buckets(data: Buckets, width: int) -> Picture:
    """Draws a row for each bucket: its bytes by level, and its runs. Pure."""
    drawing = Drawing(width)
    title = f"Buckets of {data.table}"
    words = describe_buckets(data)
    y = drawing.heading(title, [words])
    if not data.buckets:
        return drawing.finish(y + 8, title, words)
    names = [_name(each) for each in data.buckets]
    left = MARGIN + 10 + min(max(measure(name, 11.5) for name in names), (width - 2 * MARGIN) * 0.36)
    right = width - MARGIN - 74
    ticks = size_ticks(max(each.bytes for each in data.buckets), max(int((right - left) // 70), 1))
    scale = Scale(0, ticks[-1].value, left, right)
    bottom = y + _ROW * len(data.buckets)
    for tick in ticks:
        drawing.line(scale.place(tick.value), y - 2, scale.place(tick.value), bottom)
        drawing.text(scale.place(tick.value), bottom + 14, tick.text, paint="soft", size=11.5, anchor="middle")
    noun = "run" if data.has_key else "file"
    for name, each in zip(names, data.buckets, strict=True):
        drawing.text(left - 8, y + 13, name, size=11.5, anchor="end", room=left - MARGIN - 8)
        _draw_levels(drawing, each, y, scale, data.has_key)
        drawing.text(drawing.width - MARGIN, y + 13, plural(each.runs, noun), size=11.5, anchor="end")
        y += _ROW
    y = _draw_legend(drawing, bottom + 24, data.has_key)
    return drawing.finish(y + 6, title, words)


def describe_buckets(data: Buckets) -> str:
    """The picture in words."""
    if not data.total:
        return "The table has no files yet."
    noun = "sorted run" if data.has_key else "file"
    shown = f" Shown: the {len(data.buckets)} with the most {noun}s." if data.total > len(data.buckets) else ""
    return (
        f"Snapshot {data.snapshot_id}: {plural(data.total, 'bucket')} with {plural(data.files, 'file')}, "
        f"{size(data.bytes)}; at most {plural(data.most_runs, noun)} in one.{shown}"
    )


def _name(each: BucketSum) -> str:
    if each.bucket is None:
        return each.partition or "no partition"
    return f"{each.partition}, {each.bucket}" if each.partition else f"bucket {each.bucket}"


def _draw_levels(drawing: Drawing, each: BucketSum, y: float, scale: Scale, has_key: bool) -> None:
    done = 0
    for part in reversed(each.levels):
        paint: Paint = "amber" if part.level == 0 and has_key else "blue"
        start, end = scale.place(done), scale.place(done + part.bytes)
        about = f"{_name(each)}, level {part.level}: {plural(part.files, 'file')}, {size(part.bytes)}"
        drawing.box(start, y + 2, max(end - start - 1, 1.5), _BAR, paint=paint, radius=1, about=about)
        if has_key and measure(f"L{part.level}", 11) < end - start - 6:
            drawing.text((start + end) / 2, y + 13.5, f"L{part.level}", paint="on", size=11, anchor="middle")
        done += part.bytes
    if each.vectors or each.deletes:
        drawing.text(scale.place(done) + 4, y + 13.5, "⌫", paint="soft", size=11)


def _draw_legend(drawing: Drawing, y: float, has_key: bool) -> float:
    x = float(MARGIN)
    entries: tuple[tuple[Paint, str], ...] = (
        ("amber", "L0: written by commits"),
        ("blue", "higher levels: compacted"),
        ("none", "has deletes or deletion vectors"),
    )
    for paint, text in entries[0 if has_key else 2 :]:
        length = measure(text, 11.5) + 34
        if x + length > drawing.width:
            x, y = float(MARGIN), y + 18
        if paint == "none":
            drawing.text(x, y + 12, "⌫", paint="soft", size=11.5)
        else:
            drawing.box(x, y + 2, 14, 11, paint=paint)
        drawing.text(x + 19, y + 12, text, paint="soft", size=11.5)
        x += length
    return y + 18
