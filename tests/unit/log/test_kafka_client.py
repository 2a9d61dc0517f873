"""What the client library is told, what it says, and what becomes of its errors."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lakelog.errors import Fenced, InvalidArgument, LakelogError, NotFound, PermissionDenied, Unavailable
from lakelog.log.kafka import polling
from lakelog.log.kafka.admin import KafkaTopicAdmin
from lakelog.log.kafka.errors import to_lakelog_error
from lakelog.log.kafka.polling import Poller
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck, find_duplicate_risk
from lakelog.log.kafka.sending.producer import KafkaProducer
from lakelog.log.kafka.settings import (
    KafkaSettings,
    to_reader_config,
    to_sender_config,
    to_transactional_config,
    to_uncommitted_config,
)

SETTINGS = KafkaSettings({"bootstrap.servers": "b:1", "compression.type": "zstd", "sasl.password": "hush"}, 5000)


def make_report(**counts: int) -> dict[str, Any]:
    clean = dict.fromkeys(("disconnects", "txretries", "req_timeouts", "txerrs", "rxerrs", "rxcorriderrs"), 0)
    return {"ts": time.monotonic_ns() // 1000, "brokers": {"one": clean, "two": {**clean, **counts}}}


@pytest.mark.parametrize("count", ["disconnects", "txretries", "req_timeouts", "txerrs", "rxerrs", "rxcorriderrs"])
def test_each_count_is_a_duplicate_risk(count: str) -> None:
    assert find_duplicate_risk(make_report(), frozenset()) == ""
    assert find_duplicate_risk(make_report(**{count: 1}), frozenset()) == f"two has {count} = 1"


def test_a_broker_that_is_gone_is_a_duplicate_risk() -> None:
    assert find_duplicate_risk(make_report(), frozenset(("one", "two"))) == ""
    assert "of three" in find_duplicate_risk(make_report(), frozenset(("one", "three")))


def test_a_report_counts_only_when_it_was_begun_later() -> None:
    duplicate_check = DuplicateSendCheck()
    duplicate_check.on_statistics(json.dumps(make_report()))
    moment_ns = time.monotonic_ns()
    assert duplicate_check.find_duplicate_risk_since(moment_ns) == "no statistics came"
    time.sleep(0.001)
    duplicate_check.on_statistics(json.dumps(make_report()))
    assert duplicate_check.find_duplicate_risk_since(moment_ns) == ""
    # Of a clock that is not ours: it may have been begun at any time.
    duplicate_check.on_statistics(json.dumps({**make_report(), "ts": time.time_ns() // 1000}))
    assert duplicate_check.find_duplicate_risk_since(moment_ns) == "no statistics came"


def test_a_connection_is_waited_for() -> None:
    duplicate_check = DuplicateSendCheck()
    assert not duplicate_check.wait_for_connection(0.01)
    report = make_report()
    report["brokers"] = {"a/1": {"state": "CONNECT", "nodeid": 1}, "b/bootstrap": {"state": "UP", "nodeid": -1}}
    duplicate_check.on_statistics(json.dumps(report))
    assert not duplicate_check.wait_for_connection(0.01)
    report["brokers"]["a/1"]["state"] = "UP"
    duplicate_check.on_statistics(json.dumps(report))
    assert duplicate_check.wait_for_connection(0)


def test_a_duplicate_risk_stays() -> None:
    duplicate_check = DuplicateSendCheck()
    duplicate_check.on_statistics(json.dumps(make_report(disconnects=1)))
    assert duplicate_check.find_duplicate_risk_since(0) == "two has disconnects = 1"
    duplicate_check.on_statistics(json.dumps(make_report()))
    assert duplicate_check.find_duplicate_risk_since(0) == "two has disconnects = 1"
    duplicate_check = DuplicateSendCheck()
    duplicate_check.on_error(KafkaError(KafkaError._TRANSPORT))
    duplicate_check.on_statistics(json.dumps(make_report()))
    assert "_TRANSPORT" in duplicate_check.find_duplicate_risk_since(0)
    assert duplicate_check.last_error is not None


@pytest.mark.parametrize(
    "name",
    [
        "acks",
        "enable.idempotence",
        "transactional.id",
        "isolation.level",
        "plugin.library.paths",
        "stats_cb",
        "group.id",
    ],
)
def test_what_exactly_once_rests_on_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        KafkaSettings({"bootstrap.servers": "b:1", name: "0"})


def test_settings_need_servers_and_show_no_secret() -> None:
    with pytest.raises(InvalidArgument, match=r"bootstrap\.servers is missing"):
        KafkaSettings({})
    assert "hush" not in repr(SETTINGS)


def test_configurations() -> None:
    reading = to_reader_config(SETTINGS, "g")
    assert (reading["isolation.level"], reading["auto.offset.reset"]) == ("read_committed", "error")
    assert (reading["enable.auto.commit"], reading["allow.auto.create.topics"]) == (False, False)
    assert reading["sasl.password"] == "hush"
    assert "compression.type" not in reading
    sending = to_sender_config(SETTINGS)
    assert (sending["acks"], sending["enable.idempotence"], sending["compression.type"]) == ("all", True, "zstd")
    assert sending["batch.size"] == 5000 < sending["message.max.bytes"]
    assert (sending["linger.ms"], to_uncommitted_config(SETTINGS)["linger.ms"]) == ("5", "1")
    patient = KafkaSettings({**SETTINGS.properties, "linger.ms": "7"})
    assert (to_sender_config(patient)["linger.ms"], to_uncommitted_config(patient)["linger.ms"]) == ("7", "7")
    publishing = to_transactional_config(SETTINGS, "id")
    assert (publishing["transactional.id"], publishing["retry.backoff.ms"]) == ("id", 1)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, Fenced),
        (KafkaError.INVALID_PRODUCER_EPOCH, Fenced),
        (KafkaError._AUTHENTICATION, PermissionDenied),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, PermissionDenied),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, PermissionDenied),
        (KafkaError.MSG_SIZE_TOO_LARGE, InvalidArgument),
        (KafkaError.POLICY_VIOLATION, InvalidArgument),
        (KafkaError._UNKNOWN_TOPIC, NotFound),
        (KafkaError._TRANSPORT, Unavailable),
        (KafkaError.NOT_ENOUGH_REPLICAS, Unavailable),
        (KafkaError._TIMED_OUT, Unavailable),
    ],
)
def test_errors(code: int, kind: type[LakelogError]) -> None:
    error = to_lakelog_error(KafkaException(KafkaError(code)), "It could not be done", "b:1")
    assert type(error) is kind
    assert error.message.startswith("It could not be done: ")
    assert error.metadata["kafka_error"] == KafkaError(code).name()


def test_topics_that_we_may_not_see_hide_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are they taken for topics that are gone; whatever else is wrong is wrong with all of them."""

    def answer(code: int) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(KafkaException(KafkaError(code)))
        return future

    codes = {"gone": KafkaError.UNKNOWN_TOPIC_OR_PART, "secret": KafkaError.TOPIC_AUTHORIZATION_FAILED}

    class Client:
        def describe_topics(self, topics: Any, **_options: object) -> dict[str, Future[Any]]:
            return {name: answer(codes[name]) for name in codes}

    with contextlib.closing(KafkaTopicAdmin(SETTINGS)) as admin:
        monkeypatch.setattr(admin, "_client", Client())
        assert admin.find_topics(list(codes)) == {"gone": None}
        codes["secret"] = KafkaError.REQUEST_TIMED_OUT
        with pytest.raises(Unavailable, match="could not be looked up"):
            admin.find_topics(list(codes))


