"""Deleting many files where some cannot be deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.errors import DataCorrupted, NotFound, PermissionDenied, Unavailable
from lakelog.storage.objects.deleting import MAX_SILENT, delete_files
from lakelog.storage.objects.local import LocalStore
from lakelog.storage.objects.memory import MemoryStore
from lakelog.testing.faulty_store import FaultyStore
from metastore.server.startup import StartupFailure, check_warehouse

PATHS = [f"data/{name}" for name in "abcdef"]


class Refusing(MemoryStore):
    """A store that answers some deletions with an error."""

    def __init__(self, errors: dict[str, Exception]) -> None:
        super().__init__()
        self.errors = errors
        self.asked: list[str] = []
        for path in PATHS:
            writer = self.create(path)
            writer.sink.write(b"x")
            writer.commit()

    def delete(self, path: str) -> bool:
        self.asked.append(path)
        if path in self.errors:
            raise self.errors[path]
        return super().delete(path)


def test_all_go_at_once_where_nothing_is_wrong() -> None:
    store = Refusing({})
    assert delete_files(store, [*PATHS, "data/missing"]) == []
    assert store.asked == [*PATHS, "data/missing"]
    assert list(store.list_objects()) == []
    assert delete_files(store, []) == []


def test_refused_files_keep_no_others() -> None:
    store = Refusing({"data/b": PermissionDenied("No right to delete data/b."), "data/d": Unavailable("d is silent.")})
    left = delete_files(store, ["-x", *PATHS, "x" * 901])
    assert [(each.path, each.reason) for each in left] == [
        ("-x", "No store takes such a path."),
        ("x" * 901, "No store takes such a path."),
        ("data/b", "No right to delete data/b."),
        ("data/d", "d is silent."),
    ]
    assert [each.path for each in store.list_objects()] == ["data/b", "data/d"]


def test_a_store_that_is_away_is_not_asked_for_each_file() -> None:
    store = Refusing(dict.fromkeys(PATHS, Unavailable("The store is away.")))
    with pytest.raises(Unavailable, match="is away"):
        delete_files(store, PATHS)
    assert len(store.asked) == MAX_SILENT + 1


def test_a_store_that_goes_away_meanwhile_ends_it() -> None:
    store = FaultyStore(Refusing({"data/a": PermissionDenied("No right to delete data/a.")}))
    store.fail_at("delete", 4)
    with pytest.raises(Unavailable):
        delete_files(store, PATHS)


def test_the_first_refusal_of_a_folder_keeps_none_of_its_other_files(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    (tmp_path / "data" / "b").mkdir(parents=True)
    for name in ("data/a", "data/c", "other/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataCorrupted, match="data/b is a folder, where a file was expected"):
        store.delete_many(["data/a", "data/b", "data/c", "other/d"])
    assert [each.path for each in store.list_objects()] == []
    assert (tmp_path / "data" / "b").is_dir()


def test_a_folder_in_a_files_place_is_named_and_below_a_file_there_is_none(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    (tmp_path / "data" / "folder").mkdir(parents=True)
    (tmp_path / "data" / "folder" / "x").write_bytes(b"x")
    with pytest.raises(DataCorrupted, match="data/folder is a folder, where a file was expected"):
        store.delete("data/folder")
    (left,) = delete_files(store, ["data/folder", "data/folder/x/y"])
    assert left.path == "data/folder"
    assert store.delete("data/folder/x/y") is False
    with pytest.raises(NotFound):
        store.open_input("data/folder/x/y")


def test_a_warehouse_leaves_room_for_paths_in_the_keys_of_s3() -> None:
    with pytest.raises(StartupFailure, match="a prefix of 91 bytes, and 90 are possible"):
        check_warehouse(f"s3://lake/{'p' * 91}")
