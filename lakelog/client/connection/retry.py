"""How long a call may take and when it is repeated. Pure values and one loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, TypeVar

from lakelog.clock import Clock
from lakelog.errors import (
    InternalError,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)

T = TypeVar("T")

NOT_CONNECTED: Final = "NOT_CONNECTED"
"""The reason of an Unavailable for a server that did not answer at all, in all the time there was, before anything was
sent."""

BROKERS_UNAVAILABLE: Final = "BROKERS_UNAVAILABLE"
"""The reason of an Unavailable of a server for whom brokers of a log did not answer."""

CLOSED: Final = "CLOSED"
"""The reason of an InvalidArgument for using a client after it was closed."""


@dataclass(frozen=True)
class Deadlines:
    """How long one try of a call may take, in seconds.

    Args:
        connect_s: Until a server that has never answered this client does; then the error says that nothing answers
            there. One that has answered before is waited for as `RetryPolicy` says, since nothing was sent.
        call_s: For one try of an ordinary call or commit.
        plan_s: For one try of a plan, all chunks received.
    """

    connect_s: float = 5.0
    call_s: float = 30.0
    plan_s: float = 300.0

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True)
class RetryPolicy:
    """When and how long calls are repeated where repeating is safe.

    Before try n (from 1) a random time between 0 and `first_backoff_s * 2**(n-1)`, at most `max_backoff_s`, is waited
    ("full jitter": clients that failed together do not come back together).

    Args:
        first_backoff_s: Bound of the first wait.
        max_backoff_s: Bound of each wait.
        total_s: After so long a read or an ordinary mutation is given up.
        commit_total_s: After so long a commit is given up, and a commit pipeline that gets no answers is cut. Long
            enough for a metastore or its database to be restarted meanwhile.
        watch_total_s: After so long without any message, a watch whose connection is broken is given up.
    """

    first_backoff_s: float = 0.05
    max_backoff_s: float = 2.0
    total_s: float = 30.0
    commit_total_s: float = 120.0
    watch_total_s: float = 300.0

    def __post_init__(self) -> None:
        _check_positive(self)

    def backoff_s(self, tries: int, rng: float) -> float:
        """How long to wait after so many failed tries (from 1). Pure; `rng` is random in [0, 1)."""
        return rng * min(self.max_backoff_s, self.first_backoff_s * 2 ** min(tries - 1, 30))


def _check_positive(values: Deadlines | RetryPolicy) -> None:
    for field in fields(values):
        value = getattr(values, field.name)
        if not value > 0:
            raise InvalidArgument(
                f"{type(values).__name__}.{field.name} is {value}: it must be a time in seconds above 0.",
                metadata={"field": field.name},
            )


def call_repeatedly(
    attempt: Callable[[float], T],
    *,
    policy: RetryPolicy,
    total_s: float,
    clock: Clock,
    rng: Callable[[], float],
    repeat_unknown: bool = True,
    no_proof: tuple[type[LakelogError], ...] = (),
) -> T:
    """Calls until there is a definite answer or the time is up. Blocks.

    `Unavailable` is certain to have had no effect, so it is always repeated, but for a server that did not answer at
    all: a try waits for that as long as it may (`connection.Connection.session`). And but for brokers that did not
    answer the server.

    `OutcomeUnknown` is repeated only when the caller says that the
    request is idempotent. Once a try has ended unknown, errors that a *repetition* got before the server looked at the
    earlier one (a refused token, a limit, a defect, a table dropped or the client closed meanwhile) prove nothing about
    it, so they become `OutcomeUnknown` too; what the gate decides under its lock (conflict, fenced) settles both.

    Args:
        attempt: Makes one try; is given the seconds that are left.
        policy: Backoff.
        total_s: All tries together, in seconds.
        clock: For the time and for waiting.
        rng: Random numbers in [0, 1).
        repeat_unknown: The request may be repeated after an unknown outcome.
        no_proof: Further kinds that prove nothing after an unknown outcome.

    Returns:
        What the first successful try returned.

    Raises:
        OutcomeUnknown: The time was up, or repeating is not safe, and some try may have had its effect.
        LakelogError: What a try got, when no try may have had an effect. Where the time was up, the message says how
            often and for how long it was tried.
    """
    began_s = clock.monotonic_s()
    give_up_s = began_s + total_s
    unknown: OutcomeUnknown | None = None
    answered: Unavailable | None = None
    for tries in itertools.count(1):
        try:
            return attempt(max(give_up_s - clock.monotonic_s(), 0.001))
        except OutcomeUnknown as error:
            # A defect of the server meets the same request again.
            if not repeat_unknown or error.reason == InternalError.default_reason:
                raise
            unknown = error
            last: LakelogError = error
        except Unavailable as error:
            if unknown is None and error.reason == BROKERS_UNAVAILABLE:
                # The metastore has waited for them itself, for most of the time that there is.
                raise
            if unknown is None and error.reason == NOT_CONNECTED:
                if answered is None:
                    raise
                # What became of the call itself, its deadline for instance, tells more than that nobody answers now.
                raise Unavailable(
                    f"{answered.message} Asking again: {error.message}",
                    reason=answered.reason,
                    metadata=answered.metadata,
                ) from error
            last = unknown or error
            answered = answered or (None if error.reason == NOT_CONNECTED else error)
        except LakelogError as error:
            if unknown is not None and _proves_nothing(error, no_proof):
                raise OutcomeUnknown(
                    f"{unknown.message} Repeating it brought: {error.message}",
                    reason=unknown.reason,
                    metadata=unknown.metadata | {"repeated": error.reason},
                ) from error
            raise
        wait_s = policy.backoff_s(tries, rng())
        if clock.monotonic_s() + wait_s >= give_up_s:
            raise _tried(last, tries, clock.monotonic_s() - began_s)
        clock.sleep(wait_s)
    raise AssertionError("itertools.count ends never")


def _tried(error: LakelogError, tries: int, within_s: float) -> LakelogError:
    """An error that says how long its cause went on; a single try says that by itself."""
    if tries == 1:
        return error
    reported = type(error)(
        f"{error.message} Tried {tries} times in {within_s:.3g} s.", reason=error.reason, metadata=error.metadata
    )
    reported.__cause__ = error
    return reported


def _proves_nothing(error: LakelogError, no_proof: tuple[type[LakelogError], ...]) -> bool:
    kinds = (PermissionDenied, ResourceExhausted, InternalError, NotFound)
    return isinstance(error, (kinds, no_proof)) or error.reason in ("WRONG_TARGET", CLOSED)
