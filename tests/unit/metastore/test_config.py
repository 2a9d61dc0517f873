"""Command line and environment of the metastore: what is taken, and the one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.client.connection.target import Target
from metastore.config import MigrateConfig, ServeConfig, parse_command
from metastore.server.startup import StartupFailure, show_database_url, to_libpq_url

URL = "postgresql://ann:sekret@db:5432/lake"
DEV = ["serve", "--database-url", URL, "--warehouse", "/w", "--insecure-dev"]


def parse(arguments: list[str], **variables: str) -> ServeConfig:
    config = parse_command(arguments, variables).config
    assert isinstance(config, ServeConfig)
    return config


def test_defaults() -> None:
    config = parse(DEV)
    assert config.listen == Target("127.0.0.1", 7450)
    assert config.warehouse == "file:///w"
    assert config.metrics_port is None
    assert config.access.open
    assert config.tls is None
    assert config.grace_s == 20
    assert config.durability == "on"


def test_everything_by_variables() -> None:
    config = parse(
        ["serve"],
        LAKELOG_DATABASE_URL="postgresql+psycopg://ann@db/lake?host=/tmp",
        LAKELOG_WAREHOUSE="s3://bucket/prefix/",
        LAKELOG_LISTEN="localhost:0",
        LAKELOG_METRICS_PORT="9100",
        LAKELOG_INSECURE_DEV="yes",
        LAKELOG_WAIT_FOR_DATABASE="7.5",
        LAKELOG_DATABASE_CONNECTIONS="4",
        LAKELOG_GRACE="3",
        LAKELOG_DURABILITY="off_may_lose_acknowledged_commits",
        LAKELOG_MAX_CALLS="50",
        LAKELOG_LOG_LEVEL="debug",
    )
    assert config.database_url == "postgresql://ann@db/lake?host=/tmp"
    assert config.warehouse == "s3://bucket/prefix"
    assert config.listen == Target("localhost", 0)
    assert (config.metrics_port, config.wait_for_database_s, config.database_connections) == (9100, 7.5, 4)
    assert config.durability == "off_may_lose_acknowledged_commits"
    assert (config.grace_s, config.max_calls, config.log_level) == (3, 50, "debug")


def test_brokers_and_secrets(tmp_path: Path) -> None:
    assert parse(DEV).kafka_clusters == ()
    (tmp_path / "pw").write_text("hunter2")
    given = {"LAKELOG_KAFKA_BROKERS": "K1:9092, k2:9092; other:9093;", "LAKELOG_SECRETS_DIR": str(tmp_path)}
    config = parse(DEV, **given, LAKELOG_SECRET_user="sesame")
    assert config.kafka_clusters == (("k1:9092", "k2:9092"), ("other:9093",))
    assert (config.secrets.resolve("pw"), config.secrets.resolve("user")) == ("hunter2", "sesame")
    assert "sesame" not in repr(config)
    with pytest.raises(StartupFailure, match=r"--kafka-brokers=k1 is not possible\. Give 'host:port'"):
        parse([*DEV, "--kafka-brokers", "k1"])


def test_an_argument_wins_over_its_variable() -> None:
    assert parse([*DEV, "--listen", "127.0.0.1:1"], LAKELOG_LISTEN="127.0.0.1:2").listen.port == 1


def test_migrate_needs_the_database_only() -> None:
    command = parse_command(["migrate"], {"LAKELOG_DATABASE_URL": URL})
    assert command.config == MigrateConfig(URL, 0.0, "info")


def test_a_token_file_closes_a_server_for_development(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("ann reader 0123456789abcdef")
    config = parse([*DEV, "--token-file", str(tmp_path / "tokens")])
    assert not config.access.open
    assert [entry.caller.name for entry in config.access.load_token_file().tokens] == ["ann"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--database-url", URL, "--insecure-dev"], "--warehouse is missing"),
        (["serve", "--database-url", "mysql://a:sekret@b/c"], "must be of the form postgresql://"),
        (["migrate", "--database-url", "postgresql://ann:sekret@h:nine/x"], "must be of the form"),
        (["serve", "--database-url", URL, "--warehouse", "/w"], "TLS is required"),
        (["serve", "--database-url", URL, "--warehouse", "w", "--insecure-dev"], "must be an absolute path"),
        (["serve", "--database-url", URL, "--warehouse", "gs://b/w", "--insecure-dev"], "must be an absolute path"),
        (["serve", "--database-url", URL, "--warehouse", "file://host/w", "--insecure-dev"], "three slashes"),
        (["serve", "--database-url", URL, "--warehouse", "s3:///w", "--insecure-dev"], "names no bucket"),
        (["serve", "--database-url", URL, "--warehouse", "s3://k:sekret@b/", "--insecure-dev"], "no credentials"),
        ([*DEV, "--listen", "0.0.0.0:1"], "on loopback only"),
        ([*DEV, "--listen", "nowhere"], "--listen: The target 'nowhere' is without a port"),
        ([*DEV, "--tls-cert", "x"], "exclude each other"),
        ([*DEV[:-1], "--tls-cert", "/no/c", "--tls-key", "/no/k"], "--tls-key /no/k cannot be read"),
        ([*DEV, "--token-file", "/no/t"], "The token file /no/t cannot be read: No such file"),
        ([*DEV, "--grace", "x"], "--grace=x must be a number"),
        ([*DEV, "--max-calls", "0"], "--max-calls=0 must be a number of at least 1"),
        ([*DEV, "--metrics-port", "70000"], "--metrics-port=70000 must be a port"),
        ([*DEV, "--log-level", "loud"], "--log-level=loud must be one of debug"),
    ],
)
def test_what_cannot_be(arguments: list[str], words: str) -> None:
    with pytest.raises(StartupFailure) as caught:
        parse_command(arguments, {})
    assert words in str(caught.value)
    assert "sekret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(StartupFailure, match="LAKELOG_INSECURE_DEV=maybe is neither"):
        parse_command(DEV[:-1], {"LAKELOG_INSECURE_DEV": "maybe"})


def test_tls_without_a_way_to_recognize_callers(tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).write_text("-----BEGIN X-----")
    tls = ["--tls-cert", str(tmp_path / "cert"), "--tls-key", str(tmp_path / "key")]
    with pytest.raises(StartupFailure, match="No caller could be recognized"):
        parse_command([*DEV[:-1], *tls], {})
    (tmp_path / "tokens").write_text("flights writer cert")
    with pytest.raises(StartupFailure, match="need --tls-client-ca"):
        parse_command([*DEV[:-1], *tls, "--token-file", str(tmp_path / "tokens")], {})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:sekret@db:5432/lake?password=sekret", "postgresql://ann@db:5432/lake"),
        ("postgresql+psycopg://postgres@/x?host=/tmp/s&port=3", "postgresql://postgres@/tmp/s/x"),
        ("postgresql://ann:sekret@a:1,b,[::1]:3/x?target_session_attrs=read-write", "postgresql://ann@a:1,b,[::1]:3/x"),
        ("postgresql://a:1,b:2/x", "postgresql://a:1,b:2/x"),
        ("postgresql://ann:sekret@db:nine/x", "(malformed URL)"),
        ("postgresql://ann:sekret@a:1,b:nine/x", "(malformed URL)"),
        ("postgresql://ann:sekret@a:1,/x", "(malformed URL)"),
        ("host=db password=sekret", "(malformed URL)"),
    ],
)
def test_urls_are_shown_without_secrets(url: str, shown: str) -> None:
    assert show_database_url(url) == shown


def test_libpq_takes_its_own_scheme() -> None:
    assert to_libpq_url("postgresql+psycopg://a@b/c") == "postgresql://a@b/c"
    assert to_libpq_url("postgres://a@b/c") == "postgresql://a@b/c"
    assert to_libpq_url("postgres://a@b:1,c:2/d") == "postgresql://a@b:1,c:2/d"


def test_durability_is_relaxed_by_its_full_name_only() -> None:
    with pytest.raises(StartupFailure, match="--durability=off must be one of on, off_may_lose_acknowledged_commits"):
        parse([*DEV, "--durability", "off"])
