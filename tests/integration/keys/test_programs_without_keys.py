"""All of lakelog on a real store, where the metastore alone has keys: programs get those of their callers' tables."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import LakelogError, PermissionDenied
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.store import S3Settings
from tests.integration.server.metastore_process import Process, environment
from tests.support.forked import ForkedProcess, preload
from tests.support.s3.seaweedfs import VEND_ROLE, s3_settings

__all__ = ["s3_settings"]

pytestmark = [pytest.mark.slow]
preload("compactor.config", "compactor.wiring")

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
ROLES = {"root": "admin", "worker": "writer", "reader": "user", "stranger": "user"}


def token_of(name: str) -> str:
    return f"{name}-token-0123456789"


@dataclass
class Lake:
    """A metastore that vends keys, and its clients, which have none of their own."""

    metastore: Process
    store: S3Settings
    prefix: str
    folder: Path
    catalogs: list[Catalog] = field(default_factory=list)

    def variables(self, caller: str) -> dict[str, str]:
        """The environment of a caller's programs."""
        return {
            "LAKELOG_TARGET": self.metastore.target,
            "LAKELOG_TOKEN": token_of(caller),
            "LAKELOG_S3_ENDPOINT": str(self.store.endpoint),
            "LAKELOG_S3_REGION": str(self.store.region),
            "LAKELOG_CACHE_DIR": str(self.folder / "cache"),
        }

    def connect(self, caller: str, monkeypatch: pytest.MonkeyPatch) -> Catalog:
        for name, value in self.variables(caller).items():
            monkeypatch.setenv(name, value)
        self.catalogs.append(lakelog.connect())
        return self.catalogs[-1]

    def run(self, caller: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of `lakelog`."""
        return subprocess.run(
            [sys.executable, "-m", "lakelog", *words],
            env=environment(**self.variables(caller)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def count_objects(self) -> int:
        return len(list(S3Store("lake", self.prefix, self.store).list_objects()))

    def vended(self) -> set[tuple[Any, ...]]:
        """Who has got keys for what."""
        lines = [each for each in self.metastore.events() if each["event"] == "keys vended"]
        assert all(each["until"] and each["table_uuid"] for each in lines)
        return {(each["caller"], each["table"], each["access"]) for each in lines}


@pytest.fixture
def lake(s3_settings: S3Settings, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    for name in list(os.environ):
        if name.startswith(("AWS_", "LAKELOG_S3_")):
            # It could give keys to all.
            monkeypatch.delenv(name)
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{name} {role} {token_of(name)}\n" for name, role in ROLES.items()))
    prefix = f"e2e-{uuid.uuid4().hex}"
    metastore = Process(
        migrated_url,
        f"s3://lake/{prefix}",
        *("--token-file", str(tokens), "--vend-role", VEND_ROLE, "--vend-duration", "900"),
        *("--dropped-table-retention", "0"),
        log=tmp_path / "metastore.log",
        LAKELOG_S3_ENDPOINT=str(s3_settings.endpoint),
        LAKELOG_S3_REGION=str(s3_settings.region),
        LAKELOG_S3_ACCESS_KEY_ID=str(s3_settings.access_key_id),
        LAKELOG_S3_SECRET_ACCESS_KEY=str(s3_settings.secret_access_key),
    )
    lake = Lake(metastore, s3_settings, prefix, tmp_path)
    try:
        yield lake
        # Whatever a scenario did: no key and no token is in the log.
        text = metastore.log.read_text()
        assert str(s3_settings.secret_access_key) not in text
        assert not any(token_of(name) in text for name in ROLES)
        assert "eyJ" not in text, "as the store's session tokens begin"
    finally:
        for each in lake.catalogs:
            each.close()
        metastore.end()


def fill(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """The catalog of an admin; `reader` has a grant on the first of two tables."""
    root = lake.connect("root", monkeypatch)
    root.create_database("shop")
    for name in ("orders", "users"):
        table = root.create_table(f"shop.{name}", SCHEMA, primary_key=["id"], options={"bucket": "1"})
        table.upsert(pa.table([[1, 2], [name, name]], schema=SCHEMA))
    root.grants.grant("reader", "shop.orders", to="reader")
    return root


def use_the_command(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lake, monkeypatch)
    done = lake.run("reader", "scan", "shop.orders", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"orders"') == 2
    assert ("reader", "shop.orders", "read") in lake.vended()
    for caller, words in (
        ("reader", ("scan", "shop.users")),
        ("stranger", ("scan", "shop.orders")),
        ("reader", ("sql", "-e", "INSERT INTO shop.orders VALUES (3, 'x')")),
    ):
        done = lake.run(caller, *words)
        assert done.returncode != 0, words
        assert "NO_GRANT" in done.stderr or "grant" in done.stderr, done.stderr
    assert {each for each in lake.vended() if each[0] in ("reader", "stranger")} == {("reader", "shop.orders", "read")}


@contextmanager
def compacting(lake: Lake) -> Iterator[Path]:
    """A compactor with a token and without keys; gives its log."""
    log = lake.folder / "compactor.log"
    compactor = ForkedProcess(
        "compactor",
        ["run", "--lease-seconds", "2"],
        folder=lake.folder,
        environment=environment(**lake.variables("worker")),
        output=log,
    )
    try:
        yield log
    finally:
        compactor.kill()
        compactor.wait()
    text = log.read_text()
    assert "eyJ" not in text
    assert token_of("worker") not in text


def compact(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = fill(lake, monkeypatch).table("shop.orders")
    for number in range(3):
        table.upsert(pa.table([[1], [f"{number}"]], schema=SCHEMA))
    with compacting(lake):
        table.compact(full=True, wait=True, timeout=60)
    assert table.scan(filter="id = 1").to_arrow()["v"].to_pylist() == ["2"]
    assert ("worker", "shop.orders", "write") in lake.vended()


def purge(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fill(lake, monkeypatch)
    assert lake.count_objects()
    for name in ("orders", "users"):
        root.drop_table(f"shop.{name}")
    give_up_s = time.monotonic() + 60
    with compacting(lake) as log:
        while lake.count_objects():
            assert time.monotonic() < give_up_s, log.read_text()
            time.sleep(0.2)
    assert {("worker", "shop.orders", "write"), ("worker", "shop.users", "write")} <= lake.vended()


def take_a_grant_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    root = fill(lake, monkeypatch)
    reader = lake.connect("reader", monkeypatch)
    table = reader.table("shop.orders")
    store, (path, *_) = reader.open_store(table.info), table.files()["path"].to_pylist()
    assert store.size(path) > 0
    root.grants.revoke("shop.orders", from_="reader")
    # Files can be read as long as the keys last, and not longer; what the metastore answers ends at once.
    give_up_s = time.monotonic() + 60
    error: LakelogError | None = None
    while error is None:
        assert time.monotonic() < give_up_s
        try:
            store.size(path)
        except PermissionDenied as refused:
            error = refused
        time.sleep(0.1)
    assert error.reason == "NO_GRANT"
    with pytest.raises(PermissionDenied):
        table.scan().to_arrow()


SCENARIOS: tuple[Callable[[Lake, pytest.MonkeyPatch], None], ...] = (
    use_the_command,
    compact,
    purge,
    take_a_grant_back,
)


@pytest.mark.parametrize("seed", range(len(SCENARIOS)))
def test_programs_without_keys(lake: Lake, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    SCENARIOS[seed](lake, monkeypatch)
