"""Whether a producer may have sent anything twice, by its client library's statistics (reliability R2).

The next transaction may begin without a re-initialisation only if no request of an earlier one can still be under way.
One unbroken connection keeps requests in order, and each is answered before the next. So the check needs a report of
librdkafka's statistics that was begun after the last answer. The report must count no lost connection, no repeated
request, and no timed-out one. Counts begin with the producer. Anything unknown counts as a risk.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

_WAIT_S: Final = 1.0
_COUNTS: Final = ("disconnects", "txretries", "req_timeouts", "txerrs", "rxerrs", "rxcorriderrs")


def find_duplicate_risk(report: Mapping[str, Any], brokers_before: frozenset[str]) -> str:
    """Why a report does not exclude a repeated send, in words; empty: it does. Pure.

    Args:
        report: librdkafka's statistics.
        brokers_before: The brokers of earlier reports: if one is gone, its counts are no longer known.
    """
    brokers = report["brokers"]
    gone = brokers_before - brokers.keys()
    if gone:
        return f"nothing is known any more of {', '.join(sorted(gone))}"
    for name, broker in brokers.items():
        for count in _COUNTS:
            if broker[count]:
                return f"{name} has {count} = {broker[count]}"
    return ""


def _is_connected(report: Mapping[str, Any]) -> bool:
    return any(broker["state"] == "UP" and broker["nodeid"] >= 0 for broker in report["brokers"].values())


class DuplicateSendCheck:
    """Keeps the client library's reports about one producer. Callbacks and questions run on different threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._report = ""
        self._brokers: frozenset[str] = frozenset()
        self._duplicate_risk = ""
        self._error: KafkaError | None = None

    def on_statistics(self, report: str) -> None:
        """Called by the client library. The report is parsed only when it is needed, since counts never fall."""
        with self._changed:
            self._report = report
            self._changed.notify_all()

    def on_error(self, error: KafkaError) -> None:
        """Called by the client library."""
        with self._changed:
            # "All brokers down" follows each error of a single broker, and says less than that error.
            if self._error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
                self._error = error
            self._duplicate_risk = self._duplicate_risk or f"the client reported {error.name()}: {error.str()}"
            self._changed.notify_all()

    @property
    def last_error(self) -> KafkaError | None:
        """The last error of a broker that the client reported; it says more than a timed-out request."""
        with self._changed:
            return self._error

    def wait_for_connection(self, timeout_s: float) -> bool:
        """Waits until a report shows a connected broker; False: none was connected in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                if self._report and _is_connected(json.loads(self._report)):
                    return True
                if not self._changed.wait(deadline - time.monotonic()):
                    return False

    def find_duplicate_risk_since(self, moment_ns: int) -> str:
        """Why the next transaction needs a re-initialisation; empty: it does not. Blocks for a report begun since then.

        Args:
            moment_ns: A time of the monotonic clock.
        """
        deadline = time.monotonic() + _WAIT_S
        with self._changed:
            while not self._duplicate_risk:
                if self._report:
                    report = json.loads(self._report)
                    self._report = ""
                    self._duplicate_risk = find_duplicate_risk(report, self._brokers)
                    self._brokers = frozenset(report["brokers"])
                    # SUBTLE: on Linux librdkafka's clock is the monotonic one. Elsewhere reports seem to come from the
                    # past or the future, and do not count: each transaction then needs a re-initialisation.
                    if not self._duplicate_risk and moment_ns < report["ts"] * 1000 <= time.monotonic_ns():
                        return ""
                elif not self._changed.wait(deadline - time.monotonic()):
                    return "no statistics came"
            return self._duplicate_risk
