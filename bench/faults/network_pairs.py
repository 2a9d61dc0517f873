"""All services with a proxy between each pair of them, and a unit of work for each pair."""

from __future__ import annotations

import enum
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import lakelog
from bench.faults.network import Cell, NetworkFault, run_cell
from bench.faults.tables import WHOLE_ROWS
from lakelog.embedded.ports import free_ports
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.services import is_serving
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing.kafka_proxy import KafkaProxy
from lakelog.testing.log_recording import Recorder, check_recording
from lakelog.testing.postgres_proxy import PostgresProxy
from lakelog.testing.proxy import TcpProxy

SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
WITHIN_S: Final = 120.0
UNITS: Final = 3


class Pair(enum.Enum):
    """Who talks to whom."""

    CLIENT_METASTORE = "client to metastore"
    METASTORE_POSTGRES = "metastore to Postgres"
    READER_METASTORE = "reader service to metastore"
    CLIENT_READER = "client to reader service"
    COMPACTOR_METASTORE = "compactor to metastore"
    PUBLISHER_METASTORE = "publisher to metastore"
    KAFKA = "publisher and subscriber to Kafka"


class NetworkLabError(AssertionError):
    """Something was lost, doubled or out of order, or was not done in time."""


@dataclass
class PairLab:
    """A stack with a proxy for each pair.

    Args:
        stack: The services.
        folder: For recordings.
        direct: A client without a proxy.
        proxies: By pair.
        reader: The address of the reader service, without a proxy.
    """

    stack: EmbeddedStack
    folder: Path
    direct: Catalog
    proxies: dict[Pair, TcpProxy]
    reader: str

    def run(self, pair: Pair, fault: NetworkFault) -> Cell:
        """Does work of a pair before and after a fault, and judges it; NetworkLabError."""
        name = f"{pair.name}_{fault.name}".lower()
        proxy = self.proxies[pair]
        table = self._make_table(name)
        with ExitStack() as stack:
            work = self._work(pair, table, stack)
            recorder = stack.enter_context(self._record(table)) if pair in _PUBLISHED else None
            try:
                cell = run_cell(fault, proxy, work, first=1, within_s=WITHIN_S, units=UNITS)
            except TimeoutError as error:
                raise NetworkLabError(f"{pair.value}: {error}") from error
            finally:
                proxy.heal()
            values = table.scan().to_arrow().column("v").to_pylist()
            if sorted(values) != [str(number) for number in range(1, UNITS + 2)]:
                raise NetworkLabError(f"{pair.value}, {fault.value}: the table has {values}")
            if recorder is not None:
                self._judge(recorder, table)
        return cell

    def _judge(self, recorder: Recorder, table: Table) -> None:
        # A subscriber reads files while brokers do not answer, so the log can have less than it has seen.
        wait_for_log(table)
        findings = check_recording(recorder.stop(), table, row=("v",), whole_rows=WHOLE_ROWS)
        if findings:
            raise NetworkLabError("\n".join(map(str, findings)))

    def _record(self, table: Table) -> Recorder:
        topic = table._context.metastore.get_log(table.uuid).topic
        return Recorder(self.stack.kafka, topic, self.folder / f"{table.name.partition('.')[2]}.jsonl")

    def _make_table(self, name: str) -> Table:
        servers = self.proxies[Pair.KAFKA].target
        logged = name.startswith(("publisher", "kafka"))
        options = {"bucket": "1"}
        if logged:
            options |= {"log.system": "kafka", "kafka.bootstrap.servers": servers}
        return self.direct.create_table(f"net.{name}", SCHEMA, primary_key=["k"], options=options)

    def _work(self, pair: Pair, table: Table, stack: ExitStack) -> Callable[[int], None]:
        match pair:
            case Pair.CLIENT_METASTORE:
                proxied = stack.enter_context(lakelog.connect(self.proxies[pair].target)).table(table.name)
                return lambda number: write(proxied, number)
            case Pair.METASTORE_POSTGRES:
                return lambda number: write(table, number)
            case Pair.READER_METASTORE | Pair.CLIENT_READER:
                reader = self.reader if pair is Pair.READER_METASTORE else self.proxies[pair].target
                return self._subscribed(table, stack, reader, "file")
            case Pair.COMPACTOR_METASTORE:
                return lambda number: write_and_compact(table, number)
            case Pair.PUBLISHER_METASTORE:
                return lambda number: write_and_publish(table, number)
            case Pair.KAFKA:
                return self._subscribed(table, stack, "", "log")

    def _subscribed(self, table: Table, stack: ExitStack, reader: str, mode: str) -> Callable[[int], None]:
        catalog = stack.enter_context(lakelog.connect(self.stack.target))
        options = {"streaming-read-mode": mode}
        stream = stack.enter_context(catalog.table(table.name).subscribe(options=options, reader=reader))
        arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def follow() -> None:
            try:
                for batch in stream:
                    for value in batch.data.column("v").to_pylist():
                        arrived.put(value)
            except Exception as error:
                arrived.put(error)

        threading.Thread(target=follow, daemon=True).start()

        def work(number: int) -> None:
            write(table, number)
            got = arrived.get(timeout=WITHIN_S)
            if got != str(number):
                raise NetworkLabError(f"{table.name}: the subscription showed {got!r} instead of {number}")

        return work


