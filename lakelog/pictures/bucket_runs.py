"""The sorted runs of one bucket: each a row, with its files as boxes along the range of keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.keys.partition_text import name_partition
from lakelog.format.tables.plan import Plan
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import Picture
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import measure, plural, size
from lakelog.system_tables.metadata.encoded import to_key_texts

MOST_RUNS: Final = 24
MOST_BOXES: Final = 100
"""Boxes of a row; in a run of more files each box stands for several that follow each other."""
_ROW: Final = 30

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FileBox:
    """A file, or several neighbours of one run.

    Args:
        files: How many.
        rows: Their rows.
        bytes: Their size.
        deletes: Rows that delete, or that no read shows.
        start: Where its lowest key is, from 0 to 1.
        end: Where its highest one is.
        first_key: That key as text; None: not known.
        last_key: The highest one.
        has_vector: Whether a deletion vector belongs to it.
    """

    files: int
    rows: int
    bytes: int
    deletes: int
    start: float
    end: float
    first_key: str | None
    last_key: str | None
    has_vector: bool


@dataclass(frozen=True)
class Run:
    """A sorted run: a file of level 0, or all files of a higher level."""

    level: int
    files: int
    rows: int
    bytes: int
    boxes: tuple[FileBox, ...]
    added_snapshot: int


@dataclass(frozen=True)
class BucketRuns:
    """What the picture shows.

    Args:
        table: The table's name.
        partition: The partition as text; empty: the table has none.
        bucket: The bucket.
        snapshot_id: The state.
        by_key: Whether boxes lie along the keys; else beside each other, as wide as they are large.
        files: All files of the bucket.
        bytes: Their size.
        runs: From the newest to the highest level.
        more_runs: Runs of level 0 that are left out, the oldest ones.
    """

    table: str
    partition: str
    bucket: int
    snapshot_id: int
    by_key: bool
    files: int
    bytes: int
    runs: tuple[Run, ...]
    more_runs: int = 0


def to_runs(table: str, plan: Plan) -> BucketRuns:
    """The runs of a plan whose files belong to one bucket. Pure."""
    files = plan.files.combine_chunks()
    assert plan.snapshot is not None, "there are files"
    by_key = bool(plan.schema.primary_key)
    levels = files.column("level").to_numpy()
    order = np.arange(len(levels))
    newest_first = order[levels == 0][::-1] if by_key else order[:0]
    groups = [order[place : place + 1] for place in newest_first]
    groups += [order[levels == level] for level in np.unique(levels[levels > 0] if by_key else levels)]
    upper = groups[len(newest_first) :]
    room = max(MOST_RUNS - len(upper), 1)
    shown = [*groups[: min(room, len(newest_first))], *upper]
    part = files.take(pa.array(np.concatenate(shown)))
    starts, ends = _place_keys(part) if by_key else _place_beside(part)
    texts = {name: to_key_texts(part.column(name), plan.schema) for name in ("min_key", "max_key")}
    runs, place = [], 0
    for group in shown:
        span = slice(place, place + len(group))
        runs.append(_to_run(part.slice(place, len(group)), starts[span], ends[span], texts, place))
        place += len(group)
    return BucketRuns(
        table,
        name_partition(plan.schema, files.column("partition")[0].as_py()),
        files.column("bucket")[0].as_py(),
        plan.snapshot.snapshot_id,
        by_key,
        files.num_rows,
        int(files.column("size_bytes").to_numpy().sum()),
        tuple(runs),
        len(groups) - len(shown),
    )


def _to_run(part: pa.Table, starts: _Floats, ends: _Floats, texts: dict[str, pa.Array], place: int) -> Run:
    """One run, its files in the order of their keys, neighbours together where there are too many."""
    rows, sizes, deletes = (part.column(name).to_numpy() for name in ("row_count", "size_bytes", "delete_count"))
    paths = part.column("deletion_vector_path")
    has_vector = pc.greater(pc.binary_length(pc.fill_null(paths, "")), 0).to_numpy()
    order = np.argsort(starts, kind="stable")
    boxes = []
    for some in np.array_split(order, min(len(order), MOST_BOXES)):
        first, last = int(some[0]), int(some[np.argmax(ends[some])])
        boxes.append(
            FileBox(
                len(some),
                int(rows[some].sum()),
                int(sizes[some].sum()),
                int(deletes[some].sum()),
                float(starts[some].min()),
                float(ends[some].max()),
                texts["min_key"][place + first].as_py(),
                texts["max_key"][place + last].as_py(),
                bool(has_vector[some].any()),
            )
        )
    newest = int(part.column("added_snapshot").to_numpy().max())
    return Run(part.column("level")[0].as_py(), len(order), int(rows.sum()), int(sizes.sum()), tuple(boxes), newest)


def _place_beside(part: pa.Table) -> tuple[_Floats, _Floats]:
    """Files one after the other, as wide as they are large."""
    ends = np.cumsum(np.maximum(part.column("size_bytes").to_numpy(), 1).astype(np.float64))
    ends /= ends[-1]
    return np.concatenate([[0.0], ends[:-1]]), ends


def _place_keys(part: pa.Table) -> tuple[_Floats, _Floats]:
    """Where files begin and end on an axis of keys on which equal lengths hold equally many bytes.

    The bounds divide the axis into intervals, and a file's bytes are spread evenly over those that it spans. Keys
    themselves have no distances: they can be texts. A bound that is not known is at the end of the axis.
    """
    low, high = (part.column(name) for name in ("min_key", "max_key"))
    bounds = pa.chunked_array([*low.chunks, *high.chunks], pa.binary()).drop_null().unique()
    ranks = bounds.take(pc.sort_indices(bounds))
    first = pc.index_in(low, ranks).fill_null(0).to_numpy().astype(np.int64)
    last = pc.index_in(high, ranks).fill_null(len(ranks) - 1).to_numpy().astype(np.int64)
    # A file with a single key still has a width: each bound is an interval of its own, as is the gap after it.
    first, last = 2 * first, 2 * np.maximum(last, first) + 1
    density = np.zeros(2 * len(ranks) + 2)
    share = np.maximum(part.column("size_bytes").to_numpy(), 1) / (last - first)
    np.add.at(density, first, share)
    np.add.at(density, last, -share)
    axis = np.concatenate([[0.0], np.cumsum(np.maximum(np.cumsum(density)[:-1], 0))])
    axis /= axis[-1] or 1.0
    return axis[first], axis[last]


def draw_runs(data: BucketRuns, width: int) -> Picture:
    """Draws a row for each run. Pure."""
    drawing = Drawing(width)
    title = f"Levels of {data.table}{_of(data)}"
    words = describe_runs(data)
    hint = (
        "Boxes lie along the keys, on an axis whose equal lengths hold equally many bytes."
        if data.by_key
        else "Boxes are as wide as their files are large, in the order in which they were written."
    )
    y = drawing.heading(title, [words, hint])
    left = MARGIN + (104 if width >= 500 else 70)
    newest = sum(run.level == 0 for run in data.runs)
    for number, run in enumerate(data.runs, start=1):
        _draw_row(drawing, run, y, left, data)
        y += _ROW
        if data.more_runs and number == newest:
            drawing.text(left, y + 10, f"and {plural(data.more_runs, 'older run')} of level 0", paint="soft", size=11.5)
            y += 20
    if data.by_key and data.runs:
        y = _draw_ends(drawing, data, y, left)
    return drawing.finish(_draw_legend(drawing, data, y + 4) + 6, title, words)


def describe_runs(data: BucketRuns) -> str:
    """The picture in words."""
    runs = len(data.runs) + data.more_runs
    merged = f"a read merges {plural(runs, 'sorted run')}" if data.by_key and runs > 1 else "a read merges nothing"
    deletes = sum(box.deletes for run in data.runs for box in run.boxes)
    hidden = f" {plural(deletes, 'row')} in them delete or are hidden." if deletes else ""
    return f"Snapshot {data.snapshot_id}: {plural(data.files, 'file')}, {size(data.bytes)}; {merged}.{hidden}"


def _of(data: BucketRuns) -> str:
    return f", {data.partition}, bucket {data.bucket}" if data.partition else f", bucket {data.bucket}"


def _draw_row(drawing: Drawing, run: Run, y: float, left: float, data: BucketRuns) -> None:
    drawing.text(MARGIN, y + 11, f"level {run.level}" if data.by_key else "files", bold=True, size=11.5)
    drawing.text(MARGIN, y + 24, size(run.bytes), paint="soft", size=11)
    largest = max(each.bytes for each in data.runs)
    drawing.box(MARGIN, y + 27, (left - MARGIN - 12) * run.bytes / max(largest, 1), 2, paint="gray", radius=0)
    room = drawing.width - MARGIN - left
    drawing.line(left, y + 26, left + room, y + 26)
    for box in run.boxes:
        paint: Paint = "amber" if run.level == 0 and data.by_key else "blue"
        _draw_box(drawing, box, run, paint, left + box.start * room, max((box.end - box.start) * room - 1, 1.5), y)


def _draw_box(drawing: Drawing, box: FileBox, run: Run, paint: Paint, x: float, width: float, y: float) -> None:
    about = [f"{plural(box.files, 'file')} of level {run.level}", plural(box.rows, "row"), size(box.bytes)]
    if box.first_key is not None or box.last_key is not None:
        about.append(f"keys {box.first_key or '…'} to {box.last_key or '…'}")
    about += [plural(box.deletes, "deleting or hidden row")] if box.deletes else []
    about += ["with a deletion vector"] if box.has_vector else []
    about += [f"added by snapshot {run.added_snapshot}"] if run.level == 0 else []
    drawing.box(x, y + 2, width, 22, paint=paint, about=", ".join(about))
    if box.has_vector or box.deletes:
        for place in np.arange(x + 3, x + min(width, 60) - 2, 6):
            drawing.line(place, y + 23, place + 3, y + 18, paint="on", width=1.5)
    label = size(box.bytes) if box.files == 1 else plural(box.files, "file")
    if measure(label, 11) < width - 8:
        drawing.text(x + width / 2, y + 16, label, paint="on", size=11, anchor="middle")


def _draw_ends(drawing: Drawing, data: BucketRuns, y: float, left: float) -> float:
    """Writes the lowest and the highest key below the axis."""
    boxes = [box for run in data.runs for box in run.boxes]
    first = next((box.first_key for box in boxes if box.start == 0 and box.first_key is not None), None)
    end = max((box.end for box in boxes), default=1.0)
    last = next((box.last_key for box in boxes if box.end == end and box.last_key is not None), None)
    room = (drawing.width - MARGIN - left) / 2 - 12
    drawing.text(MARGIN, y + 12, "keys", paint="soft", size=11.5)
    drawing.text(left, y + 12, first or "…", paint="soft", size=11.5, room=room)
    drawing.text(drawing.width - MARGIN, y + 12, last or "…", paint="soft", size=11.5, anchor="end", room=room)
    return y + 24


def _draw_legend(drawing: Drawing, data: BucketRuns, y: float) -> float:
    entries: Sequence[tuple[Paint, str, bool]] = (
        ("amber", "level 0: written by commits", False),
        ("blue", "higher level: compacted", False),
        ("gray", "has deletes or a deletion vector", True),
    )
    x = float(MARGIN)
    for paint, text, is_marked in entries[0 if data.by_key else 2 :]:
        length = measure(text, 11.5) + 34
        if x + length > drawing.width:
            x, y = float(MARGIN), y + 18
        drawing.box(x, y + 2, 14, 11, paint=paint)
        if is_marked:
            for place in (x + 2, x + 8):
                drawing.line(place, y + 12, place + 3, y + 6, paint="on", width=1.5)
        drawing.text(x + 19, y + 12, text, paint="soft", size=11.5)
        x += length
    return y + 18
