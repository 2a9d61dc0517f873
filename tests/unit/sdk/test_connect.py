from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from typing import Any

import pytest

import lakelog
from lakelog.arguments import parse_table_name, to_epoch_ms, to_option_texts
from lakelog.config import read_connect_settings, read_s3_settings
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableName
from lakelog.storage.objects.store import S3Settings


def test_arguments_go_before_the_environment() -> None:
    environment = {
        "LAKELOG_TARGET": "env:1",
        "LAKELOG_TLS_CA": "/env/ca",
        "LAKELOG_TOKEN": "env-token",
        "LAKELOG_S3_ENDPOINT": "http://s3:1",
        "AWS_REGION": "eu-1",
        "AWS_ACCESS_KEY_ID": "aws-id",
        "LAKELOG_S3_ACCESS_KEY_ID": "own-id",
        "AWS_SECRET_ACCESS_KEY": "aws-secret",
    }
    settings = read_connect_settings(environment)
    assert (settings.target, settings.tls, settings.tls_ca, settings.token) == ("env:1", True, "/env/ca", "env-token")
    assert (settings.s3.endpoint, settings.s3.region) == ("http://s3:1", "eu-1")
    assert (settings.s3.access_key_id, settings.s3.secret_access_key) == ("own-id", "aws-secret")
    assert "env-token" not in repr(settings)
    assert "aws-secret" not in repr(settings)
    given = read_connect_settings(environment, target="arg:2", tls_ca="/arg/ca", token="arg-token")
    assert (given.target, given.tls_ca, given.token) == ("arg:2", "/arg/ca", "arg-token")
    plain = read_connect_settings(environment, tls=False)
    assert (plain.tls, plain.tls_ca) == (False, None)
    assert read_connect_settings({}, target="a:1").tls is False
    assert read_connect_settings({"LAKELOG_TOKEN": ""}, target="a:1", tls=True).token is None


def test_without_a_target_the_remedy_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"localhost:7450.*LAKELOG_TARGET"):
        read_connect_settings({})
    with pytest.raises(InvalidArgument, match="tls=False"):
        read_connect_settings({}, target="a:1", tls=False, tls_ca="/ca")


def test_connect_reads_the_environment_and_opens_nothing_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_TARGET", "127.0.0.1:9")
    with lakelog.connect() as catalog:
        assert "127.0.0.1:9" in repr(catalog)
    with pytest.raises(InvalidArgument, match="a URL"):
        lakelog.connect("http://localhost:7450")


def test_importing_lakelog_takes_little_and_pulls_in_no_service() -> None:
    program = (
        "import sys, time; start = time.perf_counter(); import lakelog; took = time.perf_counter() - start;"
        "import json; print(json.dumps([took, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    _, modules = json.loads(done.stdout)
    assert {"pyspark", "sqlalchemy", "psycopg", "grpc", "sqlglot", "pandas", "polars"}.isdisjoint(modules)


@pytest.mark.parametrize("name", ["orders", "", ".t", "a.", "a.b.c", None, 5])
def test_names_of_tables_have_two_parts(name: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"write database\.table"):
        parse_table_name(name)
    assert parse_table_name("a.b") == TableName("a", "b")


def test_points_in_time() -> None:
    eastern = dt.timezone(dt.timedelta(hours=-5))
    assert to_epoch_ms(1234, "t") == 1234
    assert to_epoch_ms(dt.datetime(1969, 12, 31, 19, 0, 1, 999, tzinfo=eastern), "t") == 1000
    assert to_epoch_ms(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), "t") == -1
    for text in ("1970-01-02", "1970-01-02 00:00", "1970-01-02T00:00:00Z", "1970-01-02T05:00:00.000+05:00"):
        assert to_epoch_ms(text, "t") == 86_400_000
    assert to_epoch_ms(dt.date(1970, 1, 2), "t") == 86_400_000
    assert to_epoch_ms("1969-12-31T23:59:59.9999Z", "t") == -1
    for wrong in (True, 1.5, "1970", "5000", "1970-13-01", "soon", "", None, dt.datetime(1970, 1, 1)):  # noqa: DTZ001
        with pytest.raises(InvalidArgument, match="t="):
            to_epoch_ms(wrong, "t")


def test_options_may_be_numbers_and_booleans() -> None:
    assert to_option_texts({"a": 1, "b": True, "c": "x"}) == {"a": "1", "b": "true", "c": "x"}
    moment = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
    times = {"scan.timestamp-millis": moment, "scan.file-creation-time-millis": moment.date()}
    assert set(to_option_texts(times).values()) == {"86400000"}
    with pytest.raises(InvalidArgument, match=r"scan\.timestamp-millis=.* has no time zone"):
        to_option_texts({"scan.timestamp-millis": moment.replace(tzinfo=None)})
    with pytest.raises(InvalidArgument, match="'bucket' is a datetime"):
        to_option_texts({"bucket": moment})
    with pytest.raises(InvalidArgument, match="'a' is a float"):
        to_option_texts({"a": 1.5})


@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        ({"LAKELOG_S3_ACCESS_KEY_ID": "id"}, "LAKELOG_S3_SECRET_ACCESS_KEY"),
        ({"AWS_SECRET_ACCESS_KEY": "hidden"}, "LAKELOG_S3_ACCESS_KEY_ID"),
    ],
)
def test_half_of_the_credentials_for_s3_is_none(environment: dict[str, str], missing: str) -> None:
    with pytest.raises(InvalidArgument, match=f"Set {missing} too, or neither") as error:
        read_s3_settings(environment)
    assert "hidden" not in error.value.message


def test_attempts_and_timeout_of_s3_come_from_the_environment() -> None:
    found = read_s3_settings({"LAKELOG_S3_ATTEMPTS": "3", "LAKELOG_S3_TIMEOUT": "45"})
    assert (found.attempts, found.timeout_s) == (3, 45)
    assert read_s3_settings({}) == S3Settings()
    for variable, value in (("ATTEMPTS", "0"), ("ATTEMPTS", "21"), ("ATTEMPTS", "-1"), ("TIMEOUT", "soon")):
        with pytest.raises(InvalidArgument, match=f"LAKELOG_S3_{variable} is '{value}': give a whole number from 1"):
            read_s3_settings({f"LAKELOG_S3_{variable}": value})
