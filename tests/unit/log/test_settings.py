"""A log's settings, its client's settings, and the secrets these name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakelog.errors import InvalidArgument
from lakelog.log.client_settings import to_client_settings, to_producer_settings
from lakelog.log.secrets import Secrets, read_secrets
from lakelog.log.settings import choose_log, read_log_settings
from lakelog.options.values import StreamOptions

LOG = {"log.system": "kafka", "kafka.bootstrap.servers": "A:9092, b:9093"}
DAY_MS = 86_400_000


def test_a_table_without_a_log_has_no_settings() -> None:
    assert read_log_settings({"bucket": "4"}, has_primary_key=True) is None


def test_defaults_of_a_table_with_a_primary_key() -> None:
    settings = read_log_settings({**LOG, "bucket": "4"}, has_primary_key=True)
    assert settings is not None
    assert (settings.is_upsert, settings.partitions, settings.retention_ms) == (True, 4, None)
    spec = settings.to_topic_spec("orders")
    assert (spec.name, spec.partitions, spec.compact, spec.max_record_bytes) == ("orders", 4, True, 1000 << 10)
    assert settings.reads_log


def test_defaults_of_an_append_table() -> None:
    settings = read_log_settings(LOG, has_primary_key=False)
    assert settings is not None
    assert (settings.is_upsert, settings.partitions, settings.retention_ms) == (False, 1, 7 * DAY_MS)


def test_all_changes_of_a_key_are_kept_for_as_long_as_is_said() -> None:
    options = {**LOG, "log.changelog-mode": "all", "log.retention": "2 d", "log.system.partitions": "9"}
    settings = read_log_settings(options, has_primary_key=True)
    assert settings is not None
    assert (settings.is_upsert, settings.retention_ms, settings.partitions) == (False, 2 * DAY_MS, 9)


def test_streams_of_first_row_tables_come_from_files() -> None:
    settings = read_log_settings({**LOG, "merge-engine": "first-row"}, has_primary_key=True)
    assert settings is not None
    assert not settings.reads_log


def test_a_stream_may_choose() -> None:
    settings = read_log_settings(LOG, has_primary_key=True)
    files = read_log_settings({**LOG, "streaming-read-mode": "file"}, has_primary_key=True)
    assert choose_log(StreamOptions({}), settings)
    assert not choose_log(StreamOptions({"streaming-read-mode": "file"}), settings)
    assert choose_log(StreamOptions({"streaming-read-mode": "log"}), files)
    assert not choose_log(StreamOptions({}), files)
    assert not choose_log(StreamOptions({}), None)


def test_a_stream_from_a_log_that_cannot_give_it_is_refused() -> None:
    asked = StreamOptions({"streaming-read-mode": "log"})
    with pytest.raises(InvalidArgument, match="the table has no log"):
        choose_log(asked, None)
    first_row = read_log_settings({**LOG, "merge-engine": "first-row"}, has_primary_key=True)
    with pytest.raises(InvalidArgument, match="rows that come second"):
        choose_log(asked, first_row)


def test_clients_receive_what_the_options_say(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("hunter2\n")
    options = {
        **LOG,
        "bucket": "4",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "scram-sha-256",
        "kafka.sasl.username": "me",
        "kafka.sasl.password": "secret:pw",
    }
    settings = to_client_settings(options, Secrets({}, str(tmp_path)))
    assert settings == {
        "bootstrap.servers": "a:9092,b:9093",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": "hunter2",
        "client.id": "lakelog",
        "broker.address.family": "any",
    }
    assert "hunter2" not in f"{settings} {settings!r}"
    producer = to_producer_settings({**options, "kafka.linger.ms": "0"}, Secrets({}, str(tmp_path)))
    assert (producer["linger.ms"], producer["compression.type"]) == ("0", "lz4")


def test_a_secret_is_read_again_each_time(tmp_path: Path) -> None:
    secrets = read_secrets({"LAKELOG_SECRETS_DIR": str(tmp_path), "LAKELOG_SECRET_user": "from the environment"})
    (tmp_path / "pw").write_text("old\n")
    assert secrets.resolve("pw") == "old"
    (tmp_path / "pw").write_text("new\r\n")
    assert secrets.resolve("pw") == "new"
    assert secrets.resolve("user") == "from the environment"


def test_an_unknown_secret_says_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name, reported in (
        ("missing", "LAKELOG_SECRET_missing, or as the file missing"),
        ("empty", "secret:empty' is empty"),
    ):
        with pytest.raises(InvalidArgument, match=reported) as caught:
            Secrets({}, str(tmp_path)).resolve(name)
        assert caught.value.reason == "UNKNOWN_SECRET"


def test_a_secret_that_is_no_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfehunter2")
    with pytest.raises(InvalidArgument, match="no text in UTF-8") as caught:
        Secrets({}, str(tmp_path)).resolve("key")
    assert "hunter2" not in repr(caught.value)


def test_secrets_show_and_pickle_none() -> None:
    secrets = Secrets({"LAKELOG_SECRET_pw": "hunter2", "PATH": "/bin"})
    assert "hunter2" not in repr(secrets)
    assert b"hunter2" not in pickle.dumps(secrets)
