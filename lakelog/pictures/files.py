"""The sizes of a table's live files, and where the small ones are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.keys.partition_text import name_partition
from lakelog.format.tables.plan import AtSnapshot, Plan, PlanRequest
from lakelog.options.values import TableOptions
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.pictures.svg.scales import Scale, count_ticks
from lakelog.pictures.svg.words import count, measure, plural, size
from lakelog.sdk.tables.table import Table

MOST_GROUPS: Final = 12
_MOST_BINS: Final = 24
_ROW: Final = 22


@dataclass(frozen=True)
class SizeBin:
    """The files of at least `start` and less than `end` bytes; `small` of them are small."""

    start: int
    end: int
    files: int
    small: int
    bytes: int


@dataclass(frozen=True)
class FileGroup:
    """A partition, or a bucket of a table without partitions.

    Args:
        name: Its name.
        files: All files.
        small: Those that are small.
        bytes: The size of all.
    """

    name: str
    files: int
    small: int
    bytes: int


@dataclass(frozen=True)
class Files:
    """What the picture shows.

    Args:
        table: The table's name.
        snapshot_id: The state; 0: the table has no snapshot.
        target_bytes: The option `target-file-size`.
        small_below_bytes: Files below this size are small to compactors.
        files: All files.
        small: Those that are small, and not alone in their bucket.
        bytes: The size of all.
        bins: By rising size, without gaps.
        noun: What groups are: `partition` or `bucket`.
        groups: Those with the most small files first, at most `MOST_GROUPS`.
        more_groups: Those that are left out.
    """

    table: str
    snapshot_id: int
    target_bytes: int
    small_below_bytes: int
    files: int
    small: int
    bytes: int
    bins: tuple[SizeBin, ...]
    noun: str
    groups: tuple[FileGroup, ...]
    more_groups: int = 0


def load_files(table: Table, snapshot_id: int | None = None) -> Files:
    """Requests the live files of a snapshot (None: the newest). Errors as of `Table.files`."""
    at = None if snapshot_id is None else AtSnapshot(snapshot_id)
    plan = table.context.metastore.plan(PlanRequest(table.uuid, at))
    return to_files(table.name, plan, TableOptions(table.info.options).target_file_size_bytes(bool(table.primary_key)))


def to_files(table: str, plan: Plan, target_bytes: int) -> Files:
    """Counts the files of a plan, of any number. Pure; no loop over files."""
    small_below = CompactionSettings(target_file_size_bytes=target_bytes).small_file_bytes
    sizes = plan.files.column("size_bytes").to_numpy()
    noun = "partition" if plan.schema.partition_by else "bucket"
    # There is nothing with which a single file of a bucket could be merged.
    small = (sizes < small_below) & (_count_neighbours(plan.files) > 1)
    is_small = pa.array(small).cast(pa.int64())
    files = plan.files.select([noun, "size_bytes"]).append_column("small", is_small)
    grouped = files.group_by(noun, use_threads=False).aggregate(
        [("size_bytes", "count"), ("small", "sum"), ("size_bytes", "sum")]
    )
    order = [("small_sum", "descending"), ("size_bytes_count", "descending"), (noun, "ascending")]
    shown = grouped.sort_by(order).slice(0, MOST_GROUPS)
    names = [
        name_partition(plan.schema, each) if noun == "partition" else f"bucket {each}"
        for each in shown.column(noun).to_pylist()
    ]
    figures = zip(
        *(shown.column(f"{name}").to_pylist() for name in ("size_bytes_count", "small_sum", "size_bytes_sum")),
        strict=True,
    )
    return Files(
        table,
        0 if plan.snapshot is None else plan.snapshot.snapshot_id,
        target_bytes,
        small_below,
        len(sizes),
        int(small.sum()),
        int(sizes.sum()),
        _to_bins(sizes, target_bytes, small),
        noun,
        tuple(FileGroup(name, *row) for name, row in zip(names, figures, strict=True)),
        grouped.num_rows - shown.num_rows,
    )


def _count_neighbours(files: pa.Table) -> npt.NDArray[np.int64]:
    """How many files the bucket of each file has, itself included."""
    partitions = pc.index_in(files.column("partition"), files.column("partition").unique()).to_numpy().astype(np.int64)
    buckets = files.column("bucket").to_numpy().astype(np.int64)
    _, places, counts = np.unique(partitions << 32 | buckets, return_inverse=True, return_counts=True)
    found: npt.NDArray[np.int64] = counts[places]
    return found


def _to_bins(sizes: npt.NDArray[np.int64], target_bytes: int, is_small: npt.NDArray[np.bool_]) -> tuple[SizeBin, ...]:
    """Bins whose ends double, or grow faster where there would be too many; one of them ends at the target."""
    if not len(sizes):
        return ()
    for base in (2.0, 4.0, 16.0):
        # Relative to the target, so that it is a border.
        places = np.floor(np.log(np.maximum(sizes, 1) / target_bytes) / np.log(base) + 1e-9).astype(np.int64)
        first, last = min(int(places.min()), -1), max(int(places.max()), 0)
        if last - first < _MOST_BINS:
            break
    places, bins = places - first, last - first + 1
    files = np.bincount(places, minlength=bins)
    small = np.bincount(places[is_small], minlength=bins)
    totals = np.bincount(places, weights=sizes, minlength=bins)
    return tuple(
        SizeBin(
            round(target_bytes * base ** (first + number)),
            round(target_bytes * base ** (first + number + 1)),
            int(files[number]),
            int(small[number]),
            int(totals[number]),
        )
        for number in range(len(files))
    )


def draw_files(data: Files, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws a histogram of sizes with the target, and below it where small files are. Pure."""
    drawing = Drawing(width)
    title = f"File sizes of {data.table}"
    words = describe(data)
    y = drawing.heading(title, [words])
    if data.bins:
        y = _draw_histogram(drawing, data, y)
        y = _draw_legend(drawing, y)
        y = _draw_groups(drawing, data, y + 22) if len(data.groups) > 1 else y
    return drawing.finish(y + 8, title, words)


