"""What may go wrong on the way to the brokers and back, as tests script it."""

from __future__ import annotations

import enum
from collections import deque

from lakelog.errors import OutcomeUnknown, Unavailable


class Step(enum.Enum):
    """A request to the brokers."""

    START = "start"
    """Fencing, before anything is done."""
    POSITION = "position"
    """Reading the position, after fencing."""
    SEND = "send"
    COMMIT = "commit"
    """The end of a transaction, with the position in it."""
    ABORT = "abort"
    FETCH = "fetch"
    ADMIN = "admin"
    FLUSH = "flush"
    """The wait for records that are sent before their commit."""


class Fault(enum.Enum):
    """The fate of one request."""

    REFUSED = "refused"
    """It never arrives, and that is known: `Unavailable`."""
    LOST_ANSWER = "lost answer"
    """It takes effect, but the answer is lost: `OutcomeUnknown` for a commit, else `Unavailable`."""
    LOST_REQUEST = "lost request"
    """The caller sees a lost answer, but nothing has arrived: a commit arrives with `deliver_late`, or never."""
    DOUBLED = "doubled"
    """It takes effect and is answered over a second connection. A copy of a commit is still under way on the first one
    and arrives with `deliver_late`. Only the lost connection shows this."""
    TOO_LARGE = "too large"
    """For records: the topic refuses one of them."""


class FaultScript:
    """Faults that wait for their requests, one for each."""

    def __init__(self) -> None:
        self._waiting: dict[Step, deque[Fault]] = {}
        self.done: list[tuple[Step, Fault]] = []
        """The faults that took effect, in their order."""

    def add(self, step: Step, fault: Fault) -> None:
        """Makes the next request of this kind that has no fault yet fail so."""
        self._waiting.setdefault(step, deque()).append(fault)

    def take(self, step: Step) -> Fault | None:
        """The fate of the current request."""
        waiting = self._waiting.get(step)
        if not waiting:
            return None
        fault = waiting.popleft()
        self.done.append((step, fault))
        return fault


def to_unavailable(step: Step) -> Unavailable:
    """The error of a request that reached no broker."""
    return Unavailable(f"No broker answers ({step.value}).", metadata={"step": step.value})


def to_outcome_unknown() -> OutcomeUnknown:
    """The error of a commit whose answer is lost."""
    return OutcomeUnknown("The answer to a commit was lost: start afresh and read the position.")
