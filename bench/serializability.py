"""SERIALIZABLE: random transactions over several tables while everything breaks, judged as one history.

`lakelog.testing.serializability` judges. Clients read keys of some tables, append a value to some lists or replace some
values, and commit, guarded by what they read. Two metastores serve one Postgres; the second reaches it through a proxy.
Meanwhile connections are cut, answers lost, metastores frozen and killed, Postgres is killed, and compactors rewrite
the files.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa

import lakelog
from lakelog.client.connection.retry import Deadlines
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.ports import free_port
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.services import is_serving
from lakelog.errors import CommitConflict, OutcomeUnknown, Unavailable
from lakelog.reads.scan import Scan
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.testing import EmbeddedStack
from lakelog.testing.postgres_proxy import PostgresProxy
from lakelog.testing.proxy import TcpProxy
from lakelog.testing.serializability import Finding, Outcome, Transaction, find_anomalies, trace_registers

CLIENTS: Final = 6
_KEYS: Final = 5
_FAULT_EVERY_S: Final = 1.0
_WITHIN_S: Final = 120.0
_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("values", pa.list_(pa.string()))])
_REGISTERS: Final = "h.registers"
_REGISTER: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("values", pa.string())])
_SECOND: Final = "metastore-2"
_FAULTS: Final = (
    "connections cut",
    "connection cut within a request",
    "answers lost",
    "network delayed",
    "database lost before COMMIT",
    "database lost after COMMIT",
    "metastore frozen",
    "metastore killed",
    "compactor killed",
    "Postgres killed",
)
_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "h.plain": {"bucket": "1"},
    "h.looked_up": {"bucket": "2", "changelog-producer": "lookup"},
    "h.compacted": {"bucket": "2", "num-sorted-run.compaction-trigger": "3"},
    # Others hold lists, to which values are appended; here a value replaces the one before it.
    _REGISTERS: {"bucket": "2", "num-sorted-run.compaction-trigger": "3"},
}


@dataclass
class Report:
    """What happened.

    Args:
        outcomes: Transactions by their outcome.
        faults: Faults by their name.
        findings: What is wrong with the history.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def run_history(
    folder: Path, seconds: float, seed: int, *, guarded: bool = True, stack_type: type[EmbeddedStack] = EmbeddedStack
) -> Report:
    """Runs random transactions and faults, and judges the history.

    Args:
        folder: For the stack.
        seconds: How long clients go on.
        seed: Decides what is read and written, and what breaks when; not who comes first.
        guarded: Whether transactions guard what they read; without it the history cannot be serializable.
        stack_type: How services are started.
    """
    rng = Random(seed)
    with _two_metastores(folder, stack_type) as machines:
        stack, proxies = machines.stack, machines.proxies
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("h")
            for name, options in _TABLES.items():
                catalog.create_table(name, _schema_of(name), primary_key=["k"], options=dict(options))
        stop = threading.Event()
        clients = [
            _Client(f"c{number}", proxies[number % len(proxies)].target, rng.randrange(1 << 30), guarded, stop)
            for number in range(CLIENTS)
        ]
        threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        report = Report(faults=_break_things(machines, rng, seconds))
        stop.set()
        for thread in threads:
            thread.join(_WITHIN_S)
            if thread.is_alive():
                raise TimeoutError(f"Seed {seed}: a client did not end within {_WITHIN_S:g} s.")
        for client in clients:
            if client.error is not None:
                raise RuntimeError(f"Seed {seed}: {client.name} ended with {client.error!r}") from client.error
        history = [transaction for client in clients for transaction in client.history]
        with lakelog.connect(stack.target) as catalog:
            final = {key: values for name in _TABLES for key, values in _read(catalog, name, range(_KEYS))[1].items()}
    report.outcomes.update(transaction.outcome for transaction in history)
    report.findings = find_anomalies(*trace_registers(history, final, [key for key in final if _is_register(key)]))
    return report


@dataclass
class _Machines:
    """What runs, and what stands in between."""

    postgres: EmbeddedPostgres
    database: PostgresProxy
    stack: EmbeddedStack
    proxies: list[TcpProxy]


@contextmanager
def _two_metastores(folder: Path, stack_type: type[EmbeddedStack]) -> Iterator[_Machines]:
    """Two metastores on one Postgres, which the second reaches through a proxy; a proxy stands before each of them."""
    with ExitStack() as ends:
        postgres = ends.enter_context(EmbeddedPostgres(folder / "postgres", port=0))
        url = postgres.url(over_tcp=True)
        address, _, rest = url.rpartition(":")
        database = ends.enter_context(PostgresProxy(int(rest.partition("/")[0])))
        stack = ends.enter_context(stack_type(folder, services=["metastore", "compactor"], database_url=url))
        port = free_port()
        stack.add_service(
            "metastore",
            ["serve", "--warehouse", stack.warehouse, "--listen", f"127.0.0.1:{port}", "--insecure-dev"],
            name=_SECOND,
            environment={"LAKELOG_DATABASE_URL": f"{address}:{database.port}/postgres"},
            is_ready=lambda: is_serving(f"127.0.0.1:{port}"),
        )
        proxies = [ends.enter_context(TcpProxy(each)) for each in (stack.port, port)]
        yield _Machines(postgres, database, stack, proxies)


