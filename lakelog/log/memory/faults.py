"""What may go wrong on the way to the brokers and back, as tests order it."""

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
    """The end of a transaction, the position within it."""
    ABORT = "abort"
    FETCH = "fetch"
    ADMIN = "admin"
    FLUSH = "flush"
    """Of records that are sent before their commit."""


class Fault(enum.Enum):
    """What becomes of one request."""

    REFUSED = "refused"
    """It never arrives, and that is known: `Unavailable`."""
    LOST_ANSWER = "lost answer"
    """It is done, but the answer is lost: `OutcomeUnknown` of a commit, else `Unavailable`."""
    LOST_REQUEST = "lost request"
    """As a lost answer for who asks, but it has not arrived yet: a commit does so with `deliver_late`, or never."""
    DOUBLED = "doubled"
    """It is done and answered, over a second connection; a copy of a commit is still under way on the first one and
    arrives with `deliver_late`. Nothing but the lost connection tells."""
    TOO_LARGE = "too large"
    """Of records: the topic does not take one of them."""


class FaultScript:
    """Faults that wait for their requests, each for one."""

    def __init__(self) -> None:
        self._waiting: dict[Step, deque[Fault]] = {}
        self.done: list[tuple[Step, Fault]] = []
        """Those that took effect, in their order."""

    def add(self, step: Step, fault: Fault) -> None:
        """Lets the next request of this kind that has none yet fail so."""
        self._waiting.setdefault(step, deque()).append(fault)

    def take(self, step: Step) -> Fault | None:
        """What is to become of the request that is made now."""
        waiting = self._waiting.get(step)
        if not waiting:
            return None
        fault = waiting.popleft()
        self.done.append((step, fault))
        return fault


def to_unavailable(step: Step) -> Unavailable:
    """The error of a request that found nobody."""
    return Unavailable(f"No broker answers ({step.value}).", metadata={"step": step.value})


def to_outcome_unknown() -> OutcomeUnknown:
    """The error of a commit whose answer is lost."""
    return OutcomeUnknown("The answer to a commit was lost: start afresh and read the position.")
