"""What became of a change whose `await` was cancelled."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from lakelog.client.cancellation import CallCancelled
from lakelog.errors import Effect, LakelogError


class Effects(enum.Enum):
    """What is certain about a change that was cancelled."""

    NOTHING = "nothing"
    """Certainly nothing happened, and nothing will."""
    DONE = "done"
    """It had its effect, and `Outcome.result` is what the call would have returned."""
    UNKNOWN = "unknown"
    """It goes on, or the metastore has not answered: its effect may come later, or never."""


@dataclass(frozen=True)
class Outcome:
    """What became of a change whose `await` was cancelled; see `find_outcome`.

    Args:
        effects: What is certain about it.
        result: What the call would have returned, if it had its effect.
    """

    effects: Effects
    result: Any = None


def find_outcome(error: BaseException) -> Outcome | None:
    """Returns what became of a change whose `await` was cancelled.

    Args:
        error: The CancelledError, or the TimeoutError of `asyncio.timeout` or `asyncio.wait_for`.

    Returns:
        None if no change of lakelog was cancelled, but a read or something else.
    """
    found = (vars(each).get("lakelog_outcome") for each in _chain(error))
    return next((each for each in found if isinstance(each, Outcome)), None)


def note_outcome(error: asyncio.CancelledError, job: Future[Any]) -> None:
    """Notes on an error what became of the cancelled job, for `find_outcome` and for people."""
    outcome = _to_outcome(job)
    vars(error)["lakelog_outcome"] = outcome
    error.add_note(f"The cancelled call of lakelog: {outcome.effects.value}.")


def _to_outcome(job: Future[Any]) -> Outcome:
    if job.cancelled():
        return Outcome(Effects.NOTHING)
    if not job.done():
        return Outcome(Effects.UNKNOWN)
    match job.exception():
        case None:
            return Outcome(Effects.DONE, job.result())
        case CallCancelled():
            return Outcome(Effects.NOTHING)
        case LakelogError() as error if error.effect is Effect.NONE:
            return Outcome(Effects.NOTHING)
        case _:
            return Outcome(Effects.UNKNOWN)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
