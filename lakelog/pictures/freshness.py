"""When readers see the rows of a table: the steps until then, and how long the newest commits took to the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final, Literal

from lakelog.format.tables.snapshot import LogContent, Snapshot
from lakelog.log.settings import read_log_settings
from lakelog.pictures.history import MOST_SNAPSHOTS, load_history, load_log, load_now_ms
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.pictures.svg.scales import Scale
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import age, plural
from lakelog.sdk.tables.table import Table

MOST_COMMITS: Final = 12
_MOST_MEASURED: Final = 64
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
        delay_ms: How long after the commit they were visible in the log, at most; None: not known, or not `published`.
    """

    snapshot_id: int
    rows: int
    age_ms: int
    state: State
    delay_ms: int | None = None


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
        measured: How many of the newest commits have a known delay; 0: the following two say nothing.
        median_ms: The median of their delays.
        worst_ms: The longest.
    """

    table: str
    consistency: Consistency | None
    commits: tuple[CommitAge, ...] = ()
    waiting: int = 0
    is_least: bool = False
    oldest_ms: int = 0
    reported_ms: int | None = None
    problem: str = ""
    measured: int = 0
    median_ms: int = 0
    worst_ms: int = 0


def load_freshness(table: Table) -> Freshness:
    """Asks the metastore for the log and the newest snapshots. Errors as of `Table.snapshots`."""
    now_ms = load_now_ms(table)
    status = load_log(table, now_ms)
    if status is None:
        return Freshness(table.name, None)
    settings = read_log_settings(table.info.options, has_primary_key=bool(table.primary_key))
    found = [each for each in load_history(table).snapshots if each.log is not LogContent.NONE][-_MOST_MEASURED:]
    commits = to_commits(found, status.state.snapshot_id, _load_visible(table, found), now_ms)
    delays = [each.delay_ms for each in commits if each.delay_ms is not None]
    return Freshness(
        table.name,
        "eventual" if settings is not None and settings.is_eventual else "transactional",
        commits[-MOST_COMMITS:],
        status.snapshots_behind,
        status.is_further,
        status.behind_ms,
        max(now_ms - status.state.reported_at_ms, 0) if status.state.reported_at_ms else None,
        status.problem,
        len(delays),
        median_low(delays) if delays else 0,
        max(delays, default=0),
    )


def _load_visible(table: Table, snapshots: Sequence[Snapshot]) -> dict[int, int]:
    """When snapshots (rising) became visible in the log; those of which it is not known are left out."""
    if not snapshots:
        return {}
    after, until = snapshots[0].snapshot_id - 1, snapshots[-1].snapshot_id
    # Compactions lie between them, so more than are shown; the history is as long.
    ends = table.context.metastore.list_log_offsets(table.uuid, after=after, until=until, limit=MOST_SNAPSHOTS)
    return {each.snapshot_id: each.visible_at_ms for each in ends if each.visible_at_ms}


def to_commits(
    snapshots: Sequence[Snapshot], published_id: int, visible: Mapping[int, int], now_ms: int
) -> tuple[CommitAge, ...]:
    """Commits with rows for the log, and their delays if it is known when they became visible. Pure."""
    commits = []
    for each in snapshots:
        state = _state_of(each, published_id)
        is_known = state == "published" and each.snapshot_id in visible
        delay_ms = max(visible[each.snapshot_id] - each.committed_at_ms, 0) if is_known else None
        age_ms = max(now_ms - each.committed_at_ms, 0)
        commits.append(CommitAge(each.snapshot_id, each.added_rows, age_ms, state, delay_ms))
    return tuple(commits)


def _state_of(snapshot: Snapshot, published_id: int) -> State:
    if snapshot.sent_offsets is not None:
        return "sent"
    return "published" if snapshot.snapshot_id <= published_id else "waiting"


def draw_freshness(data: Freshness, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws the order of the steps to each kind of reader, and how long commits took to the log. Pure."""
    drawing = Drawing(width)
    title = f"When readers see the rows of {data.table}"
    words = describe(data)
    y = drawing.heading(title, [words])
    y = draw_steps(drawing, y, f"{data.consistency} log" if data.consistency else "")
    if data.commits:
        y = _draw_commits(drawing, data, y + 18)
    if data.measured:
        y = drawing.notes(y + 16, ["Visible at the latest then: when the publisher had reported it to the metastore."])
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
    text += _describe_delays(data)
    if data.problem:
        return f"{text} Problem: {data.problem}"
    return text if data.reported_ms is None else f"{text} The publisher reported {age(data.reported_ms)} ago."


def _describe_delays(data: Freshness) -> str:
    if data.measured:
        return (
            f" From commit to visible in the log: median {_delay(data.median_ms)}, at worst {_delay(data.worst_ms)}, "
            f"over {plural(data.measured, 'commit')}."
        )
    if any(each.state == "published" for each in data.commits):
        return " It is not known how long published commits took."
    return ""


def _delay(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else age(milliseconds)


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
    """A bar for each commit, from the commit until it was visible in the log, or until now if it waits."""
    left = MARGIN + 92
    right = drawing.width - MARGIN - 116
    known = [each.delay_ms for each in data.commits if each.delay_ms is not None]
    # Those that wait, perhaps for hours, would make bars of milliseconds invisible.
    longest = max(known or [each.age_ms for each in data.commits])
    scale = Scale(0, max(longest, 1), left, right)
    drawing.text(left, y, "commit", paint="soft", size=11.5)
    # Dots have no length, so they need no end of the axis.
    if known or any(each.state == "waiting" for each in data.commits):
        drawing.text(right, y, _delay(longest), paint="soft", size=11.5, anchor="end", room=right - left - 48)
    drawing.line(left, y + 6, left, y + 8 + _ROW * len(data.commits))
    y += 8
    for each in data.commits:
        drawing.text(left - 8, y + 13, f"snapshot {each.snapshot_id}", size=11.5, anchor="end", room=left - MARGIN - 8)
        words, paint = _show_state(each)
        about = f"snapshot {each.snapshot_id}, {plural(each.rows, 'row')}, committed {age(each.age_ms)} ago, {words}"
        drawing.line(left, y + 9, right, y + 9)
        until_ms = each.age_ms if each.state == "waiting" else each.delay_ms
        if until_ms is None:
            drawing.circle(left, y + 9, 4, paint=paint, about=about)
        else:
            end_x = scale.place(min(until_ms, longest))
            drawing.box(left, y + 5, max(end_x - left, 2), 8, paint=paint, radius=3, about=about)
        drawing.text(right + 8, y + 13, words, size=11.5, room=drawing.width - right - 12)
        y += _ROW
    return y


def _show_state(commit: CommitAge) -> tuple[str, Paint]:
    if commit.state == "waiting":
        return f"waits {age(commit.age_ms)}", "amber"
    if commit.state == "sent":
        return "before the commit", "purple"
    if commit.delay_ms is None:
        return "time unknown", "gray"
    return f"after {_delay(commit.delay_ms)}", "teal"