def describe(data: Files) -> str:
    """The picture in words."""
    if not data.files:
        return "The table has no files yet."
    average = f", on average {size(data.bytes / data.files)}" if data.files > 1 else ""
    share = round(100 * data.small / data.files)
    found = f"{count(data.small)} ({share} %) {'is' if data.small == 1 else 'are'}" if data.small else "None is"
    return (
        f"Snapshot {data.snapshot_id}: {plural(data.files, 'file')}, {size(data.bytes)}{average}. {found} small, that "
        f"is below {size(data.small_below_bytes)} (0.7 times the target of {size(data.target_bytes)}) and not alone in "
        "a bucket."
    )


def _draw_histogram(drawing: Drawing, data: Files, y: float) -> float:
    left, right = MARGIN + 46, drawing.width - MARGIN
    ticks = count_ticks(max(each.files for each in data.bins), 3)
    scale = Scale(0, ticks[-1].value, y + 148, y + 30)
    drawing.text(MARGIN, y + 8, "files", paint="soft", size=11.5)
    for tick in ticks:
        drawing.line(left, scale.place(tick.value), right, scale.place(tick.value))
        drawing.text(left - 6, scale.place(tick.value) + 4, tick.text, paint="soft", size=11.5, anchor="end")
    step = (right - left) / len(data.bins)
    every = max(round(64 / step + 0.5), 1)
    target = next((place for place, each in enumerate(data.bins) if each.start == data.target_bytes), len(data.bins))
    for place, each in enumerate(data.bins):
        x = left + place * step
        if each.files:
            top, bottom = min(scale.place(each.files), scale.place(0) - 1.5), scale.place(0)
            about = f"{size(each.start)} to {size(each.end)}: {plural(each.files, 'file')}, {size(each.bytes)}"
            small = bottom - (bottom - top) * each.small / each.files
            drawing.box(x + 1.5, top, step - 3, small - top, paint="blue", radius=0, about=about)
            drawing.box(x + 1.5, small, step - 3, bottom - small, paint="amber", radius=0, about=about)
        if (place - target) % every == 0:
            drawing.line(x, scale.place(0), x, scale.place(0) + 4, paint="gray")
            drawing.text(
                x, scale.place(0) + 16, size(each.start).replace(".0 ", " "), paint="soft", size=11, anchor="middle"
            )
    x = left + target * step
    drawing.line(x, y + 12, x, scale.place(0), paint="ink", dashed=True)
    text = f"target {size(data.target_bytes)}"
    is_right = x + measure(text, 11.5) + 8 < right
    drawing.text(x + 5 if is_right else x - 5, y + 22, text, size=11.5, anchor="start" if is_right else "end")
    return scale.place(0) + 26


def _draw_legend(drawing: Drawing, y: float) -> float:
    drawing.box(MARGIN, y + 2, 14, 11, paint="amber")
    drawing.text(MARGIN + 19, y + 12, "small, to be merged", paint="soft", size=11.5)
    drawing.box(MARGIN + 160, y + 2, 14, 11, paint="blue")
    drawing.text(MARGIN + 179, y + 12, "others", paint="soft", size=11.5)
    return y + 18


def _draw_groups(drawing: Drawing, data: Files, y: float) -> float:
    y = drawing.notes(y, [f"Files of each {data.noun}, the small ones first:"]) + 2
    left = MARGIN + 10 + min(max(measure(each.name, 11.5) for each in data.groups), (drawing.width - 2 * MARGIN) * 0.34)
    right = drawing.width - MARGIN - 96
    scale = Scale(0, max(each.files for each in data.groups), 0, right - left)
    for each in data.groups:
        drawing.text(left - 8, y + 3, each.name, size=11.5, anchor="end", room=left - MARGIN - 8)
        small = scale.place(each.small) if each.small else 0
        about = f"{each.name}: {plural(each.files, 'file')}, {size(each.bytes)}, {count(each.small)} of them small"
        drawing.box(left, y - 8, scale.place(each.files), 13, paint="blue", about=about)
        drawing.box(left, y - 8, max(small - (1 if each.small < each.files else 0), 0), 13, paint="amber", about=about)
        words = f"{count(each.small)} of {count(each.files)} small"
        drawing.text(drawing.width - MARGIN, y + 3, words, size=11, anchor="end")
        y += _ROW
    if data.more_groups:
        drawing.text(left, y + 3, f"and {plural(data.more_groups, data.noun)} more", paint="soft", size=11.5)
        y += _ROW
    return y - 8
