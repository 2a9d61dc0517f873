"""Write amplification over time: the bytes that compactions write beside those of commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.pictures.history import History, load_history
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.pictures.svg.scales import Scale, Tick, size_ticks, time_ticks
from lakelog.pictures.svg.words import moment, plural, size
from lakelog.sdk.tables.table import Table

MOST_FILES: Final = 200_000
"""Files whose sizes are requested; the picture shows only so many of the newest snapshots as have added these."""
_COLUMNS: Final = 40


@dataclass(frozen=True)
class Span:
    """A stretch of time.

    Args:
        start_ms: When it begins.
        end_ms: When it ends.
        commit_bytes: Of the data files that commits wrote.
        compaction_bytes: Of those that compactions wrote.
        commits: The number of commits.
        compactions: That of compactions.
    """

    start_ms: int
    end_ms: int
    commit_bytes: int
    compaction_bytes: int
    commits: int
    compactions: int


@dataclass(frozen=True)
class Amplification:
    """What the picture shows.

    Args:
        table: The table's name.
        first_id: The first snapshot that is counted; 0: there is none.
        last_id: The last one.
        earlier: Retained snapshots before it.
        spans: In the order of time, equally long.
        is_most: Compactions wrote at most so much: too many files came before to tell which of them were moved.
    """

    table: str
    first_id: int
    last_id: int
    earlier: int
    spans: tuple[Span, ...]
    is_most: bool = False

    @property
    def commit_bytes(self) -> int:
        """What all commits wrote."""
        return sum(each.commit_bytes for each in self.spans)

    @property
    def compaction_bytes(self) -> int:
        """What all compactions wrote."""
        return sum(each.compaction_bytes for each in self.spans)

    @property
    def factor(self) -> float | None:
        """Bytes written for each byte of the commits; None: these wrote none."""
        return (self.commit_bytes + self.compaction_bytes) / self.commit_bytes if self.commit_bytes else None


def load_amplification(table: Table) -> Amplification:
    """Requests the sizes of the files that the newest snapshots added.

    Raises:
        SnapshotExpired: Snapshots expired between the requests; another try looks at those that are left.
        NotFound: The table was dropped.
    """
    history = load_history(table)
    snapshots = pick_newest(history, MOST_FILES)
    if not snapshots:
        return Amplification(table.name, 0, 0, 0, ())
    first, last = snapshots[0].snapshot_id, snapshots[-1].snapshot_id
    earlier = history.earlier + len(history.snapshots) - len(snapshots)
    metastore = table.context.metastore
    files = metastore.plan(PlanRequest(table.uuid, InRange(first - 1, last))).files
    known = pa.array([], pa.string())
    is_known = first == 1 or snapshots[0].total_files <= MOST_FILES
    if first > 1 and is_known:
        state = metastore.plan(PlanRequest(table.uuid, AtSnapshot(first))).files
        known = state.filter(pc.less(state.column("added_snapshot"), first)).column("path").combine_chunks()
    spans = to_spans(snapshots, sum_written(files, known, first, last))
    return Amplification(table.name, first, last, earlier, spans, is_most=not is_known)


def pick_newest(history: History, most_files: int) -> tuple[Snapshot, ...]:
    """The newest snapshots that added at most so many files; at least one. Pure."""
    added = np.cumsum([each.added_files for each in reversed(history.snapshots)])
    count = max(int(np.searchsorted(added, most_files, side="right")), 1)
    return history.snapshots[-count:]


def sum_written(files: pa.Table, known: pa.Array, first: int, last: int) -> npt.NDArray[np.int64]:
    """The bytes that each snapshot from `first` to `last` wrote. Pure; no loop over files.

    A file that got another level, or a deletion vector, was added again and not written again: only the first time
    counts, and none if its path is a known one.
    """
    ordered = files.sort_by("added_snapshot")
    paths = ordered.column("path").combine_chunks()
    _, firsts = np.unique(pc.index_in(paths, paths.unique()).to_numpy(), return_index=True)
    is_new = np.zeros(len(paths), np.bool_)
    is_new[firsts] = True
    is_new &= ~pc.is_in(paths, value_set=known).to_numpy(zero_copy_only=False)
    places = ordered.column("added_snapshot").to_numpy()[is_new] - first
    sizes = ordered.column("size_bytes").to_numpy()[is_new]
    return np.bincount(places, weights=sizes, minlength=last - first + 1).astype(np.int64)


def to_spans(snapshots: tuple[Snapshot, ...], written: npt.NDArray[np.int64]) -> tuple[Span, ...]:
    """Sums over equal stretches of time. Pure."""
    times = np.array([each.committed_at_ms for each in snapshots])
    compacts = np.array([each.kind is SnapshotKind.COMPACT for each in snapshots])
    sizes = written[np.array([each.snapshot_id for each in snapshots]) - snapshots[0].snapshot_id]
    first, last = int(times.min()), int(times.max()) + 1
    edges = np.linspace(first, last, min(_COLUMNS, last - first) + 1)
    places = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)

    def sums(some: npt.NDArray[np.bool_], weights: npt.NDArray[np.int64] | None) -> list[int]:
        chosen = None if weights is None else weights[some]
        return [int(each) for each in np.bincount(places[some], weights=chosen, minlength=len(edges) - 1)]

    columns = (sums(~compacts, sizes), sums(compacts, sizes), sums(~compacts, None), sums(compacts, None))
    return tuple(
        Span(round(start), round(end), *figures)
        for start, end, *figures in zip(edges[:-1], edges[1:], *columns, strict=True)
    )


def draw_amplification(data: Amplification, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws bytes written over time, those of commits below those of compactions, and the factor so far. Pure."""
    drawing = Drawing(width)
    title = f"Write amplification of {data.table}"
    words = describe(data)
    y = drawing.heading(title, [words])
    if data.spans:
        y = _draw_bytes(drawing, data, y)
        y = _draw_factor(drawing, data, y + 8)
        y = _draw_axis(drawing, data, y)
        note = (
            "Data files alone: neither changelogs nor deletion vectors. A file that only got another level counts once."
        )
        y = drawing.notes(_draw_legend(drawing, y + 4) + 14, [note])
    return drawing.finish(y + 4, title, words)


