"""How far behind its newest snapshot a table's consumers and its log are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.format.retention.lag import Lag
from lakelog.pictures.history import load_history, load_log, load_now_ms
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import age, measure, plural
from lakelog.sdk.tables.table import Table

MOST_READERS: Final = 20


@dataclass(frozen=True)
class ReaderLag:
    """A consumer, or the external log.

    Args:
        name: The consumer's id, or the topic of the log.
        is_log: Whether it is the log.
        snapshot_id: The last snapshot that it has done; None: none yet.
        lag: How far behind it is; None: it has done none.
        state: What else is to be said of it, for instance that it has no reader; may be empty.
    """

    name: str
    is_log: bool
    snapshot_id: int | None
    lag: Lag | None
    state: str = ""


@dataclass(frozen=True)
class Lags:
    """What the picture shows.

    Args:
        table: The table's name.
        latest_id: The newest snapshot; 0: there is none.
        readers: The log first, then consumers, the furthest behind first.
        more_readers: Consumers that are left out.
    """

    table: str
    latest_id: int
    readers: tuple[ReaderLag, ...]
    more_readers: int = 0


def load_lag(table: Table) -> Lags:
    """Asks the metastore for consumers, the log and the newest snapshots. Errors as of `Table.snapshots`."""
    now_ms = load_now_ms(table)
    history = load_history(table)
    consumers = [
        ReaderLag(
            each.consumer_id,
            False,
            each.snapshot_id,
            None if each.snapshot_id is None else history.measure_lag(each.snapshot_id, now_ms),
            "expired, retains nothing" if each.is_expired else "" if each.holder else "has no reader now",
        )
        for each in table.context.metastore.list_consumers(table.uuid)
    ]
    consumers.sort(key=lambda each: (-each.lag.snapshots if each.lag else 0, each.name))
    status = load_log(table, now_ms)
    logs = []
    if status is not None:
        lag = Lag(status.snapshots_behind, status.rows_behind, status.behind_ms, status.is_further)
        logs.append(ReaderLag(status.info.topic, True, status.state.snapshot_id, lag, status.problem))
    shown = consumers[:MOST_READERS]
    return Lags(table.name, history.latest_id, (*logs, *shown), len(consumers) - len(shown))


def draw_lag(data: Lags, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws for each reader a bar of the snapshots that it is behind, with rows and time. Pure."""
    drawing = Drawing(width)
    title = f"Readers of {data.table}"
    words = describe(data)
    y = drawing.heading(title, [words])
    most = max((each.lag.snapshots for each in data.readers if each.lag), default=0)
    for each in data.readers:
        y = _draw_reader(drawing, each, y, most)
    if data.more_readers:
        y = drawing.notes(y + 10, [f"and {plural(data.more_readers, 'consumer')} that are less far behind"])
    if most:
        y = drawing.notes(
            y + 10, [f"Full bar: {plural(most, 'snapshot')}. Rows do not count those that were rewritten."]
        )
    return drawing.finish(y + 4, title, words)


def describe(data: Lags) -> str:
    """The picture in words."""
    if not data.readers:
        return "The table has neither consumers nor a log."
    late = [each for each in data.readers if each.lag and each.lag.snapshots]
    if not late:
        return f"Nothing is behind: the newest snapshot is {data.latest_id}."
    worst = max(late, key=lambda each: each.lag.snapshots if each.lag else 0)
    assert worst.lag is not None, "it is behind"
    name = f"{'the log ' if worst.is_log else ''}{worst.name}"
    return f"The newest snapshot is {data.latest_id}. Furthest behind: {name}, {say_lag(worst.lag)}."


def say_lag(lag: Lag) -> str:
    """`3 snapshots, 200 rows, 12 s`."""
    if not lag.snapshots:
        return "up to date"
    least = "at least " if lag.is_least else ""
    return f"{plural(lag.snapshots, 'snapshot')}, {least}{plural(lag.rows, 'row')}, {age(lag.age_ms)}"


def _draw_reader(drawing: Drawing, each: ReaderLag, y: float, most: int) -> float:
    room = drawing.width - 2 * MARGIN
    figures = "has done none yet" if each.lag is None else say_lag(each.lag)
    kind = "log" if each.is_log else "consumer"
    name_room = room - measure(kind, 11.5) - 8
    is_wide = measure(figures, 11.5) < room * 0.6
    drawing.text(MARGIN, y + 12, kind, paint="soft", size=11.5)
    x = MARGIN + measure(kind, 11.5) + 6
    drawing.text(x, y + 12, each.name, bold=True, room=name_room - (measure(figures, 11.5) + 12 if is_wide else 0))
    if not is_wide:
        y += 16
    drawing.text(
        drawing.width - MARGIN if is_wide else MARGIN, y + 12, figures, size=11.5, anchor="end" if is_wide else "start"
    )
    behind = each.lag.snapshots if each.lag else 0
    paint: Paint = "red" if each.is_log and each.state else "amber"
    drawing.box(MARGIN, y + 18, room, 8, paint="panel", line="grid", radius=3)
    if behind:
        drawing.box(MARGIN, y + 18, max(room * behind / most, 3), 8, paint=paint, radius=3, about=figures)
    y += 30
    if each.state or each.snapshot_id is not None:
        at = "" if each.snapshot_id is None else f"at snapshot {each.snapshot_id}"
        y = drawing.notes(y + 10, ["; ".join(part for part in (at, each.state) if part)]) - 10
    return y + 10
