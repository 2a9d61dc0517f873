"""One rule for paths: what the gate takes, stores can hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakelog.errors import InvalidArgument, LakelogError, Unavailable
from lakelog.format.tables.paths import MAX_PATH_LENGTH, find_clash, is_path
from lakelog.storage.objects.local import LocalStore
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.store import ObjectStore, S3Settings

ATTEMPT = "0123456789abcdef" * 2
FOLDER = f"data/{ATTEMPT}/"

ODD = [
    *("a" * 255, "a" * 256, "-x", ".x", "..", ".", "", "a b", "a%2e", "a?b", "a#b", "a\\b", "a\n", "\x00", "=x", "a="),
    *("\xe4", "a\u0301", "CON", "~", "*", "$HOME", "a:b", "\u202ea", "a..b"),
]
PARTS = st.text(st.sampled_from("aZ09_.=-"), min_size=1, max_size=8) | st.sampled_from(ODD)
PATHS = st.lists(PARTS, min_size=1, max_size=5).map(lambda parts: FOLDER + "/".join(parts))


def put(store: ObjectStore, path: str) -> None:
    writer = store.create(path)
    writer.sink.write(b"x")
    writer.commit()


def takes(store: ObjectStore, path: str) -> bool:
    """Whether a store writes, finds, reads and deletes a file of this path."""
    try:
        put(store, path)
        with store.open_input(path) as source:
            assert source.read() == b"x"
        assert store.size(path) == 1
        assert [found.path for found in store.list_objects()] == [path]
        assert store.delete(path)
        assert not store.delete(path)
    except LakelogError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(PATHS)
@example(FOLDER + "-x.parquet")
@example(FOLDER + "x" * (MAX_PATH_LENGTH - len(FOLDER)))
@example((FOLDER + "/".join(["y" * 200] * 4) + "/" + "z" * 200)[:MAX_PATH_LENGTH])
@example((FOLDER + "/".join(["y" * 200] * 4) + "/" + "z" * 200)[: MAX_PATH_LENGTH + 1])
@example("/etc/passwd")
@example("s3://other/x")
@example("data//x")
@example("data/x/")
@example("")
def test_stores_take_exactly_what_the_rule_takes(path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for store in (LocalStore(f"{folder}/table"), MemoryStore()):
            assert takes(store, path) is is_path(path)
        assert not [found for found in Path(folder).rglob("*") if found.is_file()]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        PATHS.filter(is_path) | st.sampled_from([FOLDER + each for each in ("a", "A", "a/b", "a/B", "b")]), max_size=6
    )
)
def test_files_without_a_clash_can_be_there_together_even_where_case_does_not_count(paths: list[str]) -> None:
    clash = find_clash(paths)
    if clash is not None:
        assert set(clash) <= set(paths)
        assert clash[0] != clash[1]
        return
    assert len({path.lower() for path in paths}) == len(set(paths))
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(f"{folder}/table")
        for path in set(paths):
            put(store, path.lower())


@pytest.mark.parametrize(
    ("paths", "clash"),
    [
        (["a/A", "a/a"], True),
        (["data/x/a", "data/x/a/b"], True),
        (["data/x/a", "data/x/A/b"], True),
        (["data/x/a", "data/x/ab/b"], False),
        (["data/x/a", "data/x/a"], False),
    ],
)
def test_a_file_is_no_folder_and_case_distinguishes_nothing(paths: list[str], clash: bool) -> None:
    assert (find_clash(paths) is not None) is clash
    assert (find_clash(paths[::-1]) is not None) is clash


def test_a_key_that_s3_does_not_take_is_refused_before_s3_is_asked() -> None:
    longest = ("x" * 224 + "/") * 3 + "x" * 225
    assert len(longest) == MAX_PATH_LENGTH
    store = S3Store("lake", "p" * 124, S3Settings(endpoint="http://127.0.0.1:1"))
    with pytest.raises(InvalidArgument, match="more than 1024 bytes"):
        store.size(longest)
    with pytest.raises(Unavailable):
        S3Store("lake", "p" * 123, S3Settings(endpoint="http://127.0.0.1:1", attempts=1)).size(longest)
