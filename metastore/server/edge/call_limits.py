"""Bounds how many calls and streams are open at once, and how long a call runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakelog.serving.edge.probes import OF_PROBES, PROBES_OF_CONNECTION
from lakelog.serving.edge.rates import CallRates
from lakelog.serving.edge.shares import ShareLimits

_SNAPSHOTS: Final = "/lakelog.rpc.v1.SnapshotService/"

LONG: Final = frozenset(
    {
        f"{_SNAPSHOTS}CommitStream",
        f"{_SNAPSHOTS}Watch",
        # It waits up to half a minute for a job.
        "/lakelog.rpc.v1.JobService/LeaseJob",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    }
)
"""Calls that stay open while nothing happens: they cost memory but no work, so they are counted apart."""

COMMITTING: Final = frozenset(
    {
        "/lakelog.rpc.v1.CatalogService/GetTable",
        f"{_SNAPSHOTS}StageAttempt",
        f"{_SNAPSHOTS}AbandonAttempt",
        f"{_SNAPSHOTS}RegisterWriter",
        f"{_SNAPSHOTS}GetWriterProgress",
        f"{_SNAPSHOTS}Commit",
        f"{_SNAPSHOTS}CommitStream",
        f"{_SNAPSHOTS}AttachChangelogs",
        "/lakelog.rpc.v1.JobService/RenewLease",
        "/lakelog.rpc.v1.JobService/HeartbeatJob",
    }
)
"""A commit and the calls that it needs. From callers that may write, these have a reserve."""

_LEAST_SHARE: Final = 16
"""No share is smaller: small totals are not divided further."""

_RATE_SETTING: Final = "--call-rate"

_COMMITS_TIMES: Final = 4
"""How many times the rate of other calls commits have: one small commit is two or three calls."""


class Rates:
    """How many calls a second each caller can make.

    Args:
        calls: The rates of usual calls.
        commits: The rates of commits and the calls that they need.
    """

    def __init__(self, calls: CallRates, commits: CallRates) -> None:
        self._calls = calls
        self._commits = commits

    def take(self, caller: str, *, is_commit: bool) -> None:
        """Counts a call.

        Args:
            caller: The caller or, if the server does not identify callers, its connection.
            is_commit: Whether it has the rate of commits.

        Raises:
            Unavailable: The caller makes too many.
        """
        (self._commits if is_commit else self._calls).take(caller)


@dataclass(frozen=True)
class CallLimits:
    """Bounds of calls.

    Args:
        call_s: Longest time for a call that is neither a plan nor an endless stream, with any deadline of the client.
        plan_s: Longest time for a plan.
        receive_s: Longest time until the request of a call has arrived, for methods without large requests.
        max_calls: Calls that can be open at once.
        max_streams: Streams that can be open at once: watches, streams of commits, waits for jobs.
        caller_share: The part of both, from 0 to 1, that one caller can have.
        connection_share: The part of both that one connection can have.
        commit_reserve: The part of each limit that only commits can use.
        call_rate: Calls a second of one caller; its commits and the calls that they need have four times as many of
            their own.
        receiving: Requests of one caller that are received at once; its large ones have as many turns of their own.
        working: Calls of one caller that are processed at once, and as many plans; further ones wait. Streams and
            commits do not count. It is lower than the number of connections to the database.
    """

    call_s: float = 60.0
    plan_s: float = 300.0
    receive_s: float = 10.0
    max_calls: int = 2000
    max_streams: int = 10_000
    caller_share: float = 0.25
    connection_share: float = 0.125
    commit_reserve: float = 0.1
    call_rate: float = 1000.0
    receiving: int = 8
    working: int = 8

    def of_calls(self) -> ShareLimits:
        """The limits of calls."""
        return self._divided("calls", "--max-calls", self.max_calls)

    def of_streams(self) -> ShareLimits:
        """The limits of streams."""
        return self._divided("streams", "--max-streams", self.max_streams)

    def of_probes(self) -> ShareLimits:
        """The limits of calls that are open to everyone."""
        return OF_PROBES

    def new_rates(self, now_s: Callable[[], float] = time.monotonic) -> Rates:
        """The rates of callers, of which each has its full burst."""
        return Rates(
            CallRates("calls", _RATE_SETTING, self.call_rate, now_s),
            CallRates("calls for commits", _RATE_SETTING, self.call_rate * _COMMITS_TIMES, now_s),
        )

    @property
    def max_of_connection(self) -> int:
        """Calls, streams and probes that one connection can have open together."""
        return self.of_calls().connection + self.of_streams().connection + PROBES_OF_CONNECTION

    def _divided(self, kind: str, setting: str, total: int) -> ShareLimits:
        least = min(total, _LEAST_SHARE)
        return ShareLimits(
            kind,
            setting,
            total,
            caller=max(least, int(total * self.caller_share)),
            connection=max(least, int(total * self.connection_share)),
            reserve=self.commit_reserve,
        )
