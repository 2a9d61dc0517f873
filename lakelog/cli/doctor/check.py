"""A check and its result, and how all checks run at once within their time."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakelog.cli.doctor.situation import Situation, is_not_serving
from lakelog.cli.interrupts import leave_threads
from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied
from lakelog.health.problem import cut

LIMIT_S: Final = 8.0
"""All checks run at once, so that the whole takes less than ten seconds."""


class Verdict(enum.Enum):
    """What a check has found."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """What a check has found.

    Args:
        verdict: Whether it is fine.
        summary: In a sentence; of a skipped check the reason.
        remedy: What to do; empty where nothing is to be done.
        details: Further lines.
    """

    verdict: Verdict
    summary: str
    remedy: str = ""
    details: tuple[str, ...] = ()


def fine(summary: str, *details: str) -> Finding:
    """All is well."""
    return Finding(Verdict.OK, summary, "", details)


def skip(reason: str) -> Finding:
    """It could not be checked, or there is nothing to check."""
    return Finding(Verdict.SKIPPED, reason)


def warn(summary: str, remedy: str, *details: str) -> Finding:
    """It works, but not as it should."""
    return Finding(Verdict.WARNING, summary, remedy, details)


def fail(summary: str, remedy: str, *details: str) -> Finding:
    """It does not work."""
    return Finding(Verdict.FAILED, summary, remedy, details)


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        name: For `--only`.
        about: What it finds out, for the help.
        run: Finds it out; blocks. An error of lakelog counts as a failure.
        remedy: What to do if it fails with an error, or does not end in time.
    """

    name: str
    about: str
    run: Callable[[Situation], Finding] = field(repr=False)
    remedy: str


@dataclass(frozen=True)
class Result:
    """A check that was made, with what it found and how long it took."""

    check: Check
    finding: Finding
    took_ms: int


def run_checks(checks: Sequence[Check], situation: Situation, *, limit_s: float = LIMIT_S) -> list[Result]:
    """Runs checks at once, each in a thread; blocks for little more than the limit at most.

    Returns:
        A result for each check, in their order. One that has not ended in time has failed; its thread is left alone,
        and ends with the process.
    """
    found: dict[str, Result] = {}
    began_s = time.monotonic()

    def run(check: Check) -> None:
        finding = _find(check, situation)
        found[check.name] = Result(check, finding, round((time.monotonic() - began_s) * 1000))

    threads = [threading.Thread(target=run, args=(check,), name=check.name, daemon=True) for check in checks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, began_s + limit_s - time.monotonic()))
    if len(found) < len(checks):
        leave_threads()
    late = fail(f"It did not end within {limit_s:g} s.", "")
    return [
        found.get(check.name) or Result(check, Finding(late.verdict, late.summary, check.remedy), round(limit_s * 1000))
        for check in checks
    ]


def _find(check: Check, situation: Situation) -> Finding:
    try:
        return check.run(situation)
    except PermissionDenied as error:
        return skip(f"This caller may not find it out: {cut(error.message)}")
    except InvalidArgument as error:
        # It says what is possible.
        return fail(cut(error.message), "Correct the option or setting that this names.")
    except LakelogError as error:
        if is_not_serving(error):
            return skip(error.message)
        return fail(cut(error.message), check.remedy)
    except Exception as error:
        # A defect of a check must not hide what the others find.
        return fail(f"The check itself failed with {type(error).__name__}: {cut(str(error))}", check.remedy)
