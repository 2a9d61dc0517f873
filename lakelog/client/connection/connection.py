"""The connection to a metastore.

It opens when it is first used. Before a call with an effect it checks that the server answers. A forked child opens a
new one.

Why it checks first: gRPC reports "could not connect" and "the connection broke under way" by the same status, so
afterwards no one can know whether a request was sent. A health check has no effect; if it is not answered, the request
that should follow it was certainly never sent. After an answered check, each failure counts as possibly sent.

A connection can also go silent: a router forgets it, and both ends believe that it is open. Keepalives notice that only
after some time, and only while calls are open. So a health check that is not answered in time ends the use of its
channel, and the next check goes over a new one.

How long it checks: what was never sent is safe to repeat. A server that has answered this client before is therefore
waited for as long as the whole call may take. One that never has is more likely a wrong target, which people should
learn soon.

Threads may share a connection. Fork: gRPC's channels do not survive in a child, so a connection notices that the
process is another one and opens a new channel; the parent's channel is kept unused in the child, because destroying it
there would wait for threads that exist only in the parent. Pickling: see `GrpcMetastore`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import grpc

from lakelog.client.connection.channels import note_opened
from lakelog.client.connection.retry import CLOSED, NOT_CONNECTED, Deadlines, RetryPolicy
from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.client.connection.target import Target, TlsFiles, check_token
from lakelog.client.connection.tokens import Token, is_outdated, to_metadata
from lakelog.clock import Clock
from lakelog.errors import InvalidArgument, LakelogError, Unavailable
from lakelog.rpc.services import Stubs
from lakelog.rpc.unary import SERVICES

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""The largest message, both ways. A commit of 64 MiB has some 100,000 files; chunks of plans are far smaller."""

# An answer younger than this shows that the connection works; before a mutation an older one is renewed.
_FRESH_S: Final = 1.0
# The least time for a health check, so that the last one before the end of the wait can succeed.
_SHORTEST_PROBE_S: Final = 0.05
_PLAINTEXT: Final = "WRONG_VERSION_NUMBER"
"""What the TLS library reports for an answer in plaintext; only a hint for the message."""
_HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
_OPTIONS: Final = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # While calls (watches) are open, a peer that vanished without closing is noticed after 15 + 10 seconds: before the
    # deadline of an ordinary call.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # Our own calls pace the reconnecting, with jitter; gRPC's own pauses, 1 s at first, would only add to it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A name can stand for several metastores, and any of them serves any call: calls take turns, so that all get some
    # of them. One that does not answer is left out until it does.
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
    # Otherwise gRPC silently shares one channel, with its state, among all channels to the same target.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "lakelog-python"),
)
# Channels of parent processes; this process never uses them again.
_LEFT_BY_FORK: Final[list[Session]] = []


@dataclass
class Session:
    """An open channel of one process, and the methods of the metastore over it."""

    pid: int
    channel: grpc.Channel
    methods: Stubs
    answered_at_s: float | None = field(default=None)
    """When the server was last known to answer, on the monotonic clock; None: not since the last failure."""
    tls_state: object = None
    """The state of the TLS files that the channel was made with."""