def test_a_producer_asks_again_until_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has answered is let go, and the client connects to no broker before it has something to ask."""
    asked = 0

    def ask(client: Any, topic: str, duplicate_check: DuplicateSendCheck, servers: str) -> int:
        nonlocal asked
        asked += 1
        state = "INIT" if asked < 3 else "UP"
        duplicate_check.on_statistics(json.dumps({"brokers": {"b:1/1": {"state": state, "nodeid": 1}}}))
        return 1

    monkeypatch.setattr("lakelog.log.kafka.sending.producer.request_partitions", ask)
    monkeypatch.setattr(KafkaProducer, "_init_transactions", lambda self, client: None)
    monkeypatch.setattr(KafkaProducer, "_read_position", lambda self: None)
    with contextlib.closing(KafkaProducer(SETTINGS, "t", "id", "group")) as producer:
        assert producer.start() is None
    assert asked == 3


def test_a_client_that_has_lived_for_a_moment_is_closed_in_a_moment() -> None:
    class Client:
        def __init__(self) -> None:
            self.waits: list[float] = []
            self.waited = threading.Event()

        def poll(self, timeout: float = -1, /) -> int:
            self.waits.append(timeout)
            if timeout == 0.2:
                self.waited.set()
            time.sleep(timeout)
            return 0

    client = Client()
    poller = Poller(client, lambda error: None)
    assert client.waited.wait(20)
    poller.stop()
    assert client.waits[0] == 0.005
    assert client.waits == sorted(client.waits)
    assert len(client.waits) < 50, "nor does it wake up often"


def test_a_poll_that_does_not_end_keeps_no_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the wall clock is set back during it."""
    monkeypatch.setattr(polling, "_STOP_WAIT_S", 0.05)
    polls, goes_on = threading.Event(), threading.Event()

    class Client:
        def poll(self, timeout: float = -1, /) -> int:
            polls.set()
            goes_on.wait()
            return 0

    poller = Poller(Client(), lambda error: None)
    assert polls.wait(20)
    assert not poller.stop()
    goes_on.set()
    monkeypatch.setattr(polling, "_STOP_WAIT_S", 20)
    assert poller.stop()