_PUBLISHED: Final = (Pair.PUBLISHER_METASTORE, Pair.KAFKA)


def write(table: Table, number: int) -> None:
    """Commits one row under its number."""
    rows = pa.table({"k": [number], "v": [str(number)]}, schema=SCHEMA)
    table.upsert(rows, writer=table.name, identifier=number)


def write_and_compact(table: Table, number: int) -> None:
    """Commits one row, and waits for a compaction."""
    write(table, number)
    table.compact(full=True, timeout=WITHIN_S)


def write_and_publish(table: Table, number: int) -> None:
    """Commits one row, and waits until all that was committed is published."""
    write(table, number)
    wait_for_log(table)


def wait_for_log(table: Table) -> None:
    """Until all that was committed is published."""
    metastore = table._context.metastore
    give_up_s = time.monotonic() + WITHIN_S
    while True:
        state = metastore.get_publish_state(table.uuid)
        if state.snapshot_id == state.latest_snapshot_id:
            return
        if time.monotonic() > give_up_s:
            raise NetworkLabError(f"{table.name} is published up to {state.snapshot_id} of {state.latest_snapshot_id}")
        time.sleep(0.02)


@contextmanager
def running_pairs(folder: Path, pairs: Sequence[Pair] = tuple(Pair)) -> Iterator[PairLab]:
    """All services that these pairs need, with proxies between them."""
    with ExitStack() as stack:
        postgres = stack.enter_context(EmbeddedPostgres(folder / "postgres", port=0))
        url = postgres.url(over_tcp=True)
        database = stack.enter_context(PostgresProxy(int(url.rpartition(":")[2].partition("/")[0])))
        kafka_port, reader_port = free_ports(2)
        kafka = stack.enter_context(KafkaProxy(kafka_port))
        logged = any(pair in _PUBLISHED for pair in pairs)
        services = stack.enter_context(
            EmbeddedStack(
                folder / "stack",
                database_url=f"{url.rpartition(':')[0]}:{database.port}/postgres",
                kafka=logged,
                kafka_port=kafka_port,
                environment={**os.environ, **({"LAKELOG_KAFKA_BROKERS": kafka.target} if logged else {})},
            )
        )
        proxies: dict[Pair, TcpProxy] = {Pair.METASTORE_POSTGRES: database, Pair.KAFKA: kafka}
        for pair in Pair:
            if pair not in proxies and pair is not Pair.CLIENT_READER:
                proxies[pair] = stack.enter_context(TcpProxy(services.port))
        reader = f"127.0.0.1:{reader_port}"
        proxies[Pair.CLIENT_READER] = stack.enter_context(TcpProxy(reader_port))
        if Pair.READER_METASTORE in pairs or Pair.CLIENT_READER in pairs:
            services.add_service(
                "reader",
                ["serve", "--listen", reader, "--insecure-dev"],
                environment={"LAKELOG_TARGET": proxies[Pair.READER_METASTORE].target},
                is_ready=lambda: is_serving(reader),
            )
        if Pair.COMPACTOR_METASTORE in pairs:
            target = {"LAKELOG_TARGET": proxies[Pair.COMPACTOR_METASTORE].target}
            services.add_service("compactor", ["run"], environment=target)
        if logged:
            target = {"LAKELOG_TARGET": proxies[Pair.PUBLISHER_METASTORE].target}
            services.add_service("writer", ["publish"], name="publisher", environment=target)
        direct = stack.enter_context(lakelog.connect(services.target))
        direct.create_database("net")
        yield PairLab(services, folder, direct, proxies, reader)
