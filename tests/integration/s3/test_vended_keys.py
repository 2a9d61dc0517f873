"""Vended keys on a real store: they reach as far as their caller's grants, and end."""

from __future__ import annotations

import dataclasses
import json
import pickle
import time
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyarrow import fs

from lakelog.clock import RandomIds
from lakelog.errors import InvalidArgument, NotFound, PermissionDenied
from lakelog.format.tables.credentials import StoreCredentials
from lakelog.storage.objects import s3
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.s3_keys import VendedKeys
from lakelog.storage.objects.store import ObjectStore, S3Settings
from metastore.credentials.opening import check_vending
from metastore.credentials.token_service import SessionKeys
from metastore.credentials.vending import VendSettings
from tests.integration.s3.vended import Lake, make_vend, open_files, open_lake
from tests.support.s3.faults import Refused, Rule
from tests.support.s3.proxy import S3Proxy
from tests.support.s3.seaweedfs import SESSION_S


@pytest.fixture(scope="module")
def lake(s3_settings: S3Settings) -> Iterator[Lake]:
    with open_lake(s3_settings) as opened:
        yield opened


def file_of(lake: Lake, name: str) -> str:
    """Bucket and key of a file of a table."""
    table = lake.catalog("root").table(name)
    return table.info.location.removeprefix("s3://") + table.files()["path"][0].as_py()


def is_denied(work: Callable[[], object]) -> bool:
    try:
        work()
    except OSError as error:
        if "ACCESS_DENIED" not in str(error):
            raise
        return True
    return False


def write(files: fs.S3FileSystem, key: str, size: int = 2) -> None:
    with files.open_output_stream(key) as sink:
        sink.write(b"x" * size)


def vend(lake: Lake, caller: str, table: str, *, writes: bool = False) -> StoreCredentials:
    metastore = lake.metastore(caller)
    table_uuid = lake.catalog("root").table(table).info.table_uuid
    found = (metastore.vend_write_credentials if writes else metastore.vend_read_credentials)(table_uuid)
    assert found is not None
    return found


def test_a_readers_keys_read_its_table_and_nothing_else_and_end(lake: Lake) -> None:
    own, other = file_of(lake, "shop.orders"), file_of(lake, "shop.users")
    keys = vend(lake, "reader", "shop.orders")
    ends_at_s = time.monotonic() + keys.valid_ms / 1000
    assert keys.valid_ms <= SESSION_S * 1000
    files = open_files(lake, keys)
    assert files.open_input_file(own).size() > 0
    folder = own.partition("/data/")[0]
    assert [each.path for each in files.get_file_info(fs.FileSelector(folder, recursive=True)) if each.size] == [own]
    denied: list[Callable[[], object]] = [
        lambda: files.open_input_file(other),
        lambda: files.get_file_info(fs.FileSelector(other.partition("/data/")[0], recursive=True)),
        lambda: files.get_file_info(fs.FileSelector("lake")),
        lambda: files.open_input_file(f"{folder}/../{other.split('/', 2)[2]}"),
        lambda: files.copy_file(other, f"{folder}/stolen"),
        lambda: write(files, f"{folder}/data/new"),
        lambda: write(files, f"{folder}/data/large", 12 << 20),
        lambda: files.delete_file(own),
        lambda: write(files, other),
    ]
    assert [number for number, work in enumerate(denied) if not is_denied(work)] == []
    # Then they end, by the store's own clock. A read that began before goes on with new ones.
    catalog = lake.catalog("reader")
    store = catalog.open_store(catalog.table("shop.orders").info)
    with store.open_input(own.partition(f"{folder}/")[2]) as source:
        first = source.read()
        while not is_denied(lambda: files.get_file_info(own)):
            assert time.monotonic() < ends_at_s + 30, "they go on after their time"
            source.seek(0)
            assert source.read() == first
            time.sleep(0.1)
        source.seek(0)
        assert source.read() == first
    assert is_denied(lambda: files.open_input_file(own))
    # Its first ones are as old as those that have ended.
    assert len([each for each in lake.vended if each.caller == "reader"]) > 2
    check_pickled(store)