def _break_things(machines: _Machines, rng: Random, seconds: float) -> Counter[str]:
    """Injects a fault about once a second until the time is over; returns how often each was."""
    stack, database = machines.stack, machines.database
    faults: Counter[str] = Counter()
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(_FAULT_EVERY_S * rng.random() * 2, left_s))
        proxy, metastore = rng.choice(machines.proxies), rng.choice(("metastore", _SECOND))
        name = rng.choice(_FAULTS)
        faults[name] += 1
        if name == "connections cut":
            proxy.cut()
        elif name == "connection cut within a request":
            proxy.cut_after(rng.randrange(1, 5_000), "requests")
        elif name == "answers lost":
            proxy.lose_answers()
        elif name == "network delayed":
            proxy.delay(0.02)
        elif name == "database lost before COMMIT":
            database.cut_at_commit("before_commit", rng.randint(1, 3))
        elif name == "database lost after COMMIT":
            database.cut_at_commit("after_commit", rng.randint(1, 3))
        elif name == "metastore frozen":
            stack.pause(metastore)
            time.sleep(rng.random() * 3)
            stack.resume(metastore)
        elif name == "metastore killed":
            stack.kill(metastore)
            stack.restart(metastore)
        elif name == "compactor killed":
            stack.kill("compactor")
            stack.restart("compactor")
        else:
            machines.postgres.kill()
            machines.postgres.restart()
        time.sleep(rng.random())
        proxy.heal()
    database.heal()
    return faults


class _Client:
    """Makes transactions until it is stopped."""

    def __init__(self, name: str, target: str, seed: int, guarded: bool, stop: threading.Event) -> None:
        self.name = name
        self.history: list[Transaction] = []
        self.error: BaseException | None = None
        self._target = target
        self._rng = Random(seed)
        self._guarded = guarded
        self._stop = stop

    def run(self) -> None:
        """Runs to the end; an unexpected error is left in `error`."""
        try:
            metastore = GrpcMetastore(self._target, deadlines=Deadlines(call_s=5.0))
            with Catalog(metastore, LocationStores()) as catalog:
                number = 0
                while not self._stop.is_set():
                    number += 1
                    self._transact(catalog, number)
        except BaseException as error:
            self.error = error

    def _transact(self, catalog: Catalog, number: int) -> None:
        rng = self._rng
        names = rng.sample(list(_TABLES), rng.randint(1, len(_TABLES)))
        # What only reads is one snapshot of one table: reads of several tables have nothing that would guard them.
        only_reads = len(names) == 1 and rng.random() < 0.3
        began_s = time.monotonic()
        reads: dict[str, tuple[str, ...]] = {}
        scans: dict[str, Scan] = {}
        appends: dict[str, str] = {}
        try:
            for name in names:
                scans[name], lists = _read(catalog, name, rng.sample(range(_KEYS), rng.randint(1, 3)))
                reads |= lists
            transaction = catalog.transaction(writer=self.name, identifier=number)
            for place, name in enumerate(names):
                # A guard of what was read, or of the whole table.
                by_scan = rng.random() < 0.7
                if self._guarded and by_scan:
                    transaction.guard(scans[name])
                whole = self._guarded and not by_scan
                joined = transaction.table(name, if_snapshot=scans[name].snapshot_id if whole else None)
                if only_reads or (place and rng.random() < 0.4):
                    continue
                for key in [key for key in reads if key.startswith(f"{name}/")]:
                    appends[key] = f"{self.name}.{number}.{len(appends)}"
                rows = [
                    {"k": int(key.rpartition("/")[2]), "values": value if _is_register(key) else [*reads[key], value]}
                    for key, value in appends.items()
                    if key.startswith(f"{name}/")
                ]
                joined.upsert(pa.Table.from_pylist(rows, schema=_schema_of(name)))
        except (Unavailable, OutcomeUnknown, CommitConflict):
            # Nothing was sent to be committed.
            return
        outcome: Outcome = "committed"
        try:
            transaction.commit()
        except OutcomeUnknown:
            outcome = "unknown"
        except (CommitConflict, Unavailable):
            outcome = "refused"
        self.history.append(Transaction(f"{self.name}.{number}", reads, appends, outcome, began_s, time.monotonic()))


def _read(catalog: Catalog, name: str, keys: Iterable[int]) -> tuple[Scan, dict[str, tuple[str, ...]]]:
    """What was read, and the lists of some keys by `table/key`; a key without a row has an empty one.

    The value of a register is a list of one.
    """
    wanted = list(keys)
    scan = catalog.table(name).scan(filter=f"k IN ({', '.join(map(str, wanted))})")
    rows = scan.to_arrow()
    found = dict(zip(rows["k"].to_pylist(), rows["values"].to_pylist(), strict=True))
    if name == _REGISTERS:
        found = {key: [value] for key, value in found.items()}
    return scan, {f"{name}/{key}": tuple(found.get(key, ())) for key in wanted}


def _is_register(key: str) -> bool:
    return key.startswith(f"{_REGISTERS}/")


def _schema_of(name: str) -> pa.Schema:
    return _REGISTER if name == _REGISTERS else _SCHEMA
