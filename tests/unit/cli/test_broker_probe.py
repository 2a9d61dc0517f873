from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from lakelog.cli.up.broker_probe import check_brokers
from lakelog.embedded.ports import free_port
from lakelog.errors import Unavailable


@pytest.fixture
def broker() -> Any:
    """Takes connections and says nothing, as one with TLS does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_brokers_that_take_connections_are_fine(broker: str) -> None:
    assert check_brokers(broker) == []
    assert check_brokers(f"{broker},{broker}") == []


def test_a_broker_that_is_away_is_reported_where_another_is_there(broker: str) -> None:
    away = f"127.0.0.1:{free_port()}"
    assert check_brokers(f"{away},{broker}") == [f"{away}: Connection refused"]


def test_none_that_can_be_reached_is_refused_with_the_reasons() -> None:
    one, two = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable) as caught:
        check_brokers(f"{one},{two}")
    assert caught.value.reason == "NO_BROKER"
    assert f"{one}: Connection refused; {two}: Connection refused" in caught.value.message
    assert "Correct --kafka-bootstrap-servers" in caught.value.message


def test_a_name_that_is_looked_up_for_ever_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()

    def connect(*_: object, **__: object) -> socket.socket:
        assert end.wait(30)
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", connect)
    try:
        with pytest.raises(Unavailable, match=r"broker:9092: no answer within 0\.05 s"):
            check_brokers("broker:9092", within_s=0.05)
    finally:
        end.set()


def test_what_is_no_name_says_so() -> None:
    with pytest.raises(Unavailable, match=r"a\.\.b:9092: no name of a host"):
        check_brokers("a..b:9092")


def test_a_name_that_does_not_exist_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> socket.socket:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(Unavailable, match="brokr:9092: Name or service not known"):
        check_brokers("brokr:9092")
