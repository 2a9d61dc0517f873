from __future__ import annotations

import dataclasses

import pytest

from lakelog.errors import NotFound, PermissionDenied, Unavailable
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import open_store


def test_wrong_credentials_are_refused_without_showing_them(s3_settings: S3Settings) -> None:
    wrong = dataclasses.replace(s3_settings, secret_access_key="wrong-secret-9431")
    store = S3Store("lake", "x", wrong)
    for ask in (lambda: store.open_input("a"), lambda: store.create("a"), lambda: list(store.list_objects())):
        with pytest.raises(PermissionDenied, match="credentials") as caught:
            ask()
        assert "9431" not in str(caught.value)
        assert caught.value.__cause__ is None
    assert "9431" not in repr(wrong) + repr(store)


def test_a_missing_bucket_is_not_found(s3_settings: S3Settings) -> None:
    store = S3Store("no-such-bucket", "x", s3_settings)
    with pytest.raises(NotFound, match="bucket"):
        store.open_input("a")


def test_an_endpoint_that_no_one_serves_is_unavailable(s3_settings: S3Settings) -> None:
    store = S3Store("lake", "x", dataclasses.replace(s3_settings, endpoint="http://127.0.0.1:1", attempts=1))
    with pytest.raises(Unavailable, match="endpoint"):
        store.size("a")


def test_the_location_may_say_endpoint_and_region(s3_settings: S3Settings) -> None:
    keys = S3Settings(access_key_id=s3_settings.access_key_id, secret_access_key=s3_settings.secret_access_key)
    store = open_store(f"s3://lake/some/prefix/?endpoint={s3_settings.endpoint}&region=us-east-1", keys)
    writer = store.create("data/a")
    writer.sink.write(b"x")
    writer.commit()
    assert S3Store("lake", "some/prefix", s3_settings).size("data/a") == 1
    assert store.location == "s3://lake/some/prefix/"
