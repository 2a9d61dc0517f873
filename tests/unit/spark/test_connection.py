"""Where the processes of a Spark application get keys of S3 from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.client.connection.tokens import FileToken
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import InvalidArgument
from lakelog.spark import connection
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.s3_keys import OwnKeys, VendedKeys

LOCATION = "s3://lake/w/0123456789abcdef0123456789abcdef/"


@pytest.fixture(autouse=True)
def without_caches() -> Iterator[None]:
    caches = (connection.open_table_store, connection._open_vendor, connection.open_metastore)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


def keys_of(location: str) -> object:
    store = connection.open_table_store(location)
    assert isinstance(store, S3Store)
    return store._keys


@pytest.mark.parametrize("choice", ["", "auto", "own"])
def test_tasks_call_no_metastore_unless_they_must(monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    monkeypatch.setenv("LAKELOG_S3_CREDENTIALS", choice)
    monkeypatch.setenv("LAKELOG_TARGET", "127.0.0.1:1")
    assert isinstance(keys_of(LOCATION), OwnKeys)


def test_tasks_request_keys_by_their_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_S3_CREDENTIALS", "vended")
    monkeypatch.setenv("LAKELOG_TARGET", "127.0.0.1:1")
    monkeypatch.setenv("LAKELOG_TOKEN", "token-0123456789")
    keys = keys_of(LOCATION)
    assert isinstance(keys, VendedKeys)
    assert isinstance(keys._vendor, GrpcMetastore)
    # Checkpoints and other folders are no table's.
    assert isinstance(keys_of("s3://lake/checkpoints/"), OwnKeys)
    # All tables of a process share the connection.
    other = keys_of(LOCATION.replace("0123", "4567", 1))
    assert isinstance(other, VendedKeys)
    assert other._vendor is keys._vendor


def test_the_token_of_a_catalogs_entry_goes_there_and_not_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("token-of-the-entry")
    (tmp_path / "catalogs.toml").write_text("[web]\ntarget = '127.0.0.1:1'\ntoken_file = 'token'\n")
    monkeypatch.setenv("LAKELOG_CATALOGS", str(tmp_path / "catalogs.toml"))
    monkeypatch.setenv("LAKELOG_CATALOG", "web")
    monkeypatch.setenv("LAKELOG_TOKEN", "token-of-the-environment")
    seen = []
    monkeypatch.setattr(GrpcMetastore, "__init__", lambda self, *_, token, **__: seen.append(token))
    connection._open_vendor()
    assert seen == [FileToken(str(token_file))]
    # Control: without a file the variable counts.
    (tmp_path / "catalogs.toml").write_text("[web]\ntarget = '127.0.0.1:1'\n")
    connection._open_vendor.cache_clear()
    connection._open_vendor()
    assert seen[1:] == ["token-of-the-environment"]


def test_without_a_target_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_S3_CREDENTIALS", "vended")
    monkeypatch.delenv("LAKELOG_TARGET", raising=False)
    with pytest.raises(InvalidArgument, match="LAKELOG_TARGET"):
        connection.open_table_store(LOCATION)
