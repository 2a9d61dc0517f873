"""Listings and deletes of local tables never leave the table's folder, whatever symbolic links are in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import PermissionDenied
from lakelog.storage.objects import local_folders
from lakelog.storage.objects.local import LocalStore
from lakelog.storage.objects.local_folders import LINK_NOT_FOLLOWED

FILE = "data/attempt/a.parquet"

LINKS = ["", "data", "data/attempt"]
"""What is replaced by a link: the table's folder, one in it, one below that."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Files of someone else, under the very names that the table has."""
    folder = tmp_path / "outside"
    for path in (FILE, "attempt/a.parquet", "a.parquet"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"theirs")
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    (tmp_path / "elsewhere").mkdir()
    # The warehouse itself may be a link.
    (tmp_path / "warehouse").symlink_to(tmp_path / "elsewhere")
    store = LocalStore(str(tmp_path / "warehouse" / "table"))
    for path in (FILE, "data/other/b.parquet"):
        writer = store.create(path)
        writer.sink.write(b"ours")
        writer.commit()
    return store


def plant(store: LocalStore, at: str, outside: Path) -> Path:
    """Puts a link to the files outside in the place of a folder, or of a file."""
    place = store._root / at
    place.rename(f"{place}.moved")
    place.symlink_to(outside)
    return place


def snapshot(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


OPERATIONS: dict[str, Callable[[LocalStore], Any]] = {
    "delete": lambda store: store.delete(FILE),
    "delete_many": lambda store: store.delete_many([FILE]),
    "list_objects": lambda store: list(store.list_objects("data/attempt")),
    "list_pages": lambda store: [each for page in store.list_pages(10) for each in page],
    "delete_empty_folders": lambda store: store.delete_empty_folders(),
}


def test_a_warehouse_that_is_a_link_makes_no_difference(store: LocalStore) -> None:
    assert [each.path for each in store.list_objects()] == [FILE, "data/other/b.parquet"]
    assert [(each.path, each.is_link) for each in store.list_objects("data/attempt")] == [(FILE, False)]
    store.delete_many([FILE])
    assert store.delete("data/other/b.parquet")
    store.delete_empty_folders()
    assert not store._root.exists()


def _is_refused(link: str, operation: str) -> bool:
    """The other operations find the link itself, and leave it."""
    if operation.startswith("delete") and operation != "delete_empty_folders":
        return True
    return not link if operation != "list_objects" else link != "data/attempt"


@pytest.mark.parametrize("operation", list(OPERATIONS))
@pytest.mark.parametrize("link", LINKS)
def test_nothing_behind_a_link_is_deleted_or_listed(
    store: LocalStore, outside: Path, link: str, operation: str
) -> None:
    before = snapshot(outside)
    place = plant(store, link, outside)
    found: list[Any] = []
    if _is_refused(link, operation):
        with pytest.raises(PermissionDenied, match=f"{place} is a symbolic link") as error:
            OPERATIONS[operation](store)
        assert error.value.reason == LINK_NOT_FOLLOWED
    else:
        found = OPERATIONS[operation](store)
    assert snapshot(outside) == before
    assert place.is_symlink()
    listed = {each.path: each.is_link for each in found} if operation.startswith("list") else {}
    assert all(is_link == (path == link) for path, is_link in listed.items() if path.startswith(link))
    if link and operation == "list_pages":
        assert listed[link], "the link itself is reported"


@pytest.mark.parametrize("link", LINKS)
def test_control_where_links_are_followed_files_outside_are_deleted(
    store: LocalStore, outside: Path, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_folders, "_FOLDER", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    before = snapshot(outside)
    plant(store, link, outside)
    store.delete_many([FILE])
    assert len(snapshot(outside)) < len(before)


def test_a_link_in_the_place_of_a_file_goes_alone(store: LocalStore, outside: Path) -> None:
    target = outside / "a.parquet"
    for place in (FILE, "data/attempt/folder"):
        (store._root / place).unlink(missing_ok=True)
        (store._root / place).symlink_to(target if place == FILE else outside)
    found = {each.path: each.is_link for each in store.list_objects("data/attempt")}
    assert found == {FILE: True, "data/attempt/folder": True}
    store.delete_many(list(found))
    assert not (store._root / "data/attempt").exists()
    assert target.read_bytes() == b"theirs"


def test_an_attempts_folder_that_is_a_link_is_listed_and_deleted_as_that_link(store: LocalStore, outside: Path) -> None:
    before = snapshot(outside)
    place = plant(store, "data/attempt", outside)
    (found,) = store.list_objects("data/attempt")
    assert (found.path, found.is_link) == ("data/attempt", True)
    store.delete_many([found.path])
    assert not place.is_symlink()
    assert snapshot(outside) == before


def swap_folder_before_unlink(store: LocalStore, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone puts a link in the place of the folder after it was checked and opened, before the file is removed."""
    unlink = os.unlink
    swapped: list[Path] = []

    def swap(path: Any, *args: Any, **more: Any) -> None:
        if not swapped:
            swapped.append(plant(store, "data/attempt", outside))
        unlink(path, *args, **more)

    monkeypatch.setattr(os, "unlink", swap)


def test_a_link_that_comes_between_check_and_delete_changes_nothing(
    store: LocalStore, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(outside)
    swap_folder_before_unlink(store, outside, monkeypatch)
    store.delete_many([FILE])
    assert snapshot(outside) == before
    assert not (store._root / "data/attempt.moved/a.parquet").exists(), "the file of the folder that was opened"


def test_control_who_checks_and_then_deletes_by_path_deletes_outside(
    store: LocalStore, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(outside)
    swap_folder_before_unlink(store, outside, monkeypatch)
    target = store._root / FILE
    assert os.path.realpath(target.parent) == os.path.realpath(store._root) + "/data/attempt"
    os.unlink(target)
    assert len(snapshot(outside)) < len(before)


def test_a_writer_that_gives_up_deletes_nothing_outside(store: LocalStore, outside: Path) -> None:
    before = snapshot(outside)
    writer = store.create("data/third/a.parquet")
    plant(store, "data/third", outside)
    writer.abort()
    assert snapshot(outside) == before


def test_one_refusal_does_not_keep_the_other_files(store: LocalStore, outside: Path) -> None:
    plant(store, "data/attempt", outside)
    with pytest.raises(PermissionDenied):
        store.delete_many([FILE, "data/other/b.parquet"])
    assert not (store._root / "data/other").exists()


def test_reads_follow_links(store: LocalStore, outside: Path) -> None:
    """An operator may put files elsewhere; what is read names its own path inside (`file_metadata`)."""
    plant(store, "data/attempt", outside)
    assert store.open_input(FILE).read() == b"theirs"
    assert store.size(FILE) == 6
