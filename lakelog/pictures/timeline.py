"""The snapshots of a table over time: their kinds and rows, tags, rollbacks, and how far readers have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.pictures.history import load_history, load_log
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.pictures.svg.scales import Scale, Tick, count_ticks, time_ticks
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import clean, count, fit, measure, moment, plural
from lakelog.sdk.tables.table import Table

MOST_MARKS: Final = 12
"""Tags and readers that are drawn: the newest tags, the readers that are furthest behind."""
_BIN: Final = 7
_BESIDE: Final = 500
"""From this width on names are written beside their marks, else above them."""
_PAINTS: Final[dict[str, Paint]] = {"APPEND": "blue", "OVERWRITE": "amber", "COMPACT": "purple"}


@dataclass(frozen=True)
class Commit:
    """A snapshot of the timeline.

    Args:
        snapshot_id: Its number.
        kind: `APPEND`, `OVERWRITE` or `COMPACT`.
        at_ms: When it was committed.
        added_rows: The rows that it added or, if it is a compaction, rewrote.
        like: An earlier snapshot with the same rows, files and bytes, to which this overwrite went back; 0: none.
    """

    snapshot_id: int
    kind: str
    at_ms: int
    added_rows: int
    like: int = 0


@dataclass(frozen=True)
class Mark:
    """A name at a snapshot.

    Args:
        name: The tag, the consumer, or the topic of the log.
        snapshot_id: Its snapshot; None: a consumer that has done none.
        at_ms: When that was committed; None: before the first one that is shown.
        behind: How many snapshots come after it.
    """

    name: str
    snapshot_id: int | None
    at_ms: int | None
    behind: int


@dataclass(frozen=True)
class Timeline:
    """What the picture shows.

    Args:
        table: The table's name.
        commits: The newest snapshots, in rising order.
        earlier: Retained snapshots before these.
        tags: The newest tags.
        more_tags: Tags that are left out.
        readers: Consumers, the furthest behind first.
        more_readers: Consumers that are left out.
        log: The external log; None: there is none.
    """

    table: str
    commits: tuple[Commit, ...]
    earlier: int = 0
    tags: tuple[Mark, ...] = ()
    more_tags: int = 0
    readers: tuple[Mark, ...] = ()
    more_readers: int = 0
    log: Mark | None = None


def load_timeline(table: Table) -> Timeline:
    """Asks the metastore for the newest snapshots, tags, consumers and the log. Errors as of `Table.snapshots`."""
    metastore = table.context.metastore
    history = load_history(table)
    times = {each.snapshot_id: each.committed_at_ms for each in history.snapshots}

    def mark(name: str, snapshot_id: int | None) -> Mark:
        behind = 0 if snapshot_id is None else max(history.latest_id - snapshot_id, 0)
        return Mark(name, snapshot_id, None if snapshot_id is None else times.get(snapshot_id), behind)

    tags = sorted(metastore.list_tags(table.uuid), key=lambda each: -each.snapshot_id)
    readers = [mark(each.consumer_id, each.snapshot_id) for each in metastore.list_consumers(table.uuid)]
    readers.sort(key=lambda each: (-each.behind, each.name))
    status = load_log(table, table.context.clock.now_ms())
    return Timeline(
        table.name,
        to_commits(history.snapshots),
        history.earlier,
        tuple(mark(each.name, each.snapshot_id) for each in reversed(tags[:MOST_MARKS])),
        max(len(tags) - MOST_MARKS, 0),
        tuple(readers[:MOST_MARKS]),
        max(len(readers) - MOST_MARKS, 0),
        None if status is None else mark(status.info.topic, status.state.snapshot_id),
    )


def to_commits(snapshots: Sequence[Snapshot]) -> tuple[Commit, ...]:
    """The snapshots in the form of the picture. Pure.

    A rollback is an overwrite like any other. One that has exactly the totals of an earlier snapshot is shown as
    a return to it.
    """
    commits: list[Commit] = []
    seen: dict[tuple[int, int, int], int] = {}
    for each in snapshots:
        totals = (each.total_rows, each.total_files, each.total_bytes)
        like = seen.get(totals, 0) if each.kind is SnapshotKind.OVERWRITE and each.total_files else 0
        commits.append(Commit(each.snapshot_id, each.kind.value, each.committed_at_ms, each.added_rows, like))
        seen[totals] = each.snapshot_id
    return tuple(commits)


def draw_timeline(data: Timeline, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws rows and kinds of snapshots over time, and below them tags and readers where they stand. Pure."""
    drawing = Drawing(width)
    title = f"Snapshots of {data.table}"
    words = describe(data)
    y = drawing.heading(title, [words])
    if not data.commits:
        return drawing.finish(y + 8, title, words)
    left = MARGIN + 74
    times = Scale(data.commits[0].at_ms, data.commits[-1].at_ms, left + _BIN, width - MARGIN - _BIN)
    bins = _to_bins(data.commits, times)
    y = _draw_rows(drawing, bins, y, left)
    for kind in SnapshotKind:
        y = _draw_kind(drawing, kind.value, bins, y, left)
    y = _draw_axis(drawing, times, y, left)
    return drawing.finish(_draw_marks(drawing, data, times, y) + 6, title, words)


