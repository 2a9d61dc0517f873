"""When a client requests keys of the object store, for what, and what becomes of them if that fails."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyarrow import fs

from lakelog.clock import SystemClock
from lakelog.config import read_s3_settings
from lakelog.errors import InvalidArgument, LakelogError, NotFound, PermissionDenied, Unavailable
from lakelog.format.tables.credentials import StoreCredentials
from lakelog.storage.objects import s3_keys
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.s3_keys import OwnKeys, VendedKeys
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import LocationStores, open_store

UUID = "0123456789abcdef" * 2
LOCATION = f"s3://lake/w/{UUID}/"
ENDPOINT = S3Settings(endpoint="http://127.0.0.1:1", attempts=1)
LOST = Unavailable("The metastore does not answer.")
TAKEN_BACK = PermissionDenied("It has no grant.")
VALID_S = 1000


class HandClock(SystemClock):
    """Goes on when a test says so."""

    def __init__(self) -> None:
        self.at_s = 5000.0

    def monotonic_s(self) -> float:
        return self.at_s


class Vendor:
    """Vends keys with a number."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refused: list[str] = []
        self.error: LakelogError | None = None
        self.vends = True
        self.before: Callable[[], object] = lambda: None

    def _vend(self, access: str, table_uuid: str, refused_key_id: str) -> StoreCredentials | None:
        assert table_uuid == UUID
        self.asked.append(access)
        self.refused.append(refused_key_id)
        self.before()
        if self.error is not None:
            raise self.error
        number = len(self.asked)
        return StoreCredentials(f"id-{number}", f"secret-{number}", "t", 0, VALID_S * 1000) if self.vends else None

    def vend_read_credentials(self, table_uuid: str, *, refused_key_id: str = "") -> StoreCredentials | None:
        return self._vend("read", table_uuid, refused_key_id)

    def vend_write_credentials(self, table_uuid: str, *, refused_key_id: str = "") -> StoreCredentials | None:
        return self._vend("write", table_uuid, refused_key_id)


class World:
    def __init__(self, settings: S3Settings = ENDPOINT, drawn: float = 0.5) -> None:
        self.clock, self.vendor = HandClock(), Vendor()
        self.keys = VendedKeys(self.vendor, UUID, settings, clock=self.clock, rng=lambda: drawn)

    def read(self) -> str | None:
        return self.keys.find().settings.access_key_id

    def write(self) -> str | None:
        return self.keys.find(writes=True).settings.access_key_id


def test_reads_take_keys_for_reading_and_only_writes_ask_for_more() -> None:
    world = World()
    assert [world.read(), world.read(), world.write(), world.write()] == ["id-1", "id-1", "id-2", "id-2"]
    assert world.vendor.asked == ["read", "write"]
    # A writer needs no keys for reading.
    writer = World()
    assert [writer.write(), writer.read()] == ["id-1", "id-1"]
    assert writer.vendor.asked == ["write"]


def test_keys_are_renewed_in_the_middle_of_their_time() -> None:
    world = World()
    first = world.keys.find()
    assert first.filesystem is first.filesystem
    world.clock.at_s += 499
    assert world.keys.find() is first
    world.clock.at_s += 2
    assert world.read() == "id-2"
    assert world.keys.find().filesystem is not first.filesystem
    # The store has refused none.
    assert world.vendor.refused == ["", ""]


def test_the_time_of_the_renewal_is_drawn() -> None:
    for drawn, after_s in ((0.0, 400), (0.999, 599)):
        world = World(drawn=drawn)
        world.read()
        world.clock.at_s += after_s - 1
        assert world.read() == "id-1"
        world.clock.at_s += 2
        assert world.read() == "id-2"


