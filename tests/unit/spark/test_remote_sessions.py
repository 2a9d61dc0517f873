"""Sessions of Spark Connect: what the server does is possible, and the rest is refused in one sentence."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import lakelog.spark
from compactor.config import parse_config
from lakelog.errors import InvalidArgument
from lakelog.spark import installing
from lakelog.spark.session.remote import NOT_IN_CONNECT, make_remote_connection


class Remote:
    """As much of a session of Spark Connect as lakelog uses before a query."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.sources: list[Any] = []
        self.conf, self.dataSource, self.sparkSession, self.isStreaming = self, self, self, True

    def get(self, key: str, default: str | None = None) -> str | None:
        return self.settings.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value

    def register(self, source: Any) -> None:
        self.sources.append(source)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(installing, "mark_remote_streams", lambda: None)
    return Remote()


def test_the_server_gets_the_source_and_no_secret(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_TOKEN", "secret-of-the-client")
    monkeypatch.setenv("LAKELOG_TLS_CA", "/client/ca.crt")
    lakelog.spark.install(remote, "metastore:7450", tls_cert="/server/tls.crt", tls_key="/server/tls.key")
    (source,) = remote.sources
    connection = source.connection
    assert (connection.target, connection.tls) == ("metastore:7450", True)
    assert (connection.tls_ca, connection.tls_cert, connection.tls_key) == (None, "/server/tls.crt", "/server/tls.key")
    assert connection.token_file is None
    assert b"secret" not in pickle.dumps(connection)
    assert remote.settings["spark.lakelog.version"] == lakelog.__version__


def test_a_token_that_would_have_to_travel_is_refused(remote: Any) -> None:
    with pytest.raises(InvalidArgument, match="Set LAKELOG_TOKEN or LAKELOG_TOKEN_FILE in the environment of the serv"):
        lakelog.spark.install(remote, "metastore:7450", token="secret")
    assert remote.sources == []


def test_a_file_must_be_named_as_the_server_sees_it() -> None:
    with pytest.raises(InvalidArgument, match=r"tls_ca is 'ca\.crt': in Spark Connect it names a file of the server"):
        make_remote_connection("a:1", True, "ca.crt", None, None, None)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("read_table", lambda spark: lakelog.spark.read_table(spark, "d.t")),
        ("write", lambda spark: lakelog.spark.write(spark, "d.t")),
        ("write_stream", lambda spark: lakelog.spark.write_stream(spark, "d.t", checkpoint_location="/c")),
    ],
)
def test_what_the_driver_program_does_is_refused(remote: Any, name: str, call: Any) -> None:
    lakelog.spark.install(remote, "metastore:7450")
    with pytest.raises(InvalidArgument, match=rf"lakelog\.spark\.{name} works in Spark's driver program") as refused:
        call(remote)
    assert refused.value.reason == NOT_IN_CONNECT
    assert "format('lakelog').option('table', 'd.t')" in refused.value.message


def test_a_server_is_no_master() -> None:
    with pytest.raises(InvalidArgument, match=r"SparkSession\.builder\.remote"):
        lakelog.spark.build_session("x", "sc://host:15002")
    with pytest.raises(InvalidArgument, match=r"sc://host:15002 is a server of Spark Connect"):
        parse_config(["run", "--spark-master", "sc://host:15002"], {"LAKELOG_TARGET": "a:1"})
