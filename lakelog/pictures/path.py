"""The way of a row from writers to readers, with the positions that they have now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.commit.writer_names import is_one_time
from lakelog.format.retention.lag import Lag
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.log.settings import read_log_settings
from lakelog.pictures.history import load_history, load_log, load_now_ms
from lakelog.pictures.svg.drawing import MARGIN, Drawing
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, Picture
from lakelog.pictures.svg.style import Paint
from lakelog.pictures.svg.words import age, clean, plural
from lakelog.sdk.tables.table import Table

MOST_CARDS: Final = 6
"""Writers, and consumers, that are drawn; the others are counted."""
_GAP: Final = 46
_LINE: Final = 15


@dataclass(frozen=True)
class WriterCard:
    """A writer that committed lately, or a pipeline.

    Args:
        name: Its name.
        is_pipeline: Whether it is a pipeline of the writer service.
        words: What it did last, or does.
        problem: Its last error; empty: none is known.
    """

    name: str
    is_pipeline: bool
    words: str
    problem: str = ""


@dataclass(frozen=True)
class LogCard:
    """The external log.

    Args:
        topic: Its topic.
        is_eventual: Whether rows are sent before their commit, too.
        published_id: The last snapshot that is in it as a whole.
        snapshots: Snapshots with rows for it that are not.
        rows: Their rows.
        age_ms: How long ago the first of them was committed.
        is_least: There are more than were counted.
        problem: Why it is not published; empty: no known problem.
    """

    topic: str
    is_eventual: bool
    published_id: int
    snapshots: int
    rows: int
    age_ms: int
    is_least: bool = False
    problem: str = ""


@dataclass(frozen=True)
class ReaderCard:
    """A consumer.

    Args:
        name: Its id.
        snapshot_id: The last snapshot that it has done; None: none yet.
        lag: How far behind it is; None: it has done none.
        has_reader: Whether a reader uses it now.
        is_expired: Whether it retains nothing until it is used again.
    """

    name: str
    snapshot_id: int | None
    lag: Lag | None
    has_reader: bool
    is_expired: bool = False


@dataclass(frozen=True)
class Path:
    """What the picture shows.

    Args:
        table: The table's name.
        snapshot_id: The newest snapshot; 0: there is none.
        age_ms: How long ago it was committed.
        rows: The rows in its live files.
        earliest_id: The oldest retained snapshot.
        writers: Pipelines, then the writers of the newest snapshots.
        more_writers: Those that are left out.
        log: The external log; None: there is none.
        readers: Consumers, the furthest behind first.
        more_readers: Those that are left out.
    """

    table: str
    snapshot_id: int
    age_ms: int
    rows: int
    earliest_id: int
    writers: tuple[WriterCard, ...] = ()
    more_writers: int = 0
    log: LogCard | None = None
    readers: tuple[ReaderCard, ...] = ()
    more_readers: int = 0


def load_path(table: Table) -> Path:
    """Asks the metastore for pipelines, newest snapshots, the log and consumers. Errors as of `Table.snapshots`."""
    metastore, now_ms = table.context.metastore, load_now_ms(table)
    history = load_history(table)
    newest = history.snapshots[-1] if history.snapshots else None
    writers = [
        WriterCard(each.name, True, f"pipeline, {each.state}{_lag_words(each.lag)}", each.last_error)
        for each in metastore.list_pipelines()
        if each.table == table.name
    ]
    writers += _find_writers(history.snapshots, now_ms)
    readers = [
        ReaderCard(
            each.consumer_id,
            each.snapshot_id,
            None if each.snapshot_id is None else history.measure_lag(each.snapshot_id, now_ms),
            bool(each.holder),
            each.is_expired,
        )
        for each in metastore.list_consumers(table.uuid)
    ]
    readers.sort(key=lambda each: (-each.lag.snapshots if each.lag else 0, each.name))
    return Path(
        table.name,
        history.latest_id,
        0 if newest is None else max(now_ms - newest.committed_at_ms, 0),
        0 if newest is None else newest.total_rows,
        0 if newest is None else history.snapshots[0].snapshot_id - history.earlier,
        tuple(writers[:MOST_CARDS]),
        max(len(writers) - MOST_CARDS, 0),
        _load_log_card(table, now_ms),
        tuple(readers[:MOST_CARDS]),
        max(len(readers) - MOST_CARDS, 0),
    )


def _find_writers(snapshots: Sequence[Snapshot], now_ms: int) -> list[WriterCard]:
    """The writers of the newest snapshots that changed rows, the last one first."""
    found: dict[str, Snapshot] = {}
    for each in reversed(snapshots):
        if each.kind is not SnapshotKind.COMPACT:
            # A writer without a name gets another one for each commit.
            found.setdefault("without a name" if is_one_time(each.writer) else each.writer, each)
    return [
        WriterCard(writer, False, f"snapshot {each.snapshot_id}, {age(now_ms - each.committed_at_ms)} ago")
        for writer, each in found.items()
    ]


def _load_log_card(table: Table, now_ms: int) -> LogCard | None:
    status = load_log(table, now_ms)
    if status is None:
        return None
    settings = read_log_settings(table.info.options, has_primary_key=bool(table.primary_key))
    return LogCard(
        status.info.topic,
        settings is not None and settings.is_eventual,
        status.state.snapshot_id,
        status.snapshots_behind,
        status.rows_behind,
        status.behind_ms,
        status.is_further,
        status.problem,
    )


def _lag_words(lag: int | None) -> str:
    return "" if lag is None else f", {plural(lag, 'record')} left"


@dataclass(frozen=True)
class _Card:
    title: str
    lines: tuple[str, ...]
    paint: Paint

    @property
    def height(self) -> float:
        return 26 + _LINE * len(self.lines)


def draw_path(data: Path, width: int = DEFAULT_WIDTH) -> Picture:
    """Draws writers, the table and its readers with arrows between them; below each other if it is narrow. Pure."""
    drawing = Drawing(width)
    title = f"From writers to readers of {data.table}"
    words = describe(data)
    y = drawing.heading(title, [words])
    columns = [
        ("writers", _to_writers(data)),
        ("commit", _to_middle(data)),
        ("readers", _to_readers(data)),
    ]
    is_wide = width >= 600
    room = (width - 2 * MARGIN - 2 * _GAP) / 3 if is_wide else width - 2 * MARGIN
    bottoms = []
    for number, (label, cards) in enumerate(columns):
        x = MARGIN + number * (room + _GAP) if is_wide else float(MARGIN)
        if number:
            _draw_arrow(drawing, x, y, is_wide)
            y += 0 if is_wide else 30
        bottom = _draw_column(drawing, label, cards, x, y, room)
        bottoms.append(bottom)
        y = y if is_wide else bottom
    return drawing.finish(max(bottoms) + 8, title, words)


def describe(data: Path) -> str:
    """The picture in words."""
    if not data.snapshot_id:
        return "The table has no snapshots yet."
    parts = [f"The newest snapshot is {data.snapshot_id}, committed {age(data.age_ms)} ago"]
    if data.log is not None:
        parts.append(f"the log has snapshots until {data.log.published_id}")
    late = [each for each in data.readers if each.lag and each.lag.snapshots]
    if late:
        parts.append(f"{late[0].name} is furthest behind, at {late[0].snapshot_id}")
    elif data.readers:
        parts.append("no consumer is behind")
    return f"{'; '.join(parts)}."


def _draw_arrow(drawing: Drawing, x: float, y: float, is_wide: bool) -> None:
    if is_wide:
        drawing.arrow(x - _GAP + 6, y + 42, x - 6, y + 42)
    else:
        drawing.arrow(drawing.width / 2, y + 2, drawing.width / 2, y + 24)


def _draw_column(drawing: Drawing, label: str, cards: Sequence[_Card], x: float, y: float, room: float) -> float:
    drawing.text(x, y + 10, label, paint="soft", size=11.5)
    y += 18
    for card in cards:
        drawing.box(x, y, room, card.height, paint="panel", line="grid", radius=5)
        drawing.box(x, y, 4, card.height, paint=card.paint, radius=2)
        drawing.text(x + 14, y + 18, card.title, bold=True, room=room - 24)
        for number, line in enumerate(card.lines):
            drawing.text(x + 14, y + 34 + number * _LINE, line, paint="soft", size=11.5, room=room - 24)
        y += card.height + 8
    return y


def _to_writers(data: Path) -> list[_Card]:
    cards = [
        _Card(each.name, (each.words, *_problem(each.problem)), "red" if each.problem else "blue")
        for each in data.writers
    ]
    return _with_more(cards, data.more_writers, "writer") or [
        _Card("No writer yet", ("no snapshot changed rows",), "gray")
    ]


def _to_middle(data: Path) -> list[_Card]:
    if not data.snapshot_id:
        return [_Card("No snapshot yet", ("the first commit makes one",), "gray")]
    retained = f"retained from snapshot {data.earliest_id}"
    lines = (f"committed {age(data.age_ms)} ago", f"{data.rows:,} stored rows", retained)
    return [_Card(f"Snapshot {data.snapshot_id}", lines, "teal")]


def _to_readers(data: Path) -> list[_Card]:
    at = f"snapshot {data.snapshot_id} at once" if data.snapshot_id else "nothing yet"
    cards = [_Card("Scans, SQL, Spark", (f"see {at}",), "teal")]
    if data.log is not None:
        log = data.log
        when = "rows come before their commit" if log.is_eventual else "rows come after their commit"
        lag = Lag(log.snapshots, log.rows, log.age_ms, log.is_least)
        lines = (f"until snapshot {log.published_id}", *_say_lag(lag), when, *_problem(log.problem))
        cards.append(_Card(f"Log: {log.topic}", lines, "red" if log.problem else _paint_of(lag)))
    cards += [_to_reader(each) for each in data.readers]
    return _with_more(cards, data.more_readers, "consumer")


def _to_reader(each: ReaderCard) -> _Card:
    if each.lag is None:
        lines: tuple[str, ...] = ("has done no snapshot yet",)
    else:
        lines = (f"at snapshot {each.snapshot_id}", *_say_lag(each.lag))
    state = "expired, retains nothing" if each.is_expired else "" if each.has_reader else "has no reader now"
    paint: Paint = "gray" if each.lag is None else _paint_of(each.lag)
    return _Card(f"Consumer: {each.name}", (*lines, *([state] if state else [])), paint)


def _say_lag(lag: Lag) -> tuple[str, ...]:
    if not lag.snapshots:
        return ("up to date",)
    least = "at least " if lag.is_least else ""
    return (f"{plural(lag.snapshots, 'snapshot')} behind", f"{least}{plural(lag.rows, 'row')}, {age(lag.age_ms)}")


def _paint_of(lag: Lag) -> Paint:
    return "amber" if lag.snapshots else "teal"


def _problem(problem: str) -> tuple[str, ...]:
    return (f"problem: {clean(problem)}",) if problem else ()


def _with_more(cards: list[_Card], more: int, noun: str) -> list[_Card]:
    return [*cards, _Card(f"and {plural(more, noun)} more", (), "gray")] if more else cards
