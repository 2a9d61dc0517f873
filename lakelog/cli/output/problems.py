"""Problems as people and programs see them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from lakelog.cli.output.layout import Cell
from lakelog.cli.output.text import clean_text, format_age, format_time
from lakelog.health.problem import Problem, Severity

STYLES: Final = {Severity.FAILED: "bold red", Severity.WARNING: "yellow"}


def describe_problem(problem: Problem) -> dict[str, Any]:
    """A problem's record."""
    return {
        "severity": problem.severity.value,
        "kind": problem.kind,
        "concerns": problem.concerns or None,
        "table": problem.table or None,
        "since": format_time(problem.since_ms) or None,
        "summary": problem.summary,
        "remedy": problem.remedy,
    }


def to_lines(problems: Sequence[Problem], now_ms: int) -> Iterator[list[Cell]]:
    """The lines of problems: what is wrong and for how long, and below it the command line that helps.

    Args:
        problems: Those to show.
        now_ms: The metastore's clock.
    """
    for problem in problems:
        mark = Cell(f"{problem.severity.value:<8}", STYLES[problem.severity])
        age = "" if problem.since_ms is None else f" For {format_age(now_ms - problem.since_ms)}."
        yield [mark, Cell(clean_text(problem.summary) + age, "")]
        yield [Cell(" " * 8, ""), Cell(clean_text(problem.remedy), "dim")]
