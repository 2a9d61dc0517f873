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
"""The reason of an Unavailable when the server gave no answer at all in the time allowed, and nothing was sent."""

BROKERS_UNAVAILABLE: Final = "BROKERS_UNAVAILABLE"
"""The reason of an Unavailable when the server answered, but a log's brokers did not answer the server."""

CLOSED: Final = "CLOSED"
"""The reason of an InvalidArgument for a client that is used after it was closed."""


@dataclass(frozen=True)
class Deadlines:
    """How long one try of a call may take, in seconds.

    Args:
        connect_s: For a server that has never answered this client; then the error says that nothing answers there.
            For one that has answered before, `RetryPolicy` sets the wait, since nothing was sent.
        call_s: For one try of an ordinary call or commit.
        plan_s: For one try of a plan, with all its chunks.
    """

    connect_s: float = 5.0
    call_s: float = 30.0
    plan_s: float = 300.0

    def __post_init__(self) -> None:
        _check_positive(self)


@dataclass(frozen=True)
class RetryPolicy:
    """When and how long calls are repeated, where a repeat is safe.

    The wait before try n (from 1) is a random time between 0 and `first_backoff_s * 2**(n-1)`, at most `max_backoff_s`
    ("full jitter": clients that failed together do not come back together).

    Args:
        first_backoff_s: The upper bound of the first wait.
        max_backoff_s: The upper bound of every wait.
        total_s: The time after which a read or an ordinary mutation gives up.
        commit_total_s: The time after which a commit gives up, and a commit pipeline without answers is cut. Long
            enough to restart a metastore or its database meanwhile.
        watch_total_s: The time without a message after which a watch with a broken connection gives up.
        spread_s: Watches and subscriptions whose server has gone come back at random times within so many seconds at
            least. All of them lose it at the same moment, and the replicas that are left get each of them beside their
            other calls.
    """

    first_backoff_s: float = 0.05
    max_backoff_s: float = 2.0
    total_s: float = 30.0
    commit_total_s: float = 120.0
    watch_total_s: float = 300.0
    spread_s: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self)

    def backoff_s(self, tries: int, rng: float) -> float:
        """How long to wait after `tries` failed tries (from 1). Pure; `rng` is random in [0, 1)."""
        return rng * self._longest_s(tries)

    def come_back_s(self, tries: int, rng: float) -> float:
        """As `backoff_s`, for what many clients lose at the same moment."""
        return rng * max(self.spread_s, self._longest_s(tries))

    def _longest_s(self, tries: int) -> float:
        return min(self.max_backoff_s, self.first_backoff_s * 2 ** min(tries - 1, 30))


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
    """Calls until there is a definite answer or the time is over. Blocks.

    `Unavailable` certainly had no effect, so it is repeated, with two exceptions: a server that did not answer at all,
    since a try itself waits for that as long as it may (`connection.Connection.session`), and brokers that did not
    answer the server.

    `OutcomeUnknown` is repeated only when the caller says that the request is idempotent. Once a try has ended unknown,
    a *repeat* may fail before the server looks at the earlier try: a refused token, a limit, a defect, a table dropped
    or the client closed meanwhile. Such an error proves nothing about the earlier try, so it becomes `OutcomeUnknown`
    too. What the gate decides under its lock (conflict, fenced) settles both.

    Args:
        attempt: Makes one try; its argument is the seconds that are left.
        policy: The pauses between tries.
        total_s: The limit of all tries together, in seconds.
        clock: Gives the time and waits.
        rng: Random numbers in [0, 1).
        repeat_unknown: The request may be repeated after an unknown outcome.
        no_proof: Further kinds of errors that prove nothing after an unknown outcome.

    Returns:
        The result of the first successful try.

    Raises:
        OutcomeUnknown: The time is over, or a repeat is not safe, and some try may have had its effect.
        LakelogError: The error of a try, when no try can have had an effect. If the time is over, the message gives the
            number of tries and their duration.
    """
    began_s = clock.monotonic_s()
    give_up_s = began_s + total_s
    unknown: OutcomeUnknown | None = None
    answered: Unavailable | None = None
    for tries in itertools.count(1):
        try:
            return attempt(max(give_up_s - clock.monotonic_s(), 0.001))
        except OutcomeUnknown as error:
            # A repeat would meet the same defect of the server.
            if not repeat_unknown or error.reason == InternalError.default_reason:
                raise
            unknown = error
            last: LakelogError = error
        except Unavailable as error:
            if unknown is None and error.reason == BROKERS_UNAVAILABLE:
                # The metastore itself has waited for them, for most of the time allowed.
                raise
            if unknown is None and error.reason == NOT_CONNECTED:
                if answered is None:
                    raise
                # The failure of the call itself, its deadline for instance, says more than that nothing answers now.
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
    """An error whose message says how long the cause lasted; a single try shows that by itself."""
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