class Connection:
    """A connection to one metastore.

    Args:
        target: Where it is.
        tls: Files for TLS; None: plaintext.
        token: Sent with each call as `authorization: Bearer`; a file is read again when it changes; None: none.
        deadlines: Of these, `connect_s` is used here.
        retries: The pauses between unanswered health checks.
        clock: Gives the time and makes the pauses.
        rng: Random numbers in [0, 1).
        is_known: A metastore has answered under this target before, perhaps to another client.

    Raises:
        InvalidArgument: The token cannot be sent, or would leave this machine unencrypted.
    """

    def __init__(
        self,
        target: Target,
        *,
        tls: TlsFiles | None,
        token: Token | None,
        deadlines: Deadlines,
        retries: RetryPolicy,
        clock: Clock,
        rng: Callable[[], float],
        is_known: bool,
    ) -> None:
        check_token(token, target, tls=tls is not None)
        self.target: Final = target
        self._token = token
        self._tls = tls
        self._connect_s = deadlines.connect_s
        self._retries = retries
        self._clock = clock
        self._rng = rng
        self._is_known = is_known
        self._session: Session | None = None
        # Sessions that were replaced, while calls on them are open.
        self._replaced: list[weakref.ref[Session]] = []
        self._closed = False
        # Each process has its own lock: another thread may have held the parent's lock at the moment of the fork.
        self._locks: dict[int, threading.Lock] = {}

    @property
    def call_metadata(self) -> tuple[tuple[str, str], ...]:
        """The headers that identify the caller, for one call.

        Raises:
            InvalidArgument: The token's file cannot be used.
        """
        return to_metadata(self._token)

    def may_sign_in_again(self, error: LakelogError, metadata: tuple[tuple[str, str], ...]) -> bool:
        """Whether a call was refused for a token that its file has replaced since. It had no effect."""
        return error.reason == UNAUTHENTICATED and is_outdated(metadata, self._token)

    @property
    def is_known(self) -> bool:
        """Whether a metastore has ever answered under this target."""
        return self._is_known

    def session(self, *, fresh: bool, max_unavailable_s: float) -> Session:
        """The open channel; opens one, and checks that the server answers, where that is necessary.

        Blocks for at most `max_unavailable_s`, or at most `connect_s` if no metastore has ever answered here.

        Args:
            fresh: Before a mutation: check the server unless it has answered within the last second.
            max_unavailable_s: How long to wait for a metastore that has answered before.

        Raises:
            Unavailable: Nothing answers; certainly nothing was sent.
            InvalidArgument: The connection is closed, or a TLS file cannot be read.
        """
        session = self._session
        if session is not None and session.pid == os.getpid() and self._is_usable(session, fresh):
            return session
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            if self._closed:
                raise self.closed_error()
            session = self._open()
        return self._check_answers(
            session, max_unavailable_s if self._is_known else min(self._connect_s, max_unavailable_s)
        )

    def _is_usable(self, session: Session, fresh: bool) -> bool:
        at_s = session.answered_at_s  # Read once: another thread may set it to None.
        return at_s is not None and (not fresh or self._clock.monotonic_s() - at_s < _FRESH_S)

    def answered(self, session: Session) -> None:
        """Notes that the server has answered just now."""
        session.answered_at_s = self._clock.monotonic_s()
        self._is_known = True

    def failed(self, session: Session) -> None:
        """Notes that the connection may be broken, so that the next call checks it first."""
        session.answered_at_s = None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def closed_error(self) -> InvalidArgument:
        """The error for callers that go on using a closed connection."""
        return InvalidArgument(f"The client of {self.target} is closed. Connect again.", reason=CLOSED)

    def close(self) -> None:
        """Closes the channel, which cancels all its calls; idempotent."""
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            self._closed = True
            sessions = [self._session, *(each() for each in self._replaced)]
            self._session = None
            self._replaced.clear()
        for session in sessions:
            if session is not None and session.pid == os.getpid():
                session.channel.close()
            elif session is not None:
                _LEFT_BY_FORK.append(session)

    def _open(self) -> Session:
        if self._session is not None and self._session.pid == os.getpid():
            return self._session
        if self._session is not None:
            _LEFT_BY_FORK.append(self._session)
        note_opened()
        # Before they are read: a file that is replaced meanwhile counts as changed.
        tls_state = None if self._tls is None else self._tls.find_state()
        if self._tls is None:
            channel = grpc.insecure_channel(str(self.target), options=_OPTIONS)
        else:
            channel = grpc.secure_channel(str(self.target), self._tls.load_credentials(), options=_OPTIONS)
        self._session = Session(os.getpid(), channel, Stubs(channel, SERVICES.values()), tls_state=tls_state)
        return self._session

    def _replace(self, silent: Session) -> Session:
        """A session in place of one whose channel is of no use; calls that are open on that one go on."""
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            if self._closed:
                raise self.closed_error()
            if self._session is silent:
                # Not closed, for the sake of its open calls: it ends with the last of them.
                self._replaced = [each for each in self._replaced if each() is not None] + [weakref.ref(silent)]
                self._session = None
            return self._open()

    def _check_answers(self, session: Session, wait_s: float) -> Session:
        """Returns the session that was answered: the given one, or one that has replaced it."""
        give_up_s = self._clock.monotonic_s() + wait_s
        tries = 0
        while True:
            tries += 1
            left_s = max(give_up_s - self._clock.monotonic_s(), _SHORTEST_PROBE_S)
            check = session.channel.unary_unary(_HEALTH_CHECK, request_serializer=bytes, response_deserializer=bytes)
            try:
                check(b"", timeout=min(left_s, self._connect_s), metadata=self.call_metadata)
            except grpc.RpcError as error:
                code = error.code()
                if code is grpc.StatusCode.CANCELLED and self._closed:
                    raise self.closed_error() from None
                # Any other status is an answer; the call itself will show whether it is the right kind of server.
                if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    left_s = give_up_s - self._clock.monotonic_s()
                    if left_s <= _SHORTEST_PROBE_S:
                        raise self._unreachable(error.details() or code.name, wait_s) from None
                    self._clock.sleep(min(self._retries.backoff_s(tries, self._rng()), left_s - _SHORTEST_PROBE_S))
                    # A channel keeps the certificates that it was made with, also for new connections.
                    has_old_files = self._tls is not None and self._tls.find_state() != session.tls_state
                    if code is grpc.StatusCode.DEADLINE_EXCEEDED or has_old_files:
                        session = self._replace(session)
                    continue
            except ValueError:
                if self._closed:
                    raise self.closed_error() from None
                raise
            self.answered(session)
            return session

    def _unreachable(self, reason: str, waited_s: float) -> Unavailable:
        metadata = {"target": str(self.target)}
        if self._tls is not None and _PLAINTEXT in reason:
            return Unavailable(
                f"What answers at {self.target} does not speak TLS, as `lakelog up` does not. Leave TLS out: --tls and "
                "the TLS files, LAKELOG_TLS_*, tls=. Nothing was sent.",
                reason=NOT_CONNECTED,
                metadata=metadata,
            )
        if self._tls is None:
            question = (
                "Is `lakelog up` running there, is the port right, and does it take connections without TLS? If it "
                "does not, ask for TLS: --tls, tls=True."
            )
        else:
            question = (
                "Is the metastore running there, is the port right, does it speak TLS, and do the certificates fit?"
            )
        return Unavailable(
            f"No metastore answers at {self.target} within {waited_s:.3g} s ({reason}). {question} Nothing was sent.",
            reason=NOT_CONNECTED,
            metadata=metadata,
        )
