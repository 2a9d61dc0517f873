"""When readers see the rows of a table: the steps until then, and what the log has of the newest commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lakelog.format.tables.snapshot import LogContent, Snapshot
from lakelog.log.settings import read_log_settings
from lakelog.pictures.history import load_history, load_log, load_now_ms
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.pictures.svg.scales import Scale
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import age, plural
from lakelog.sdk.tables.table import Table

MOST_COMMITS: Final = 12
_ROW: Final = 20

Consistency = Literal["transactional", "eventual"]
State = Literal["sent", "published", "waiting"]

_STEPS: Final[dict[str, tuple[str, ...]]] = {
    "reads, SQL, Spark": ("write", "commit", "seen"),
    "subscriptions": ("write", "commit", "push", "seen"),
    "transactional log": ("write", "commit", "publish", "seen"),
    "eventual log": ("send", "seen", "commit"),
}
_STEP_PAINTS: Final[dict[str, Paint]] = {"commit": "gray", "seen": "teal"}


@dataclass(frozen=True)
class CommitAge:
    """A commit with rows for the log.

    Args:
        snapshot_id: Its snapshot.
        rows: The rows that it added.
        age_ms: How long ago it was committed.
        state: `sent`: its rows were in the log before the commit; `published`: they are in it now; `waiting`: not all.
    """

    snapshot_id: int
    rows: int
    age_ms: int
    state: State


@dataclass(frozen=True)
class Freshness:
    """What the picture shows.

    Args:
        table: The table's name.
        consistency: Of its log; None: it has none.
        commits: The newest commits with rows for the log, in rising order.
        waiting: How many wait, also earlier ones.
        is_least: There are more than were counted.
        oldest_ms: How long the first of them has waited; 0: there is none.
        reported_ms: How long ago the publisher reported; None: never.
        problem: Why it is not published; empty: no known problem.
    """

    table: str
    consistency: Consistency | None
    commits: tuple[CommitAge, ...] = ()
    waiting: int = 0
    is_least: bool = False
    oldest_ms: int = 0
    reported_ms: int | None = None
    problem: str = ""


def load_freshness(table: Table) -> Freshness:
    """Asks the metastore for the log and the newest snapshots. Errors as of `Table.snapshots`."""
    now_ms = load_now_ms(table)
    status = load_log(table, now_ms)
    if status is None:
        return Freshness(table.name, None)
    settings = read_log_settings(table.info.options, has_primary_key=bool(table.primary_key))
    return Freshness(
        table.name,
        "eventual" if settings is not None and settings.is_eventual else "transactional",
        to_commits(load_history(table).snapshots, status.state.snapshot_id, now_ms),
        status.snapshots_behind,
        status.is_further,
        status.behind_ms,
        max(now_ms - status.state.reported_at_ms, 0) if status.state.reported_at_ms else None,
        status.problem,
    )


def to_commits(snapshots: Sequence[Snapshot], published_id: int, now_ms: int) -> tuple[CommitAge, ...]:
    """The newest commits with rows for the log. Pure."""
    found = [each for each in snapshots if each.log is not LogContent.NONE][-MOST_COMMITS:]
    return tuple(
        CommitAge(
            each.snapshot_id,
            each.added_rows,
            max(now_ms - each.committed_at_ms, 0),
            _state_of(each, published_id),
        )
        for each in found
    )


def _state_of(snapshot: Snapshot, published_id: int) -> State:
    if snapshot.sent_offsets is not None:
        return "sent"
    return "published" if snapshot.snapshot_id <= published_id else "waiting"


def draw_freshness(data: Freshness, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws the order of the steps to each kind of reader, and which commits the log has. Pure."""
    drawing = Drawing(width)
    title = f"When readers see the rows of {data.table}"
    words = describe(data)
    y = drawing.heading(title, [words])
    y = draw_steps(drawing, y, f"{data.consistency} log" if data.consistency else "")
    if data.commits:
        y = _draw_commits(drawing, data, y + 18)
    note = "The metastore does not record when a published snapshot became visible, so there is no figure for these."
    y = drawing.notes(y + 16, [note]) if data.commits else y
    return drawing.finish(y + 4, title, words)


def describe(data: Freshness) -> str:
    """The picture in words."""
    if data.consistency is None:
        return "The table has no log. Reads see a commit at once, subscriptions when the metastore has pushed it."
    text = f"Its log is {data.consistency}: "
    text += (
        "rows are in it before their commit, which may never come."
        if data.consistency == "eventual"
        else "rows are in it after their commit, each once."
    )
    if data.waiting:
        least = "At least " if data.is_least else ""
        text += f" {least}{plural(data.waiting, 'commit')} not published as a whole, for {age(data.oldest_ms)}."
    else:
        text += " No commit waits to be published."
    if data.problem:
        return f"{text} Problem: {data.problem}"
    return text if data.reported_ms is None else f"{text} The publisher reported {age(data.reported_ms)} ago."


def draw_steps(drawing: Drawing, y: float, own: str) -> float:
    """Draws for each kind of reader the steps until it sees a row, with that of the table marked; returns the end."""
    is_wide = drawing.width >= 560
    for reader, steps in _STEPS.items():
        x = float(MARGIN)
        label = f"{reader} (this table)" if reader == own else reader
        drawing.text(x, y + 14, label, bold=reader == own, size=11.5)
        if is_wide:
            x += 210
        else:
            y += 20
        room = (drawing.width - MARGIN - x - 3 * 18) / 4
        for number, step in enumerate(steps):
            left = x + number * (room + 18)
            if number:
                drawing.arrow(left - 16, y + 10, left - 2, y + 10)
            drawing.box(left, y, room, 20, paint=_STEP_PAINTS.get(step, "panel"), line="grid", radius=4)
            paint: Paint = "on" if step in _STEP_PAINTS else "ink"
            drawing.text(left + room / 2, y + 14, step, paint=paint, size=11.5, anchor="middle", room=room - 4)
        y += 30
    return y


def _draw_commits(drawing: Drawing, data: Freshness, y: float) -> float:
    """A row for each commit: from the commit until now if it waits, else only a dot where it was committed."""
    left = MARGIN + 92
    right = drawing.width - MARGIN - 104
    oldest = max(each.age_ms for each in data.commits)
    scale = Scale(-max(oldest, 1), 0, left, right)
    drawing.text(left, y, f"{age(oldest)} ago", paint="soft", size=11.5, room=right - left)
    drawing.text(right + 8, y, "now", paint="soft", size=11.5)
    drawing.line(right, y + 6, right, y + 8 + _ROW * len(data.commits))
    y += 8
    for each in data.commits:
        x = scale.place(-each.age_ms)
        drawing.text(left - 8, y + 13, f"snapshot {each.snapshot_id}", size=11.5, anchor="end", room=left - MARGIN - 8)
        about = (
            f"snapshot {each.snapshot_id}, {plural(each.rows, 'row')}, committed {age(each.age_ms)} ago, {each.state}"
        )
        drawing.line(left, y + 9, right, y + 9)
        if each.state == "waiting":
            drawing.box(x, y + 5, max(right - x, 2), 8, paint="amber", radius=3, about=about)
            words = f"waits {age(each.age_ms)}"
        else:
            drawing.circle(x, y + 9, 4, paint="teal" if each.state == "published" else "purple", about=about)
            words = "in the log" if each.state == "published" else "sent before"
        drawing.text(right + 8, y + 13, words, size=11.5, room=drawing.width - right - 12)
        y += _ROW
    return y