def describe(data: Timeline) -> str:
    """The picture in a sentence or two."""
    if not data.commits:
        return "The table has no snapshots yet."
    kinds = {kind.value: sum(each.kind == kind.value for each in data.commits) for kind in SnapshotKind}
    parts = ", ".join(f"{number:,} {kind.lower()}" for kind, number in kinds.items() if number)
    first, last = data.commits[0], data.commits[-1]
    when = f"{moment(first.at_ms)} to {moment(last.at_ms)} UTC"
    text = f"Snapshots {first.snapshot_id} to {last.snapshot_id} ({parts}), {when}."
    if data.earlier:
        text += f" {plural(data.earlier, 'earlier snapshot')} not shown."
    return text


def _to_bins(commits: Sequence[Commit], times: Scale) -> dict[int, list[Commit]]:
    """The commits by the left edge of the column in which they are drawn."""
    bins: dict[int, list[Commit]] = {}
    for each in commits:
        bins.setdefault(int(times.place(each.at_ms) // _BIN) * _BIN, []).append(each)
    return bins


def _draw_rows(drawing: Drawing, bins: dict[int, list[Commit]], y: float, left: float) -> float:
    rows = {x: sum(each.added_rows for each in found if each.kind != "COMPACT") for x, found in bins.items()}
    ticks = count_ticks(max(rows.values()), 3)
    scale = Scale(0, ticks[-1].value, y + 112, y + 20)
    drawing.text(MARGIN, y + 6, "rows added by commits", paint="soft", size=11.5)
    for tick in ticks:
        drawing.line(left, scale.place(tick.value), drawing.width - MARGIN, scale.place(tick.value))
        drawing.text(left - 6, scale.place(tick.value) + 4, tick.text, paint="soft", size=11.5, anchor="end")
    for x, number in rows.items():
        if number:
            top = min(scale.place(number), scale.place(0) - 1)
            about = f"{_name(bins[x])}: {plural(number, 'row')}"
            drawing.box(x, top, _BIN - 1, scale.place(0) - top, paint="blue", radius=1, about=about)
    return y + 126


def _draw_kind(drawing: Drawing, kind: str, bins: dict[int, list[Commit]], y: float, left: float) -> float:
    """A lane with a column wherever there are snapshots of a kind, as high as there are many."""
    found = {x: [each for each in commits if each.kind == kind] for x, commits in bins.items()}
    most = max(len(each) for each in found.values())
    drawing.text(left - 6, y + 17, kind.lower(), paint="soft", size=11.5, anchor="end")
    drawing.line(left, y + 20, drawing.width - MARGIN, y + 20)
    for x, commits in found.items():
        if commits:
            height = 8 + 8 * (len(commits) - 1) / max(most - 1, 1)
            about = f"{kind.lower()}: {_name(commits)}, {moment(commits[0].at_ms)}"
            drawing.box(x, y + 20 - height, _BIN - 1, height, paint=_PAINTS[kind], radius=1, about=about)
    for x, commits in found.items():
        back = next((each.like for each in commits if each.like), 0)
        if back:
            drawing.text(x + 3, y + 8, f"↩ {back}", size=11, anchor="middle")
    return y + 26


def _draw_axis(drawing: Drawing, times: Scale, y: float, left: float) -> float:
    ticks = time_ticks(int(times.first), int(times.last), max(int((times.end - times.start) // 80), 1))
    if len(ticks) < 2:
        ticks = [Tick(each, moment(int(each), "%H:%M:%S")) for each in sorted({times.first, times.last})]
    for tick in ticks:
        x = times.place(tick.value)
        drawing.line(x, y - 6, x, y - 1, paint="gray")
        inside = min(max(x, left + 24), drawing.width - MARGIN - 30)
        drawing.text(inside, y + 12, tick.text, paint="soft", size=11.5, anchor="middle")
    drawing.text(left - 6, y + 12, "UTC", paint="soft", size=11.5, anchor="end")
    return y + 26


def _draw_marks(drawing: Drawing, data: Timeline, times: Scale, y: float) -> float:
    lanes: list[tuple[str, Paint, Mark]] = [("tag", "teal", each) for each in data.tags]
    lanes += [] if data.log is None else [("log", "amber", data.log)]
    lanes += [("consumer", "purple", each) for each in data.readers]
    for label, paint, mark in lanes:
        x = times.start if mark.at_ms is None else times.place(mark.at_ms)
        drawing.text(times.start - _BIN - 6, y + 10, label, paint="soft", size=11.5, anchor="end")
        if drawing.width < _BESIDE:
            drawing.text(times.start, y + 10, _cut(label, mark, times.end - times.start), size=11.5)
            y += 14
            end = x - 8
        else:
            end = _draw_beside(drawing, x, y + 10, label, mark, times)
        if end > times.start:
            drawing.line(times.start, y + 6, end, y + 6, paint="gray")
        drawing.polygon([(x - 5, y + 1), (x + 5, y + 1), (x, y + 11)], paint=paint, about=_say(label, mark))
        y += 20
    for number, noun in ((data.more_tags, "older tag"), (data.more_readers, "further consumer")):
        if number:
            drawing.text(times.start, y + 10, f"and {plural(number, noun)}", paint="soft", size=11.5)
            y += 18
    return y


def _draw_beside(drawing: Drawing, x: float, y: float, label: str, mark: Mark, times: Scale) -> float:
    """Writes a mark's name where there is more room; returns where the lane's line ends."""
    is_left = x - times.start > times.end - x
    text = _cut(label, mark, max(x - times.start, times.end - x) - 14)
    drawing.text(x - 10 if is_left else x + 10, y, text, size=11.5, anchor="end" if is_left else "start")
    return x - 16 - measure(text, 11.5) if is_left else x - 8


def _cut(label: str, mark: Mark, room: float) -> str:
    """The name and where it is; the name is cut rather than the figures."""
    where = _where(label, mark)
    return f"{fit(clean(mark.name), room - measure(where, 11.5), 11.5)}{where}"


def _say(label: str, mark: Mark) -> str:
    return f"{label} {mark.name}{_where(label, mark)}"


def _where(label: str, mark: Mark) -> str:
    if label == "tag":
        return f" ({mark.snapshot_id})"
    if mark.snapshot_id is None:
        return " (has done none yet)"
    return f" (at {mark.snapshot_id}, {f'{count(mark.behind)} behind' if mark.behind else 'up to date'})"


def _name(commits: Sequence[Commit]) -> str:
    first, last = commits[0].snapshot_id, commits[-1].snapshot_id
    return f"snapshot {first}" if first == last else f"{plural(len(commits), 'snapshot')} from {first} to {last}"
