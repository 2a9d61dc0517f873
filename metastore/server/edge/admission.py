"""Admits calls: who calls, whether it may, whether there is a place, and when it is its turn.

Invariants:

1. A caller that is unknown, without the role, or with too many open calls, is refused before a byte of its request is
   received.
2. A call counts among the open ones from its headers to its end; only the few whose request gRPC receives count from
   the request on.
3. What a caller waits for are its own earlier calls, never those of others.
4. A request is processed for the caller that its headers identify when the whole of it is there, not before: a peer may
   take minutes to send it, and tokens and roles end meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import grpc

from lakelog.clock import Clock, SystemClock
from lakelog.errors import PermissionDenied, Unavailable
from lakelog.serving.access import Access, Caller, Role
from lakelog.serving.edge.known_callers import KnownCallers
from lakelog.serving.edge.origin import origin
from lakelog.serving.edge.refusal_lines import to_address
from lakelog.serving.edge.shares import Shares
from lakelog.serving.edge.turns import Turns

from ..access import NEEDED_ROLES, check_allowed
from ..audit import caller_name
from ..callers import admit
from .arrivals import Arrival, Arrivals
from .call_limits import COMMITTING, LONG, CallLimits

# They have an order of their own: at the gate, commits to a table wait for each other and share transactions.
_WITHOUT_TURNS: Final = LONG | {
    "/lakelog.rpc.v1.SnapshotService/Commit",
    "/lakelog.rpc.v1.SnapshotService/StageAttempt",
    "/grpc.health.v1.Health/Watch",
}
# A caller that does not renew in time loses what it holds, so these do not wait behind other calls of the caller.
_RENEWING: Final = frozenset(
    {
        "/lakelog.rpc.v1.JobService/RenewLease",
        "/lakelog.rpc.v1.JobService/HeartbeatJob",
        "/lakelog.rpc.v1.ConsumerService/RenewConsumer",
        "/lakelog.rpc.v1.PublishService/RenewAttempts",
        "/lakelog.rpc.v1.RetentionService/LeaseSnapshot",
    }
)

PLAN: Final = "/lakelog.rpc.v1.SnapshotService/Plan"
HUGE_PLAN_BYTES: Final = 1024 * 1024
"""A caller has one plan with a larger request at once: what is left of the request takes memory until the last answer
is read. Clients of lakelog send a quarter of this at most."""


@dataclass(frozen=True)
class Known:
    """A caller, and what was in use when it was recognized.

    Args:
        caller: Who calls.
        ways_in: The number of the ways in.
    """

    caller: Caller
    ways_in: int


@dataclass(frozen=True)
class Admitted:
    """A call that was admitted.

    Args:
        known: Who calls; None: this call is open to everyone.
        origin: The name by which its turns are counted: the caller, or the connection if callers are not identified.
        give_back: Gives its place back; to be called once.
    """

    known: Known | None
    origin: str
    give_back: Callable[[], None]


class Admission:
    """The door of the server. Runs on one event loop.

    Args:
        access: How callers are authenticated.
        limits: Bounds of calls.
        is_writer: Whether a caller is known to write: its commits may use what is reserved for commits.
        clock: Gives the time; None: the system's.
    """

    def __init__(
        self, access: Access, limits: CallLimits, is_writer: Callable[[Caller], bool], clock: Clock | None = None
    ) -> None:
        self._is_writer = is_writer
        self.limits: Final = limits
        self.calls: Final = Shares(limits.of_calls())
        self.streams: Final = Shares(limits.of_streams())
        self.receiving: Final = Turns(limits.receiving)
        # Anyone can send them, and gRPC takes up to 64 MiB before their limit of 4 KiB is checked.
        self.receiving_probes: Final = Turns(1)
        self.working: Final = Turns(limits.working)
        self.huge_plans: Final = Turns(1)
        self.arrivals: Final = Arrivals()
        self._clock: Final = clock or SystemClock()
        self.callers: Final = KnownCallers(self._clock)
        self._access = access
        # The number of the ways in: they have changed so many times.
        self._ways_in = 0
        self._probes = Shares(limits.of_probes())
        self._rates = limits.new_rates()

    def use(self, access: Access) -> None:
        """Authenticates callers so from now on, also those of open streams."""
        self._access = access
        self._ways_in += 1
        self.callers.recheck()

    @contextlib.contextmanager
    def keep(self, caller: Caller | None, context: grpc.aio.ServicerContext[Any, Any]) -> Iterator[asyncio.Event]:
        """While a stream of a caller is open; the event is set when the caller is recognized no more."""
        if caller is None:
            # Open to everyone.
            yield asyncio.Event()
            return
        # Streams of known callers do not suffer from what else their address sends.
        with self.callers.keep(caller, lambda: self._recognize(context, address="")) as lost:
            yield lost

    def _recognize(self, context: grpc.aio.ServicerContext[Any, Any], address: str) -> Caller:
        authorization = _authorization(context.invocation_metadata())
        common_name = None if self._access.open or authorization is not None else _common_name(context)
        return self._access.recognize(authorization, common_name, address)

    def _is_current(self, known: Known) -> bool:
        until_s = known.caller.until_s
        return known.ways_in == self._ways_in and (until_s is None or self._clock.now_ms() / 1000 < until_s)

    def _know(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> Known:
        caller = self._recognize(context, to_address(context.peer()))
        check_allowed(method, caller)
        return Known(caller, self._ways_in)

    def know_again(self, method: str, known: Known, context: grpc.aio.ServicerContext[Any, Any]) -> Known:
        """Recognizes a caller again, if the ways in have changed or its token has ended since.

        Args:
            method: The full name.
            known: The caller, as it was recognized last.
            context: gRPC's handle of the call.

        Returns:
            The caller; the same object if nothing has changed.

        Raises:
            PermissionDenied: It is known no more, or its role is too low now.
            Unavailable: Its token is another caller's now.
        """
        if self._is_current(known):
            return known
        again = self._know(method, context)
        if again.caller.name != known.caller.name:
            # Its place and its turns are those of the other name.
            raise Unavailable("The token of this call is another caller's now. Nothing was done; try again.")
        if again.caller != known.caller:
            admit(again.caller, identified=not self._access.open)
        return again

    def expect(self, method: str, details: grpc.HandlerCallDetails) -> tuple[Arrival | None, Known | None]:
        """Decides from the headers whether gRPC may receive the request by itself.

        Returns:
            The place of the request, if few of this caller are on their way; and the caller, if the headers identify
            it and it may call.
        """
        if is_open_to_everyone(method):
            return None, None
        access = self._access
        authorization = None if access.open else _authorization(details.invocation_metadata)
        if authorization is None and not access.open and not access.takes_certificates:
            # As below.
            return None, None
        caller = None
        if authorization is not None:
            # The address is not known here, so no signature is verified. `admit` does that before anything is received.
            caller = access.recall(authorization)
            if caller is None:
                return None, None
            try:
                check_allowed(method, caller)
            except PermissionDenied:
                # `admit` refuses, too.
                return None, None
        arrival = self.arrivals.begin(None if caller is None else caller.name, self.limits.receiving)
        return arrival, None if caller is None else Known(caller, self._ways_in)

    def admit(self, method: str, known: Known | None, context: grpc.aio.ServicerContext[Any, Any]) -> Admitted:
        """Takes a place for a call, and notes the caller for what runs in this task.

        Args:
            method: The full name.
            known: The caller, if `expect` has checked it. That may be long ago.
            context: gRPC's handle of the call.

        Raises:
            PermissionDenied: This needs a token, or the caller's role is too low.
            Unavailable: There is no place, or the caller makes too many calls a second.
        """
        connection = context.peer()
        if is_open_to_everyone(method):
            return Admitted(None, connection, self._probes.take(None, connection))
        access = self._access
        if known is None or not self._is_current(known):
            known = self._know(method, context)
        caller = known.caller
        caller_name.set(caller.name)
        admit(caller, identified=not access.open)
        # If the server does not identify callers, only the connection is known.
        name = None if access.open else caller.name
        of = name or connection
        origin.set(of)
        shares = self.streams if method in LONG else self.calls
        is_commit = method in COMMITTING and self._is_writer(caller)
        self._rates.take(of, is_commit=is_commit)
        return Admitted(known, of, shares.take(name, connection, is_commit=is_commit))


def is_open_to_everyone(method: str) -> bool:
    """Whether a method needs no token. Pure."""
    return NEEDED_ROLES.get(method, Role.ADMIN) is None


def needs_turn(method: str) -> bool:
    """Whether only some calls of this method are processed at once, of one caller. Pure."""
    return method not in _WITHOUT_TURNS


def key_of_turns(method: str, origin: str, *, sends_many: bool) -> str:
    """The key of a call's turns. Pure.

    Args:
        method: The full name.
        origin: See `Admitted`.
        sends_many: Whether the answer is a stream, as that of a plan. These have turns of their own, because they are
            sent for as long as a caller reads.
    """
    if method in _RENEWING:
        return f"{origin} renewals"
    return f"{origin} plans" if sends_many else origin


def _authorization(metadata: Any) -> str | None:
    for key, value in metadata or ():
        if key == "authorization":
            return value if isinstance(value, str) else ""
    return None


def _common_name(context: grpc.aio.ServicerContext[Any, Any]) -> str | None:
    names = context.auth_context().get("x509_common_name") or ()
    return next((bytes(name).decode("utf-8", "replace") for name in names), None)
