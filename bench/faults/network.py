"""Pairs of services with a proxy between them, the faults of a network, and what has to hold after each.

A unit of work needs its pair: a commit, a row at a subscriber, a record in a topic. One is done before a fault, so that
the connections are open. Then the fault comes, and the next units have to be done within a time. In the end no row may
be lost, doubled or out of order.
"""

from __future__ import annotations

import enum
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

import lakelog
from lakelog.client.connection.retry import Deadlines
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.testing.postgres_proxy import PostgresProxy
from lakelog.testing.proxy import TcpProxy

SCHEMA: Final = pa.schema([pa.field("v", pa.int64(), nullable=False)])
SLOW_BYTES_PER_S: Final = 20_000.0
HELD_S: Final = 1.0
FIRST_WITHIN_S: Final = 60.0


class NetworkFault(enum.Enum):
    """What happens to the connections between two services. New connections work, except while data is slow or held."""

    REQUESTS_LOST = "what the client sends is lost"
    ANSWERS_LOST = "what the server sends is lost"
    BOTH_LOST = "both directions are lost"
    HALF_OPEN = "the server forgets the connections, and the client does not know"
    RESET = "connections are reset"
    HELD = "data arrives a second late"
    SLOW = "20 KB a second pass"


@contextmanager
def having(fault: NetworkFault, proxy: TcpProxy) -> Iterator[None]:
    """Brings a fault about; where it lasts, until the block ends."""
    match fault:
        case NetworkFault.REQUESTS_LOST:
            proxy.silence("requests")
        case NetworkFault.ANSWERS_LOST:
            proxy.silence("answers")
        case NetworkFault.BOTH_LOST:
            proxy.silence("requests", "answers")
        case NetworkFault.HALF_OPEN:
            proxy.half_open()
        case NetworkFault.RESET:
            proxy.cut()
        case NetworkFault.HELD:
            proxy.hold("requests", "answers")
            threading.Timer(HELD_S, proxy.heal).start()
        case NetworkFault.SLOW:
            proxy.slow(SLOW_BYTES_PER_S)
    try:
        yield
    finally:
        proxy.slow(0.0)


@dataclass
class Cell:
    """One pair after one fault.

    Args:
        seconds: From the fault to the end of the next unit of work.
        noticed: Pieces of data that were swallowed, and connections that were cut.
        links: Open connections of the pair before the fault, and after the work.
    """

    seconds: float
    noticed: int
    links: tuple[int, int]


@dataclass
class Hub:
    """A stack whose connections go through proxies.

    Args:
        stack: The services.
        database_url: The database, without a proxy.
        database: Between metastore and Postgres.
        service: Between a client, or the other services, and the metastore.
        direct: A client without a proxy.
        tables: Numbers for names.
    """

    stack: EmbeddedStack
    database_url: str
    database: PostgresProxy
    service: TcpProxy
    direct: Catalog
    tables: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def client(self, *, try_s: float = 30.0, connect_s: float = 5.0) -> Catalog:
        """A client whose connection goes through the proxy."""
        metastore = GrpcMetastore(self.service.target, deadlines=Deadlines(connect_s=connect_s, call_s=try_s))
        return Catalog(metastore, LocationStores())

    def table(self, **options: str) -> str:
        """An empty table."""
        name = f"net.t{next(self.tables)}"
        self.direct.create_table(name, SCHEMA, options=options)
        return name

    def values(self, table: str) -> list[int]:
        """All rows of a table, in the order of its snapshots."""
        rows = self.direct.table(table).changes().to_arrow()
        return [int(value) for value in rows.sort_by("_snapshot_id").column("v").to_pylist()]


@contextmanager
def running(
    folder: Path, variables: Mapping[str, str] | None = None, stack_type: type[EmbeddedStack] = EmbeddedStack
) -> Iterator[Hub]:
    """A metastore with its Postgres, and proxies at both.

    Args:
        folder: For everything.
        variables: Of all services.
        stack_type: How services are started.
    """
    with ExitStack() as stack:
        postgres = stack.enter_context(EmbeddedPostgres(folder / "postgres", port=0))
        url = postgres.url(over_tcp=True)
        database = stack.enter_context(PostgresProxy(int(url.rpartition(":")[2].partition("/")[0])))
        services = stack.enter_context(
            stack_type(
                folder,
                database_url=f"{url.rpartition(':')[0]}:{database.port}/postgres",
                environment={**os.environ, **(variables or {})},
            )
        )
        service = stack.enter_context(TcpProxy(services.port))
        direct = stack.enter_context(lakelog.connect(services.target))
        direct.create_database("net", if_not_exists=True)
        yield Hub(services, url, database, service, direct)


def run_cell(
    fault: NetworkFault, proxy: TcpProxy, work: Callable[[int], None], *, first: int, within_s: float, units: int = 2
) -> Cell:
    """Does units of work around a fault; TimeoutError: one was not done in time.

    Args:
        fault: What happens after the first unit.
        proxy: Between the pair.
        work: Does the unit with this number, and returns when its effect is there.
        first: The number of the first unit.
        within_s: How long the units after the fault may take, all together.
        units: How many follow the fault.
    """
    bounded(lambda: work(first), FIRST_WITHIN_S, "the work before the fault")
    before, links = proxy.swallowed + proxy.cuts, proxy.open_links
    begun_s = time.monotonic()
    with having(fault, proxy):
        bounded(lambda: work(first + 1), within_s, f"the work after: {fault.value}")
        seconds = time.monotonic() - begun_s
        for number in range(1, units):
            left_s = begun_s + within_s - time.monotonic()
            bounded(lambda number=number: work(first + 1 + number), left_s, f"more work after: {fault.value}")  # type: ignore[misc]
    return Cell(seconds, proxy.swallowed + proxy.cuts - before, (links, proxy.open_links))


def bounded(act: Callable[[], object], within_s: float, what: str) -> None:
    """Runs something in a thread of its own; TimeoutError if it takes longer; else its own error."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True, name=what)
    thread.start()
    thread.join(max(within_s, 0.0))
    if thread.is_alive():
        raise TimeoutError(f"not done within {within_s:.3g} s: {what}")
    if failure:
        raise failure[0]
