"""A problem: what is wrong, with whom, since when, and the command line that helps. Pure."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_OF_KIND: Final = 20
"""Problems of one kind that are listed one by one: the worst."""

_MAX_CHARACTERS: Final = 300
"""Of texts of others in a sentence, such as the error of a job."""


class Severity(enum.Enum):
    """How bad a problem is."""

    FAILED = "failed"
    """Something does not work until a person does something."""
    WARNING = "warning"
    """It works, but is late, or costs more and more."""


@dataclass(frozen=True)
class Problem:
    """One problem.

    Args:
        severity: How bad it is.
        kind: What it is about: `metastore`, `service`, `compactor`, `job`, `pipeline`, `log`, `consumer` or `expiry`.
        concerns: With whom: the name of a table, pipeline or service; empty: all.
        since_ms: Since when, in milliseconds since the epoch by the metastore's clock; None: not known.
        summary: What is wrong, in a sentence. It may contain texts of others on one line; escape them.
        remedy: A command line that mends it or shows more.
        table: The full name of the table that it is about; empty: none.
    """

    severity: Severity
    kind: str
    concerns: str
    since_ms: int | None
    summary: str
    remedy: str
    table: str = ""


def say_remedy(*words: str, names: Sequence[str] = ()) -> str:
    """A command line of `lakelog`; words from others are quoted.

    Args:
        words: The command and its options.
        names: What others named, at the end; `--` keeps a name such as `--help` from being an option.
    """
    end = ("--",) if any(name.startswith("-") for name in names) else ()
    return shlex.join(("lakelog", *words, *end, *names))


def cut(text: str) -> str:
    """A text of others on one line, without control characters, and not too long; it ends with a full stop or …."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    if len(line) > _MAX_CHARACTERS:
        return f"{line[: _MAX_CHARACTERS - 1]}…"
    return line if line.endswith((".", "!", "?", "…")) else f"{line}."


def bound(problems: Sequence[Problem], count: int = 0, remedy: str = "") -> list[Problem]:
    """The first problems of one kind and severity and, if there are more, one that says how many.

    Args:
        problems: The worst first.
        count: How many there are, if that is more than are given.
        remedy: The command line that lists them all; empty: that of the last one listed.
    """
    listed = list(problems[:MAX_OF_KIND])
    more = max(count, len(problems)) - len(listed)
    if listed and more > 0:
        last = listed[-1]
        summary = f"{more:,} more of this kind {'is' if more == 1 else 'are'} not listed."
        listed.append(Problem(last.severity, last.kind, "", None, summary, remedy or last.remedy))
    return listed
