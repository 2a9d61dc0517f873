"""Callers of one metastore, each with a token of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.serving.access import Access, parse_token_file
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.support.log.log_brokers import FakeBrokers
from tests.support.metastore.opening import WAREHOUSE
from tests.support.metastore.serving import serving

_TOKENS = {name: f"{name}-token-0123456789" for name in ("alice", "bob", "root")}
_TOKEN_FILE = "".join(f"{name} {'admin' if name == 'root' else 'writer'} {token}\n" for name, token in _TOKENS.items())


@dataclass(frozen=True)
class Parties:
    """Two writers and an admin.

    Args:
        alice: A writer, who opens what the others want.
        bob: Another writer.
        root: An admin.
        target: Of the server.
    """

    alice: GrpcMetastore
    bob: GrpcMetastore
    root: GrpcMetastore
    target: str


@contextmanager
def open_parties(database_url: str | None, *, identified: bool = True) -> Iterator[Parties]:
    """Serves a migrated database, or memory, and connects the callers. Dropped tables may be purged at once.

    Args:
        database_url: The database; None: memory.
        identified: Whether the metastore knows its callers; if not, everyone may do everything.
    """

    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, WAREHOUSE, brokers=FakeBrokers().make(), dropped_retention_ms=0)

    tokens = parse_token_file(_TOKEN_FILE, "tokens").tokens
    with ExitStack() as stack:
        access = Access(tokens=tokens) if identified else Access(open=True)
        target = stack.enter_context(serving(database_url, make_use_cases, access))
        clients = {name: GrpcMetastore(target, token=token) for name, token in _TOKENS.items()}
        for client in clients.values():
            stack.callback(client.close)
        yield Parties(**clients, target=target)
