"""A metastore in memory behind its gRPC server, with two teams' databases and callers of every kind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from lakelog.client.connection.status import DETAILS_KEY, from_proto_status
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import LakelogError
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY
from lakelog.format.tables.grant import GrantLevel
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.rpc.messages import parse
from lakelog.rpc.services import Stubs
from lakelog.rpc.unary import SERVICES
from lakelog.rpc.v1 import types_pb2
from lakelog.serving.access import Access, Caller, Role, TokenEntry
from metastore.logs.owner_rules import OwnerRules
from metastore.server.privileges.outcomes import CALLER_KINDS, CallerKind
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.support.log.log_brokers import FakeBrokers
from tests.support.metastore.making import SCHEMA, append
from tests.support.metastore.opening import WAREHOUSE
from tests.support.metastore.serving import serving

READER, WRITER, OWNER = GrantLevel

OWNER_RULES = OwnerRules(("{database}.*", "topic-*"), ("{database}-*",))

STRANGER = CallerKind("no grant")
ELSEWHERE = CallerKind("owner of another database and table")
"""It may do everything at its own table and database, and nothing here."""

KINDS = (*CALLER_KINDS, ELSEWHERE)


def name_of(kind: CallerKind) -> str:
    """The name of a caller in the token file."""
    return kind.name.replace(" ", "-")


def token_of(name: str) -> str:
    return f"{name}-token-0123456789"


@dataclass(frozen=True)
class World:
    """What the callers call, and what belongs to it.

    Args:
        target: Of the server.
        root: An admin.
        table: A table of `shop`, with a snapshot, a consumer, a tag, a job and a pipeline.
        other: A table of the database `other`.
        spare: A table of `shop` that callers drop.
        dropped: A dropped table of `shop`.
        attempt_id: An open attempt of the table.
        job_id: A job of the table.
        access: How the server knows its callers.
    """

    target: str
    root: GrpcMetastore
    table: TableInfo
    other: TableInfo
    spare: TableInfo
    dropped: TableInfo
    attempt_id: str
    job_id: int
    access: Access

    def connect(self, name: str) -> GrpcMetastore:
        return GrpcMetastore(self.target, token=token_of(name))


@contextmanager
def open_world(database_url: str | None = None, *, extra: dict[str, Role] | None = None) -> Iterator[World]:
    """Serves memory, or a migrated database, with the tables and grants of `World`.

    Args:
        database_url: The database.
        extra: Further callers, with their roles.
    """

    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, WAREHOUSE, brokers=FakeBrokers().make(), planners=(), owner_rules=OWNER_RULES)

    callers = {name_of(kind): kind.role for kind in KINDS} | {"root": Role.ADMIN} | (extra or {})
    tokens = [
        TokenEntry(Caller(name, role), hashlib.sha256(token_of(name).encode()).digest())
        for name, role in callers.items()
    ]
    with ExitStack() as stack:
        access = Access(tokens=tuple(tokens))
        target = stack.enter_context(serving(database_url, make_use_cases, access))
        root = GrpcMetastore(target, token=token_of("root"))
        stack.callback(root.close)
        yield _fill(target, root, access)


def _fill(target: str, root: GrpcMetastore, access: Access) -> World:
    for database in ("shop", "other"):
        root.create_database(database)
    names = (("shop", "orders"), ("shop", "old"), ("shop", "spare"), ("other", "orders"))
    table, dropped, spare, other = (_make(root, TableName(*name)) for name in names)
    for kind in KINDS:
        if kind.at_table:
            for name in ("orders", "old", "spare"):
                root.grant("shop", name, GrantLevel(kind.at_table), name_of(kind))
        if kind.at_database:
            root.grant("shop", "", GrantLevel(kind.at_database), name_of(kind))
    root.grant("other", "", OWNER, name_of(ELSEWHERE))
    root.grant("other", "orders", OWNER, name_of(ELSEWHERE))
    for each in (table, other):
        append(root, each, 1, writer="w")
    root.drop_table(dropped.name)
    root.create_tag(table.table_uuid, "first", 1)
    root.open_consumer("etl", [table.table_uuid], "holder")
    root.request_jobs(table.table_uuid, COMPACT, ["/0"], {STRATEGY: FULL})
    (job,) = root.list_jobs([table.table_uuid])
    attempt_id = root.stage_attempt([table.table_uuid], "w").attempt_id
    return World(target, root, table, other, spare, dropped, attempt_id, job.job_id, access)


def _make(root: GrpcMetastore, name: TableName) -> TableInfo:
    table, _ = root.create_table(name, SCHEMA, primary_key=["id"], options={"bucket": "1"})
    return table


class RawCaller:
    """Calls RPCs with messages, as any gRPC client can."""

    def __init__(self, world: World, name: str) -> None:
        self._channel = grpc.insecure_channel(world.target)
        self._stubs = Stubs(self._channel, SERVICES.values())
        self._metadata = (("authorization", f"Bearer {token_of(name)}"),)

    def call(self, method: str, request: Any) -> Any:
        """The answer, or the first one of a stream.

        Raises:
            LakelogError: As the client does.
        """
        rpc = getattr(self._stubs, method)
        try:
            if method == "CommitStream":
                (answer,) = rpc(iter([request]), metadata=self._metadata, timeout=20)
                if answer.HasField("failed"):
                    raise _to_error(answer.failed)
                return answer
            answer = rpc(request, metadata=self._metadata, timeout=20)
            if hasattr(answer, "cancel"):
                first = next(iter(answer))
                answer.cancel()
                return first
            return answer
        except grpc.RpcError as error:
            raise _failure(error) from None

    def close(self) -> None:
        self._channel.close()


def _failure(error: Any) -> LakelogError:
    details = [value for key, value in error.trailing_metadata() or () if key == DETAILS_KEY]
    assert details, f"an error that is not ours: {error}"
    return _to_error(parse(types_pb2.Status, details[0]))


def _to_error(status: types_pb2.Status) -> LakelogError:
    found = from_proto_status(status)
    assert found is not None, "it failed"
    return found
