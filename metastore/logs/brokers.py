"""The brokers that the operator allows, called in threads: the event loop never waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from lakelog.client.connection.retry import BROKERS_UNAVAILABLE
from lakelog.errors import InternalError, PermissionDenied, Unavailable
from lakelog.log.protocol import Log, TopicAdmin
from lakelog.options.declared.kafka import KAFKA_SERVERS
from lakelog.options.declared.log import KAFKA, LOG_SYSTEM

T = TypeVar("T")

LogOpener = Callable[[Mapping[str, str]], Log]
"""Opens the log of a table with these options; raises InvalidArgument where a secret is not known."""

TIMEOUT_S: Final = 20.0
"""For all calls of one request to brokers: below the 30 s that a client waits for an answer."""

_THREADS: Final = 8
"""A call takes some 10 ms, or as long as the timeout if brokers are away."""


class BrokersTooSlow(Unavailable):
    """The brokers did not answer in time; the call may still take effect."""


class Brokers:
    """The clusters that tables may name.

    Args:
        clusters: Brokers of each, as `host:port` in lower case; none: no table may have a log.
        open_log: Opens the log of a cluster.
        timeout_s: How long one request waits for brokers.
    """

    def __init__(
        self, clusters: Sequence[Sequence[str]] = (), open_log: LogOpener | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._clusters = [tuple(cluster) for cluster in clusters]
        self._open_log = open_log
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="brokers")

    def resolve(self, options: Mapping[str, str]) -> dict[str, str]:
        """Adds the brokers to a new table's options where there is only one choice. Pure.

        Raises:
            InvalidArgument: Nothing says which of several clusters to use; or the value is not valid.
            PermissionDenied: As in `check`.
        """
        resolved = dict(options)
        if LOG_SYSTEM.read(options) != KAFKA:
            return resolved
        if KAFKA_SERVERS.key not in options:
            if len(self._clusters) > 1:
                raise LOG_SYSTEM.refusal(
                    options,
                    f"There are {len(self._clusters)} clusters of brokers. Say which by '{KAFKA_SERVERS.key}': "
                    f"{self._show()}.",
                )
            if self._clusters:
                resolved[KAFKA_SERVERS.key] = ",".join(self._clusters[0])
        self.check(resolved)
        return resolved

    def check(self, options: Mapping[str, str]) -> None:
        """Check that a table's brokers belong to one cluster that the operator allows. Pure.

        Raises:
            PermissionDenied: They do not.
        """
        servers = KAFKA_SERVERS.read(options)
        if not self._clusters:
            raise PermissionDenied(
                "Tables of this metastore can have no log: its operator allows no brokers. Have the metastore started "
                "with --kafka-brokers (LAKELOG_KAFKA_BROKERS).",
                reason="BROKERS_NOT_ALLOWED",
                metadata={"option": LOG_SYSTEM.key},
            )
        if not any(set(servers) <= set(cluster) for cluster in self._clusters):
            shown = KAFKA_SERVERS.type.format(servers)
            raise PermissionDenied(
                f"Option '{KAFKA_SERVERS.key}' = '{shown:.200}' is not allowed: the operator of this metastore allows "
                f"{self._show()}. Name brokers of one of these clusters, or have the operator add them "
                "(--kafka-brokers).",
                reason="BROKERS_NOT_ALLOWED",
                metadata={"option": KAFKA_SERVERS.key, "value": shown},
            )

    async def request(self, options: Mapping[str, str], question: Callable[[TopicAdmin], T]) -> T:
        """Calls a table's brokers in a thread.

        Args:
            options: The table's options.
            question: The call. It blocks, and raises only errors of `lakelog.errors`.

        Raises:
            PermissionDenied: The brokers are not allowed, or do not let us in.
            Unavailable: They cannot be reached, or refuse for the moment; reason `BROKERS_UNAVAILABLE`.
            BrokersTooSlow: They did not answer, but the call may still take effect.
            LakelogError: Other errors of the call.
        """
        self.check(options)
        if self._open_log is None:
            raise InternalError("Brokers are allowed, but nothing was said of how they are reached.")
        answer = asyncio.get_running_loop().run_in_executor(
            self._threads, _request, self._open_log, dict(options), question
        )
        try:
            return await asyncio.wait_for(answer, self._timeout_s)
        except TimeoutError:
            raise BrokersTooSlow(
                f"The brokers {', '.join(KAFKA_SERVERS.read(options))} have not answered within {self._timeout_s:g} s. "
                "Look after them, then try again.",
                reason=BROKERS_UNAVAILABLE,
            ) from None
        except Unavailable as error:
            metadata = {**error.metadata, "cause": error.reason}
            raise Unavailable(error.message, reason=BROKERS_UNAVAILABLE, metadata=metadata) from error

    def close(self) -> None:
        """Abandons running calls and starts none that wait; idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _show(self) -> str:
        return " or ".join(f"'{','.join(cluster)}'" for cluster in self._clusters)


def _request(open_log: LogOpener, options: Mapping[str, str], question: Callable[[TopicAdmin], T]) -> T:
    admin = open_log(options).open_admin()
    try:
        return question(admin)
    finally:
        admin.close()