def test_while_the_metastore_is_lost_keys_are_used_as_long_as_they_last() -> None:
    world = World()
    world.read()
    world.clock.at_s += 600
    world.vendor.error = LOST
    assert [world.read(), world.read()] == ["id-1", "id-1"]
    # It is asked again after a pause, not with each request.
    assert len(world.vendor.asked) == 2
    world.clock.at_s += 10
    assert world.read() == "id-1"
    assert len(world.vendor.asked) == 3
    world.clock.at_s += VALID_S - 610
    with pytest.raises(Unavailable):
        world.read()
    world.vendor.error = None
    assert world.read() == "id-5"


def test_a_grant_that_was_taken_back_ends_the_use_of_keys_at_their_renewal() -> None:
    world = World()
    world.read()
    world.vendor.error = TAKEN_BACK
    assert world.read() == "id-1"
    world.clock.at_s += 600
    with pytest.raises(PermissionDenied):
        world.read()


def test_one_thread_renews_and_others_do_not_wait_for_it() -> None:
    world = World()
    world.read()
    world.clock.at_s += 600
    began, go = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        go.wait(10)

    world.vendor.before = hold
    renewing = threading.Thread(target=world.read)
    renewing.start()
    assert began.wait(10)
    assert world.read() == "id-1"
    go.set()
    renewing.join()
    assert world.read() == "id-2"
    assert len(world.vendor.asked) == 2


def test_many_threads_without_keys_make_one_request() -> None:
    world = World()
    barrier = threading.Barrier(8)
    found: list[str | None] = []

    def work() -> None:
        barrier.wait()
        found.append(world.read())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (found, world.vendor.asked) == (["id-1"] * 8, ["read"])


def test_keys_that_a_store_refuses_are_left_out_unless_they_are_young() -> None:
    world = World()
    first = world.keys.find()
    assert world.keys.drop(first) is False
    assert world.keys.find() is first
    world.clock.at_s += 31
    assert world.keys.drop(first) is True
    assert world.read() == "id-2"
    # The metastore is asked for others than those, which it may have kept.
    assert world.vendor.refused == ["", "id-1"]
    # Keys that another thread has replaced are no reason to replace theirs.
    assert world.keys.drop(first) is True
    assert world.read() == "id-2"


def test_a_refused_call_is_made_once_more_with_new_keys() -> None:
    world = World()
    store = S3Store("lake", f"w/{UUID}", ENDPOINT, world.keys)
    used: list[Any] = []

    def work(filesystem: object) -> str:
        used.append(filesystem)
        if len(used) == 1:
            world.clock.at_s += 31
            raise OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body.")
        return "done"

    assert store._ask("lake/x", work) == "done"
    assert used[0] is not used[1]
    assert world.vendor.asked == ["read", "read"]
    # The control: keys of the process itself have no successors.
    used.clear()
    with pytest.raises(PermissionDenied):
        S3Store("lake", "w", ENDPOINT)._ask("lake/x", work)


DENIED = "AWS Error ACCESS_DENIED during HeadObject operation: No response body."


