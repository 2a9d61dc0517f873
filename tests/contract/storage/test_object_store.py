from __future__ import annotations

import pickle

import pytest

from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.store import ObjectStore

PATH = "data/0123/bucket-0.parquet"


def put(store: ObjectStore, path: str, data: bytes) -> int:
    writer = store.create(path)
    writer.sink.write(data)
    return writer.commit()


def get(store: ObjectStore, path: str) -> bytes:
    with store.open_input(path) as source:
        return source.read()


def paths(store: ObjectStore, prefix: str = "") -> list[str]:
    return [found.path for found in store.list_objects(prefix)]


def test_what_was_committed_can_be_read_and_measured(store: ObjectStore) -> None:
    data = bytes(range(256)) * 40_000
    assert put(store, PATH, data) == len(data)
    assert get(store, PATH) == data
    assert store.size(PATH) == len(data)


def test_an_object_may_be_empty(store: ObjectStore) -> None:
    assert put(store, PATH, b"") == 0
    assert get(store, PATH) == b""


def test_input_is_random_access(store: ObjectStore) -> None:
    put(store, PATH, b"0123456789")
    with store.open_input(PATH) as source:
        assert source.size() == 10
        source.seek(7)
        assert source.read() == b"789"
        assert source.read_at(3, 2) == b"234"


def test_create_never_overwrites(store: ObjectStore) -> None:
    put(store, PATH, b"first")
    with pytest.raises(AlreadyExists, match="bucket-0"):
        store.create(PATH)
    assert get(store, PATH) == b"first"


def test_aborted_objects_are_gone_and_their_name_is_free_again(store: ObjectStore) -> None:
    writer = store.create(PATH)
    writer.sink.write(b"x" * 100_000)
    writer.abort()
    writer.abort()
    assert paths(store) == []
    with pytest.raises(NotFound):
        store.size(PATH)
    put(store, PATH, b"second")
    assert get(store, PATH) == b"second"


def test_abort_after_commit_does_nothing(store: ObjectStore) -> None:
    writer = store.create(PATH)
    writer.sink.write(b"kept")
    writer.commit()
    writer.abort()
    assert get(store, PATH) == b"kept"


def test_missing_objects_are_named(store: ObjectStore) -> None:
    for ask in (store.open_input, store.size):
        with pytest.raises(NotFound, match="nothing-here") as caught:
            ask("data/nothing-here")
        assert caught.value.reason == "FILE_NOT_FOUND"


def test_delete_returns_whether_there_was_something(store: ObjectStore) -> None:
    put(store, PATH, b"x")
    put(store, PATH + ".2", b"y")
    assert store.delete(PATH) is True
    assert paths(store) == [PATH + ".2"]
    store.delete(PATH)


def test_delete_many_leaves_the_others_and_forgives_missing_ones(store: ObjectStore) -> None:
    for name in ("a", "b", "c", "d"):
        put(store, f"data/{name}", b"x")
    store.delete_many(["data/a", "data/c", "data/never"])
    assert paths(store) == ["data/b", "data/d"]
    store.delete_many([])


def test_listing_is_by_folder_and_sorted(store: ObjectStore) -> None:
    for path in ("data/b/1", "data/b/0", "data/bb/0", "data/a/x/y", "other"):
        put(store, path, b"12")
    assert paths(store) == ["data/a/x/y", "data/b/0", "data/b/1", "data/bb/0", "other"]
    assert paths(store, "data/b") == ["data/b/0", "data/b/1"]
    assert paths(store, "data/b/") == ["data/b/0", "data/b/1"]
    assert paths(store, "nowhere") == []
    found = next(store.list_objects("data/b"))
    assert found.size_bytes == 2
    assert found.modified_ms > 1_600_000_000_000


OUTSIDE = ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "a/.", ".hidden", "s3://b/k", "x" * 901]
ODD = ["a b", "a\x00b", "a\nb", "é", "a%2e", "a\\b", "a;b"]


@pytest.mark.parametrize("path", OUTSIDE + ODD)
def test_paths_stay_inside_the_location(store: ObjectStore, path: str) -> None:
    for ask in (store.open_input, store.size, store.create, store.delete):
        with pytest.raises(InvalidArgument, match="is not a path inside a table"):
            ask(path)
    with pytest.raises(InvalidArgument):
        store.delete_many([path])


def test_stores_pickle(store: ObjectStore) -> None:
    if isinstance(store, MemoryStore):
        with pytest.raises(TypeError, match="in this process only"):
            pickle.dumps(store)
        return
    put(store, PATH, b"through a pickle")
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert get(copy, PATH) == b"through a pickle"


def test_location_ends_with_a_slash(store: ObjectStore) -> None:
    assert store.location.endswith("/")


def test_pages_hold_every_object_once(store: ObjectStore) -> None:
    made = {f"data/{number % 3}/f{number}.parquet" for number in range(10)} | {"top.parquet"}
    for path in made:
        put(store, path, path.encode())
    pages = list(store.list_pages(4))
    assert max(len(page) for page in pages) == 4
    found = [each for page in pages for each in page]
    assert sorted(each.path for each in found) == sorted(made)
    assert all(each.size_bytes == len(each.path) and each.modified_ms > 1_700_000_000_000 for each in found)
    # What is listed may be deleted while it goes on.
    for page in store.list_pages(2):
        store.delete_many([each.path for each in page])
    assert list(store.list_pages(4)) == []


def test_only_folders_without_objects_go(store: ObjectStore) -> None:
    put(store, "data/kept/a.parquet", b"a")
    put(store, "data/gone/b.parquet", b"b")
    store.delete("data/gone/b.parquet")
    store.delete_empty_folders()
    assert paths(store) == ["data/kept/a.parquet"]
    put(store, "data/gone/b.parquet", b"c")
    assert get(store, "data/gone/b.parquet") == b"c"
    store.delete_many(paths(store))
    store.delete_empty_folders()
    store.delete_empty_folders()
    put(store, "data/gone/b.parquet", b"d")
    assert get(store, "data/gone/b.parquet") == b"d"
