"""A metastore behind its gRPC server that vends keys of a real store, with callers of every kind."""

from __future__ import annotations

import dataclasses
import hashlib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import fs

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.format.tables.credentials import StoreCredentials
from lakelog.format.tables.grant import GrantLevel
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access, Caller, Role, TokenEntry
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import LocationStores
from metastore.credentials.opening import open_vending
from metastore.credentials.vending import Vended, VendSettings
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.support.metastore.serving import serving
from tests.support.s3.seaweedfs import VEND_ROLE

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
CALLERS = {"root": Role.ADMIN, "reader": Role.USER, "writer": Role.USER, "stranger": Role.USER}


def token_of(name: str) -> str:
    return f"{name}-token-0123456789"


@dataclass
class Lake:
    """What callers see.

    Args:
        target: Of the metastore.
        store: How to reach S3, without keys.
        vended: What was vended.
        own: With the keys of the whole bucket.
    """

    target: str
    store: S3Settings
    own: S3Settings
    vended: list[Vended] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    def metastore(self, name: str) -> GrpcMetastore:
        found = GrpcMetastore(self.target, token=token_of(name))
        self.stack.callback(found.close)
        return found

    def catalog(self, name: str) -> Catalog:
        """The catalog of a caller that has no keys of its own."""
        metastore = self.metastore(name)
        return Catalog(metastore, LocationStores(self.store, metastore))


def make_vend(own: S3Settings, warehouse: str) -> VendSettings:
    """As `lakelog metastore serve --vend-role ...` makes it."""
    environment = {
        "LAKELOG_S3_ENDPOINT": str(own.endpoint),
        "LAKELOG_S3_REGION": str(own.region),
        "LAKELOG_S3_ACCESS_KEY_ID": str(own.access_key_id),
        "LAKELOG_S3_SECRET_ACCESS_KEY": str(own.secret_access_key),
    }
    vend = open_vending(VEND_ROLE, None, 900, warehouse, environment)
    assert vend is not None
    return vend


@contextmanager
def open_lake(own: S3Settings) -> Iterator[Lake]:
    """Tables `shop.orders` and `shop.users` with a row each; `reader` reads and `writer` writes the first."""
    warehouse = f"s3://lake/{uuid.uuid4().hex}"
    without = dataclasses.replace(own, access_key_id=None, secret_access_key=None, attempts=2)
    lake = Lake("", without, own)

    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, warehouse, planners=(), vend=make_vend(own, warehouse), vended=lake.vended.append)

    tokens = [
        TokenEntry(Caller(name, role), hashlib.sha256(token_of(name).encode()).digest())
        for name, role in CALLERS.items()
    ]
    with lake.stack:
        lake.target = lake.stack.enter_context(serving(None, make_use_cases, Access(tokens=tuple(tokens))))
        root = lake.catalog("root")
        root.create_database("shop")
        for name in ("orders", "users"):
            root.create_table(f"shop.{name}", SCHEMA).append(pa.table({"id": [1], "v": [name]}))
        for caller, level in (("reader", GrantLevel.READER), ("writer", GrantLevel.WRITER)):
            root.metastore.grant("shop", "orders", level, caller)
        lake.vended.clear()
        yield lake


def open_files(lake: Lake, keys: StoreCredentials) -> fs.S3FileSystem:
    """The store as any program with these keys sees it."""
    return fs.S3FileSystem(
        access_key=keys.access_key_id,
        secret_key=keys.secret_access_key,
        session_token=keys.session_token,
        region=lake.store.region,
        scheme="http",
        endpoint_override=str(lake.store.endpoint).removeprefix("http://"),
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        allow_delayed_open=True,
    )
