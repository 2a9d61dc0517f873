"""What `lakelog status --watch` shows: lines made of two looks at lakelog. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakelog.cli.commands.health.service_list import describe_service, sum_up_services, to_rows
from lakelog.cli.commands.health.serving import ServingState
from lakelog.cli.output.layout import Cell
from lakelog.cli.output.problems import to_lines
from lakelog.cli.output.text import clean_text, format_age, format_bytes, format_count, plural
from lakelog.format.jobs.overview import Overview
from lakelog.health.health import Health
from lakelog.health.problem import Severity

_STATES: Final = {"running": "green", "silent": "red", "gone": "bold red"}
_LABEL: Final = 11

Line = list[Cell]


@dataclass(frozen=True)
class View:
    """One look at lakelog.

    Args:
        target: The metastore's address.
        serving: Whether it serves.
        health: What is known; of a metastore that is away what was known last, None: nothing.
        commits_s: Commits a second since the look before; None: not known.
        seen_ms: When the metastore last answered, by this machine's clock; 0: never.
        now_ms: This machine's clock.
    """

    target: str
    serving: ServingState
    health: Health | None
    commits_s: float | None
    seen_ms: int
    now_ms: int

    @property
    def is_away(self) -> bool:
        """Whether nothing is known of the present."""
        return not self.serving.is_serving or self.health is None or self.health.overview is None


def find_rate(before: Overview | None, after: Overview | None) -> float | None:
    """Commits a second between two overviews; None: they do not say."""
    if before is None or after is None or after.now_ms <= before.now_ms:
        return None
    # Tables that were dropped take their snapshots with them.
    return max(after.snapshot_count - before.snapshot_count, 0) * 1000 / (after.now_ms - before.now_ms)


def sum_up(view: View) -> str:
    """A look in one line, for files and pipes."""
    if view.is_away:
        return f"{view.target} {view.serving.state}: {clean_text(_why_away(view))}"
    assert view.health is not None, "it is not away"
    overview = view.health.overview
    assert overview is not None, "it is not away"
    failed = sum(each.severity is Severity.FAILED for each in view.health.problems)
    rate = "" if view.commits_s is None else f", {view.commits_s:.1f} commits/s"
    return (
        f"{view.target} {view.serving.state}, {plural(overview.table_count, 'table')}, "
        f"{plural(overview.snapshot_count, 'snapshot')}{rate}, {failed} failed, "
        f"{plural(len(view.health.problems) - failed, 'warning')}"
    )


def draw(view: View, height: int) -> list[Line]:
    """The lines of a screen of some height; what does not fit is counted in the last one."""
    lines = [*_draw_head(view), *_draw_body(view)]
    if len(lines) <= height:
        return lines
    left = len(lines) - height + 1
    return [*lines[: max(height - 1, 1)], [Cell(f"… {plural(left, 'more line')}: lakelog status shows all", "dim")]]


def _draw_head(view: View) -> Iterator[Line]:
    style = "bold red" if view.is_away else "green"
    latency = "" if view.serving.latency_ms is None else f"  {view.serving.latency_ms:.1f} ms"
    state = f"{view.serving.state}{latency}"
    yield [Cell("lakelog  ", "bold"), Cell(f"{view.target}  ", ""), Cell(state, style), Cell("   q ends", "dim")]
    if view.is_away:
        seen = f" It answered {format_age(view.now_ms - view.seen_ms)} ago." if view.seen_ms else ""
        yield [Cell(f"{clean_text(_why_away(view))}{seen} Trying again.", "bold red")]


def _why_away(view: View) -> str:
    if view.serving.problem:
        return view.serving.problem
    return (
        view.health.problems[0].summary if view.health is not None and view.health.problems else "It does not answer."
    )


def _draw_body(view: View) -> Iterator[Line]:
    health = view.health
    if health is None or health.overview is None:
        return
    overview = health.overview
    yield []
    yield _fact("Tables", f"{format_count(overview.table_count)} in {plural(overview.database_count, 'database')}")
    yield _fact(
        "Live",
        f"{format_count(overview.total_rows)} rows in {plural(overview.total_files, 'file')}, "
        f"{format_bytes(overview.total_bytes)}",
    )
    yield _fact("Commits", _describe_commits(view, overview))
    if overview.work is not None:
        jobs = ", ".join(
            f"{queue.kind} {queue.due_count} due {queue.leased_count} running {queue.failed_count} failed"
            for queue in overview.work.queues
        )
        yield _fact("Jobs", jobs or "none")
        yield _fact("Logs", f"{overview.work.logs.lagging_count} lag" if overview.work.logs.named else "none")
    yield []
    if health.problems:
        yield from to_lines(health.problems, overview.now_ms)
    else:
        yield [Cell("Nothing is wrong.", "green")]
    yield from _draw_services(view, health)


def _describe_commits(view: View, overview: Overview) -> str:
    rate = "" if view.commits_s is None else f", {view.commits_s:.1f} a second"
    if not overview.committed_at_ms:
        return f"none{rate}"
    age = format_age(overview.now_ms - overview.committed_at_ms)
    return f"{format_count(overview.snapshot_count)}, the newest {age} ago{rate}"


def _draw_services(view: View, health: Health) -> Iterator[Line]:
    if health.services is None or health.overview is None:
        return
    records = [describe_service(each, health.overview.now_ms) for each in health.services]
    yield []
    yield _fact("Services", sum_up_services(records))
    for row in to_rows(records):
        state = row["shown_state"]
        yield [
            Cell(f"{row['kind']:<{_LABEL}}", ""),
            Cell(f"{state:<20} ", _STATES.get(state.partition(" ")[0], "yellow")),
            Cell(clean_text(f"{row['host']} {row['pid']}  {', '.join(row['work'])}"), "dim"),
        ]


def _fact(name: str, text: str) -> Line:
    return [Cell(f"{name:<{_LABEL}}", "bold"), Cell(clean_text(text), "")]