@pytest.mark.parametrize(("is_revoked", "vends"), [(False, 1), (True, 2)])
def test_a_refusal_of_a_missing_object_costs_no_keys(
    is_revoked: bool, vends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    store = S3Store("lake", f"w/{UUID}", ENDPOINT, world.keys)
    listed: list[str] = []

    class Files:
        """As Amazon answers keys that list one folder."""

        def __init__(self, settings: S3Settings) -> None:
            self._works = not is_revoked or settings.access_key_id != "id-1"

        def get_file_info(self, what: str | fs.FileSelector) -> list[fs.FileInfo]:
            if isinstance(what, str) or not self._works:
                raise OSError(DENIED)
            listed.append(what.base_dir)
            return []

    monkeypatch.setattr(s3_keys, "_make_filesystem", Files)
    world.write()
    for number in range(3):
        world.clock.at_s += 40
        assert store._exists(store._key(f"data/{number}")) is False
    # The control: keys that the store does not accept at all are replaced.
    assert len(world.vendor.asked) == vends
    # Only what is below the object's name is listed.
    assert listed == [f"lake/w/{UUID}/data/{number}" for number in range(3)]


def test_whether_an_object_exists_is_looked_up_in_its_folder_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    store = S3Store("lake", f"w/{UUID}", ENDPOINT, world.keys)
    there = f"lake/w/{UUID}/data/there"

    class Files:
        def __init__(self, _: S3Settings) -> None:
            pass

        def get_file_info(self, what: str | fs.FileSelector) -> list[fs.FileInfo]:
            if isinstance(what, str):
                raise OSError(DENIED)
            assert what.base_dir == f"lake/w/{UUID}/data"
            return [fs.FileInfo(there, fs.FileType.File)]

    monkeypatch.setattr(s3_keys, "_make_filesystem", Files)
    world.read()
    world.clock.at_s += 40
    with pytest.raises(PermissionDenied):
        store.size("data/there")
    with pytest.raises(NotFound):
        store.size("data/missing")
    assert world.vendor.asked == ["read"]


@pytest.mark.parametrize("error", [None, InvalidArgument("It knows no such method.", reason="WRONG_TARGET")])
def test_without_vended_keys_the_clients_own_way_is_used(error: LakelogError | None) -> None:
    world = World()
    world.vendor.vends, world.vendor.error = False, error
    assert world.keys.find().settings is ENDPOINT
    assert world.keys.find(writes=True).settings is ENDPOINT
    world.clock.at_s += 599
    assert world.read() is None
    assert world.vendor.asked == ["read", "write"]
    # Later it may vend some.
    world.clock.at_s += 2
    world.vendor.vends, world.vendor.error = True, None
    assert world.read() == "id-3"
    demanding = World(read_s3_settings({"LAKELOG_S3_CREDENTIALS": "vended"}))
    demanding.vendor.vends = False
    with pytest.raises(InvalidArgument, match="vends no keys for the files of the table"):
        demanding.read()


def test_other_errors_of_the_metastore_are_raised() -> None:
    world = World()
    world.vendor.error = InvalidArgument("Wrong.")
    with pytest.raises(InvalidArgument):
        world.read()


@pytest.mark.parametrize(
    ("environment", "location", "is_vended"),
    [
        ({}, LOCATION, True),
        ({"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"}, LOCATION, False),
        ({"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s", "LAKELOG_S3_CREDENTIALS": "vended"}, LOCATION, True),
        ({"LAKELOG_S3_CREDENTIALS": "own"}, LOCATION, False),
        ({"LAKELOG_S3_CREDENTIALS": "vended"}, "s3://lake/sources/", False),
        ({}, f"{LOCATION}?region=eu-west-1", True),
    ],
)
def test_which_locations_have_vended_keys(environment: dict[str, str], location: str, is_vended: bool) -> None:
    store = open_store(location, read_s3_settings(environment), Vendor())
    assert isinstance(store, S3Store)
    assert isinstance(store._keys, VendedKeys if is_vended else OwnKeys)
    alone = open_store(location, read_s3_settings(environment))
    assert isinstance(alone, S3Store)
    assert isinstance(alone._keys, OwnKeys)


def test_a_wrong_choice_of_keys_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="set own, vended or auto"):
        read_s3_settings({"LAKELOG_S3_CREDENTIALS": "yes"})


class PickledVendor(Vendor):
    """Stands for a metastore, which pickles as its address."""

    def __reduce__(self) -> tuple[object, ...]:
        return (PickledVendor, ())


def test_stores_pickle_without_keys() -> None:
    stores = LocationStores(ENDPOINT, PickledVendor())
    store = stores.open(LOCATION)
    assert isinstance(store, S3Store)
    keys = store._keys.find(writes=True)
    assert keys.settings.secret_access_key == "secret-1"
    for each in (store, stores):
        assert b"secret-1" not in pickle.dumps(each)
        assert "secret-1" not in repr(each) + repr(keys)
    again = pickle.loads(pickle.dumps(store))
    assert again._keys.find().settings.secret_access_key == "secret-1", "the copy has requested its own"
    vended = Vendor().vend_read_credentials(UUID)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="each process requests its own"):
            copied(vended)
