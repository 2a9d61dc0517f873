"""Whether a producer ever sent anything twice: what its client library says of it (reliability R2).

The next transaction may begin without a fresh start only where no request of an earlier one can still be under way.
One unbroken connection keeps requests in order, and each is answered before the next; so a report of librdkafka's
statistics is asked for that was begun after the last answer, and that knows of no connection ever lost, no request ever
sent again, and none that timed out. Counts begin with the producer. Whatever is not known counts as doubt.
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
    """Why a report is no evidence, in words; empty: it is. Pure.

    Args:
        report: librdkafka's statistics.
        brokers_before: Those that earlier reports had: what one counted that is gone is not known any more.
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
    """Keeps what the client library reports of one producer. Callbacks run on another thread than questions."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._report = ""
        self._brokers: frozenset[str] = frozenset()
        self._duplicate_risk = ""
        self._error: KafkaError | None = None

    def on_statistics(self, report: str) -> None:
        """Called back by the client library; read only when somebody asks, since counts never fall."""
        with self._changed:
            self._report = report
            self._changed.notify_all()

    def on_error(self, error: KafkaError) -> None:
        """Called back by the client library."""
        with self._changed:
            # That all brokers are down follows each error of the only one, and says less than that did.
            if self._error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
                self._error = error
            self._duplicate_risk = self._duplicate_risk or f"the client reported {error.name()}: {error.str()}"
            self._changed.notify_all()

    @property
    def last_error(self) -> KafkaError | None:
        """What the client reported last of a broker; says more than a request that timed out."""
        with self._changed:
            return self._error

    def wait_for_connection(self, timeout_s: float) -> bool:
        """Waits until a broker is connected, as a report tells; False: none was in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                if self._report and _is_connected(json.loads(self._report)):
                    return True
                if not self._changed.wait(deadline - time.monotonic()):
                    return False

    def find_duplicate_risk_since(self, moment_ns: int) -> str:
        """Why the next transaction may not simply begin; empty: it may. Blocks until a report was begun since then.

        Args:
            moment_ns: Of the monotonic clock.
        """
        deadline = time.monotonic() + _WAIT_S
        with self._changed:
            while not self._duplicate_risk:
                if self._report:
                    report = json.loads(self._report)
                    self._report = ""
                    self._duplicate_risk = find_duplicate_risk(report, self._brokers)
                    self._brokers = frozenset(report["brokers"])
                    # SUBTLE: librdkafka's clock is the monotonic one on Linux. Where it is another, reports seem to
                    # come from the past or from the future, and count for nothing: each transaction starts afresh.
                    if not self._duplicate_risk and moment_ns < report["ts"] * 1000 <= time.monotonic_ns():
                        return ""
                elif not self._changed.wait(deadline - time.monotonic()):
                    return "no statistics came"
            return self._duplicate_risk