def check_pickled(store: ObjectStore) -> None:
    pickled = pickle.dumps(store)
    assert isinstance(store, S3Store)
    assert isinstance(store._keys, VendedKeys)
    secrets = [each.settings.secret_access_key for each in store._keys._held.values()]
    assert secrets
    assert not any(str(secret).encode() in pickled for secret in secrets)
    copy: ObjectStore = pickle.loads(pickled)
    assert list(copy.list_objects()) == list(store.list_objects())


def test_a_writers_keys_write_and_delete_in_its_table_alone(lake: Lake) -> None:
    own, other = file_of(lake, "shop.orders"), file_of(lake, "shop.users")
    files = open_files(lake, vend(lake, "writer", "shop.orders", writes=True))
    folder = own.partition("/data/")[0]
    for size in (2, 12 << 20):
        write(files, f"{folder}/data/new", size)
        assert files.open_input_file(f"{folder}/data/new").size() == size
        files.delete_file(f"{folder}/data/new")
    denied: list[Callable[[], object]] = [
        lambda: files.open_input_file(other),
        lambda: write(files, other),
        lambda: files.delete_file(other),
        lambda: files.copy_file(own, other),
        lambda: files.copy_file(other, f"{folder}/data/stolen"),
        lambda: write(files, f"{folder}0/data/new"),
    ]
    assert [number for number, work in enumerate(denied) if not is_denied(work)] == []


@pytest.mark.parametrize(("caller", "level"), [("stranger", "reader"), ("stranger", "writer"), ("reader", "writer")])
def test_without_the_grant_there_are_no_keys(lake: Lake, caller: str, level: str) -> None:
    before = len(lake.vended)
    with pytest.raises(PermissionDenied) as caught:
        vend(lake, caller, "shop.orders", writes=level == "writer")
    assert caught.value.reason == "NO_GRANT"
    with pytest.raises(PermissionDenied):
        vend(lake, caller, "shop.users")
    assert lake.vended[before:] == []


def test_clients_without_keys_read_and_write_and_each_access_is_noted(lake: Lake) -> None:
    lake.catalog("writer").table("shop.orders").append(pa.table({"id": [2], "v": ["more"]}))
    before = len(lake.vended)
    table = lake.catalog("reader").table("shop.orders")
    assert set(table.scan().to_arrow()["v"].to_pylist()) >= {"orders", "more"}
    assert {(each.caller, each.table, each.access) for each in lake.vended[before:]} == {
        ("reader", "shop.orders", "read")
    }
    assert all(0 < each.expires_at_ms - time.time() * 1000 <= SESSION_S * 1000 for each in lake.vended[before:])
    with pytest.raises(PermissionDenied):
        lake.catalog("reader").table("shop.orders").append(pa.table({"id": [3], "v": ["no"]}))


def test_control_a_client_that_uses_no_vended_keys_is_refused(lake: Lake) -> None:
    table = lake.catalog("reader").table("shop.orders")
    bucket, prefix = table.info.location.removeprefix("s3://").split("/", 1)
    store = S3Store(bucket, prefix.rstrip("/"), _wrong(lake.store))
    with pytest.raises(PermissionDenied):
        list(store.list_objects())


def _wrong(store: S3Settings) -> S3Settings:
    return dataclasses.replace(store, access_key_id="lake", secret_access_key="wrong-secret-0123456789")


def test_a_missing_object_is_not_found_where_the_store_says_access_denied(lake: Lake, s3_settings: S3Settings) -> None:
    """As Amazon does, if the keys may list only a folder: a server before the real one answers so."""
    with S3Proxy(str(s3_settings.endpoint)) as proxy:
        store = S3Store("lake", uuid.uuid4().hex, dataclasses.replace(s3_settings, endpoint=proxy.endpoint, attempts=1))
        proxy.strike(Rule(Refused(403, "AccessDenied"), methods="HEAD", target="missing"))
        for work in (lambda: store.size("data/missing"), lambda: store.open_input("data/missing")):
            with pytest.raises(NotFound):
                work()
        assert store.delete("data/missing") is False
        writer = store.create("data/missing")
        writer.sink.write(b"x")
        writer.commit()
        # It is there now, and what is refused is refused.
        with pytest.raises(PermissionDenied):
            store.size("data/missing")
        with pytest.raises(PermissionDenied):
            store.create("data/missing")