def describe(data: Amplification) -> str:
    """The picture in words."""
    if not data.spans:
        return "The table has no snapshots yet."
    most = "at most " if data.is_most and data.compaction_bytes else ""
    factor = (
        "nothing was committed"
        if data.factor is None
        else f"{most}{data.factor:.1f} bytes were written for each byte committed"
    )
    text = (
        f"Snapshots {data.first_id} to {data.last_id}: commits wrote {size(data.commit_bytes)}, compactions "
        f"{most}{size(data.compaction_bytes)}; {factor}."
    )
    return f"{text} {plural(data.earlier, 'earlier snapshot')} not counted." if data.earlier else text


def _times(drawing: Drawing, data: Amplification) -> Scale:
    return Scale(data.spans[0].start_ms, data.spans[-1].end_ms, MARGIN + 66, drawing.width - MARGIN)


def _draw_bytes(drawing: Drawing, data: Amplification, y: float) -> float:
    times = _times(drawing, data)
    ticks = size_ticks(max(each.commit_bytes + each.compaction_bytes for each in data.spans), 3)
    scale = Scale(0, ticks[-1].value, y + 128, y + 20)
    drawing.text(MARGIN, y + 6, "bytes written", paint="soft", size=11.5)
    for tick in ticks:
        drawing.line(times.start, scale.place(tick.value), times.end, scale.place(tick.value))
        drawing.text(times.start - 6, scale.place(tick.value) + 4, tick.text, paint="soft", size=11.5, anchor="end")
    for each in data.spans:
        x, width = times.place(each.start_ms), times.place(each.end_ms) - times.place(each.start_ms)
        about = f"{moment(each.start_ms)}: {plural(each.commits, 'commit')}, {size(each.commit_bytes)}; "
        about += f"{plural(each.compactions, 'compaction')}, {size(each.compaction_bytes)}"
        middle, top = scale.place(each.commit_bytes), scale.place(each.commit_bytes + each.compaction_bytes)
        if each.commit_bytes:
            drawing.box(x + 0.5, middle, width - 1, scale.place(0) - middle, paint="blue", radius=0, about=about)
        if each.compaction_bytes:
            drawing.box(x + 0.5, top, width - 1, middle - top, paint="purple", radius=0, about=about)
            for place in np.arange(middle - 3, top + 1, -5):
                drawing.line(x + 1.5, place, x + width - 1.5, place, paint="on", width=0.8)
    return y + 136


def _draw_factor(drawing: Drawing, data: Amplification, y: float) -> float:
    """A line of the bytes written until then for each byte committed until then."""
    times = _times(drawing, data)
    commits = np.cumsum([each.commit_bytes for each in data.spans])
    whole = commits + np.cumsum([each.compaction_bytes for each in data.spans])
    known = commits > 0
    if not known.any():
        return y
    factors = whole[known] / commits[known]
    scale = Scale(1, max(float(factors.max()), 1.5), y + 74, y + 20)
    drawing.text(MARGIN, y + 6, "bytes written so far for each byte committed", paint="soft", size=11.5)
    for value in (scale.first, scale.last):
        drawing.line(times.start, scale.place(value), times.end, scale.place(value))
        drawing.text(times.start - 6, scale.place(value) + 4, f"{value:.1f}", paint="soft", size=11.5, anchor="end")
    ends = [times.place(each.end_ms) for each, is_known in zip(data.spans, known, strict=True) if is_known]
    points = [(x, scale.place(float(factor))) for x, factor in zip(ends, factors, strict=True)]
    drawing.polyline([(times.start, points[0][1]), *points], paint="ink")
    return y + 78


def _draw_axis(drawing: Drawing, data: Amplification, y: float) -> float:
    times = _times(drawing, data)
    ticks = time_ticks(int(times.first), int(times.last), max(int((times.end - times.start) // 80), 1))
    if len(ticks) < 2:
        ticks = [Tick(each, moment(int(each), "%H:%M:%S")) for each in sorted({times.first, times.last})]
    for tick in ticks:
        x = times.place(tick.value)
        drawing.line(x, y - 4, x, y + 1, paint="gray")
        inside = min(max(x, times.start + 24), times.end - 30)
        drawing.text(inside, y + 14, tick.text, paint="soft", size=11.5, anchor="middle")
    drawing.text(times.start - 6, y + 14, "UTC", paint="soft", size=11.5, anchor="end")
    return y + 20


def _draw_legend(drawing: Drawing, y: float) -> float:
    drawing.box(MARGIN, y + 2, 14, 11, paint="blue", radius=0)
    drawing.text(MARGIN + 19, y + 12, "commits", paint="soft", size=11.5)
    drawing.box(MARGIN + 90, y + 2, 14, 11, paint="purple", radius=0)
    for place in (y + 5, y + 10):
        drawing.line(MARGIN + 91, place, MARGIN + 103, place, paint="on", width=0.8)
    drawing.text(MARGIN + 109, y + 12, "compactions", paint="soft", size=11.5)
    return y + 18
