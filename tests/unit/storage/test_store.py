from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from lakelog.errors import InvalidArgument, PermissionDenied, ResourceExhausted, Unavailable
from lakelog.storage.objects import local
from lakelog.storage.objects.local import LocalStore, translate_os_error
from lakelog.storage.objects.s3 import S3Store, translate_s3_error
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import open_store


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/tmp/x", "file:/// or s3://"),
        ("gs://bucket/x", "'gs'"),
        ("file://host/x", "not a local folder"),
        ("file:relative", "not a local folder"),
        ("s3:///x", "s3://bucket/prefix/"),
        ("s3://key:secret@bucket/x", "without credentials"),
        ("s3://bucket/x?secret_key=abc", "secret_key"),
    ],
)
def test_other_locations_are_refused(location: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        open_store(location)
    assert "abc" not in str(caught.value)
    assert "key:secret" not in str(caught.value)


def test_local_locations_may_hold_escaped_characters(tmp_path: Path) -> None:
    folder = tmp_path / "a b%c"
    store = open_store(LocalStore(str(folder)).location)
    writer = store.create("data/x")
    writer.sink.write(b"1")
    writer.commit()
    assert (folder / "data" / "x").read_bytes() == b"1"


def test_settings_show_no_secret_and_pickle_with_it() -> None:
    settings = S3Settings("http://h:1", "r", "id", "very-secret", "token-secret")
    store = S3Store("b", "p", settings)
    assert "secret" not in repr(settings) + repr(store) + str(store.location)
    assert pickle.loads(pickle.dumps(store)) == store


def test_a_local_file_and_its_folders_are_synchronised_before_commit_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    real = os.fsync

    def record(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    writer = LocalStore(str(tmp_path / "table")).create("data/attempt/x")
    writer.sink.write(b"1")
    assert synced == set()
    writer.commit()
    new = [tmp_path, tmp_path / "table", tmp_path / "table/data", tmp_path / "table/data/attempt"]
    assert synced == {str(path) for path in [*new, tmp_path / "table/data/attempt/x"]}


def test_a_folder_that_another_writer_takes_away_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_empty = local._make_empty
    raced: list[Path] = []

    def make_empty_after_the_other(target: Path) -> None:
        if not raced:
            raced.append(target)
            target.parent.rmdir()
        make_empty(target)

    monkeypatch.setattr(local, "_make_empty", make_empty_after_the_other)
    store = LocalStore(str(tmp_path))
    writer = store.create("data/a/f.parquet")
    writer.sink.write(b"x")
    assert writer.commit() == 1
    assert (raced, store.size("data/a/f.parquet")) == ([tmp_path / "data/a/f.parquet"], 1)


def test_deleting_the_last_file_of_an_attempt_takes_its_folder_away(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for name in ("data/one/a", "data/two/a", "data/two/b"):
        store.create(name).commit()
    store.delete_many(["data/one/a", "data/two/a"])
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["two"]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError(28, "No space left on device"), ResourceExhausted, "No space left"),
        (OSError(30, "Read-only file system"), PermissionDenied, "Read-only"),
        (PermissionError(13, "Permission denied"), PermissionDenied, "Give it the right"),
        (OSError(5, "Input/output error"), Unavailable, "Input/output"),
    ],
)
def test_errors_of_the_operating_system_keep_their_meaning(error: OSError, kind: type[Exception], text: str) -> None:
    translated = translate_os_error(error, "/t/x")
    assert type(translated) is kind
    assert text in str(translated)
    assert "/t/x" in str(translated)


def test_texts_of_s3_errors_are_not_repeated() -> None:
    translated = translate_s3_error(OSError("AWS Error NETWORK_CONNECTION during X: Authorization: AKIA123"), "b/k")
    assert isinstance(translated, Unavailable)
    assert "AKIA" not in str(translated)
    assert "NETWORK_CONNECTION" in str(translated)