def test_a_new_object_costs_no_keys_and_no_listing_of_its_folder(lake: Lake, s3_settings: S3Settings) -> None:
    table = lake.catalog("root").table("shop.orders").info
    bucket, _, prefix = table.location.removeprefix("s3://").strip("/").partition("/")
    with S3Proxy(str(s3_settings.endpoint)) as proxy:
        settings = dataclasses.replace(s3_settings, endpoint=proxy.endpoint, attempts=1)
        store = S3Store(bucket, prefix, settings, VendedKeys(lake.metastore("writer"), table.table_uuid, settings))
        before = len(lake.vended)
        proxy.strike(Rule(Refused(403, "AccessDenied"), methods="HEAD", target="data/new"))
        for number in range(3):
            writer = store.create(f"data/new/{number}")
            writer.sink.write(b"x")
            writer.commit()
        listed = [each.target for each in proxy.requests if each.method == "GET" and "prefix=" in each.target]
        assert [f"{number}%2F&" in target + "&" for number, target in enumerate(listed)] == [True] * 3, listed
        assert len(lake.vended) == before + 1
        # The control: where it matters whether the object exists, the folder is listed.
        with pytest.raises(PermissionDenied):
            store.size("data/new/0")
    files = open_files(lake, vend(lake, "writer", "shop.orders", writes=True))
    for number in range(3):
        files.delete_file(f"{bucket}/{prefix}/data/new/{number}")


def test_control_without_the_listing_a_missing_object_is_refused(
    s3_settings: S3Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3.S3Store, "_is_missing", lambda *_, **__: False)
    with S3Proxy(str(s3_settings.endpoint)) as proxy:
        store = S3Store("lake", uuid.uuid4().hex, dataclasses.replace(s3_settings, endpoint=proxy.endpoint, attempts=1))
        proxy.strike(Rule(Refused(403, "AccessDenied"), methods="HEAD", target="missing"))
        with pytest.raises(PermissionDenied):
            store.create("data/missing")


def test_the_check_at_the_start_passes_on_a_store_that_enforces_policies(s3_settings: S3Settings) -> None:
    warehouse = f"s3://lake/{uuid.uuid4().hex}"
    check_vending(make_vend(s3_settings, warehouse), warehouse, s3_settings, RandomIds())
    # It leaves nothing.
    assert list(S3Store("lake", warehouse.removeprefix("s3://lake/"), s3_settings).list_objects()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("none", "keys for reading one folder can write to their folder"),
        ("wide", "keys for reading one folder can read another folder"),
        ("lists", "keys for reading one folder can list another folder"),
        ("narrow", "Keys that the store vends for reading cannot read their folder"),
    ],
)
def test_the_check_at_the_start_refuses_a_store_that_does_not(s3_settings: S3Settings, change: str, said: str) -> None:
    """The store as it would be if it took a policy and enforced another one, or none."""
    warehouse = f"s3://lake/{uuid.uuid4().hex}"
    vend = make_vend(s3_settings, warehouse)

    class Lax:
        def request_keys(self, session: str, policy: str) -> SessionKeys:
            found = json.loads(policy)
            files, listing = found["Statement"]
            if change == "none":
                files["Action"], listing["Resource"] = ["s3:*"], ["arn:aws:s3:::*"]
            if change == "wide":
                files["Resource"] = ["arn:aws:s3:::lake/*"]
            if change == "lists":
                del listing["Condition"]
            if change == "narrow":
                found["Statement"] = [listing]
            return vend.source.request_keys(session, json.dumps(found))

    with pytest.raises(InvalidArgument) as caught:
        check_vending(VendSettings(Lax(), "aws", 900, warehouse), warehouse, s3_settings, RandomIds())
    assert said in caught.value.message
    assert list(S3Store("lake", warehouse.removeprefix("s3://lake/"), s3_settings).list_objects()) == []
