"""Runs rounds: tables with writers, two publishers, a plain consumer for each table, faults; then everybody must agree.

All share one stack, so that a round takes seconds: a fault hits each of its tables wherever its publisher stands then.
Publishers and metastore reach the broker through a proxy, consumers do not.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import lakelog
from bench.faults.schedule import Fault, Order, plan_round
from bench.faults.tables import DATABASE, VALUE, WHOLE_ROWS, make_table
from bench.faults.writers import Orders, WriterProcess
from lakelog.embedded.ports import free_ports
from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.log.state import PublishState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing.kafka_proxy import KafkaProxy
from lakelog.testing.log_recording import Recorder, check_recording

PUBLISHERS: Final = ("publisher-1", "publisher-2")
LEASE_S: Final = 1.0
ROUND_S: Final = 1.5
DRAIN_S: Final = 90.0
TOOK_EFFECT: Final = 0


class FaultLabError(AssertionError):
    """A consumer saw what it must not, or somebody did not come to an end; with the seed."""


@dataclass
class FaultReport:
    """What happened in some rounds.

    Args:
        runs: Histories of tables that were judged.
        snapshots: In them.
        records: That consumers saw.
        faults: Which, and how often.
        late_ends: Ends of transactions that came late, by Kafka's error code; 0: it took effect, or had before.
    """

    runs: int = 0
    snapshots: int = 0
    records: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    late_ends: Counter[int] = field(default_factory=Counter)


@dataclass
class _Run:
    """One table of a round."""

    table: Table
    writer: WriterProcess
    recorder: Recorder


class FaultLab:
    """A stack with its publishers.

    Args:
        folder: For everything.
        stack_type: How services are started.
    """

    def __init__(self, folder: Path, stack_type: type[EmbeddedStack] = EmbeddedStack) -> None:
        (port,) = free_ports(1)
        self._folder = folder
        self.proxy: Final = KafkaProxy(port)
        environment = {**os.environ, "LAKELOG_KAFKA_BROKERS": self.proxy.target}
        self.stack: Final = stack_type(
            folder / "stack", services=["metastore"], kafka=True, kafka_port=port, environment=environment
        )
        self._numbers = itertools.count(1)
        self._killed: set[str] = set()
        self._frozen: set[str] = set()

    @contextlib.contextmanager
    def running(self, publishers: Sequence[str] = PUBLISHERS) -> Iterator[FaultLab]:
        """For the length of a `with` block; without publishers of its own where none are named."""
        try:
            with self.stack:
                with self.connect() as catalog:
                    catalog.create_database(DATABASE, if_not_exists=True)
                for name in publishers:
                    self.add_publisher(name)
                yield self
        finally:
            self.proxy.close()

    @contextlib.contextmanager
    def publishing(self) -> Iterator[None]:
        """Has publishers for the length of a `with` block, as rounds need them."""
        for name in PUBLISHERS:
            if name in self.stack.logs:
                self.stack.restart(name)
            else:
                self.add_publisher(name)
        try:
            yield
        finally:
            for name in PUBLISHERS:
                self.stack.kill(name)

    def add_publisher(self, name: str) -> None:
        """Starts one more."""
        self.stack.add_publisher(name, ["--lease-seconds", f"{LEASE_S:g}"])

    def connect(self) -> Catalog:
        """The SDK."""
        return lakelog.connect(self.stack.target)

    def make_table(self, catalog: Catalog, *, keyed: bool) -> Table:
        """A table of its own name, with a log."""
        return make_table(catalog, f"t{next(self._numbers)}", self.proxy.target, keyed=keyed)

    def record(self, table: Table) -> Recorder:
        """A plain consumer of a table's log."""
        topic = table._context.metastore.get_log(table.uuid).topic
        return Recorder(self.stack.kafka, topic, self._folder / f"{table.name.partition('.')[2]}.jsonl")

    def run_round(self, seed: int, tables: int, report: FaultReport, *, large: float = 0.0) -> None:
        """A round; raises FaultLabError.

        Args:
            seed: Decides what is written and what goes wrong.
            tables: How many, keyed ones and others by turns.
            report: Is added to.
            large: The chance of a snapshot to be a large one, in tables without a key.
        """
        with (
            self.connect() as catalog,
            contextlib.ExitStack() as stack,
            # Each of them mostly waits for others.
            ThreadPoolExecutor(tables) as together,
        ):
            runs = list(together.map(lambda number: self._begin(catalog, stack, seed, number, large), range(tables)))
            try:
                for run in runs:
                    self._wait_for_snapshots(run.table)
                self._break_things(plan_round(seed, ROUND_S, LEASE_S), runs, report)
                self._mend()
                for run in runs:
                    run.writer.finish()
                for run in runs:
                    self.drain(run.table)
            except Exception as error:
                raise FaultLabError(f"Seed {seed}: {error}") from error
            for snapshots, records in together.map(lambda run: self._judge(run, seed), runs):
                report.runs += 1
                report.snapshots += snapshots
                report.records += records

    def drain(self, table: Table) -> PublishState:
        """Waits until all that was committed is published, whatever stands in the way meanwhile; AssertionError."""
        metastore = table._context.metastore
        give_up_s = time.monotonic() + DRAIN_S
        while True:
            state = metastore.get_publish_state(table.uuid)
            if state.snapshot_id == state.latest_snapshot_id:
                return state
            assert time.monotonic() < give_up_s, (
                f"{table.name} is published up to {state.snapshot_id} of {state.latest_snapshot_id} "
                f"after {DRAIN_S:g} s: {state.problem or 'nobody knows why'}"
            )
            time.sleep(0.1)

    def _begin(self, catalog: Catalog, stack: contextlib.ExitStack, seed: int, number: int, large: float) -> _Run:
        keyed = number % 2 == 0
        table = self.make_table(catalog, keyed=keyed)
        recorder = stack.enter_context(self.record(table))
        orders = Orders(self.stack.target, table.name, f"w{number}", seed, keyed, large)
        writer = WriterProcess(orders)
        stack.callback(writer.kill)
        return _Run(table, writer, recorder)

    def _wait_for_snapshots(self, table: Table) -> None:
        """Until the writer has begun: nothing is shown by faults that come before."""
        give_up_s = time.monotonic() + DRAIN_S
        while not table.snapshots(1).num_rows:
            assert time.monotonic() < give_up_s, f"nothing was committed to {table.name} within {DRAIN_S:g} s"
            time.sleep(0.02)

    def _judge(self, run: _Run, seed: int) -> tuple[int, int]:
        """How many snapshots and records there were; FaultLabError: the consumer saw what it must not."""
        path = run.recorder.stop()
        findings = check_recording(path, run.table, row=VALUE, whole_rows=WHOLE_ROWS)
        if findings:
            reported = "\n".join(map(str, findings))
            raise FaultLabError(f"Seed {seed}: {run.table.name}, seen in {path}:\n{reported}")
        return run.table.snapshots().num_rows, len(path.read_bytes().splitlines())

    # Faults

    def _break_things(self, orders: Sequence[Order], runs: Sequence[_Run], report: FaultReport) -> None:
        begun_s = time.monotonic()
        numbers = itertools.count()
        due: list[tuple[float, int, Callable[[], None]]] = []

        def later(at_s: float, act: Callable[[], None]) -> None:
            heapq.heappush(due, (at_s, next(numbers), act))

        for order in orders:

            def act(order: Order = order) -> None:
                end = self._do(order, runs, report)
                report.faults[order.fault] += 1
                if end is not None:
                    later(time.monotonic() - begun_s + order.lasts_s, end)

            later(order.at_s, act)
        later(ROUND_S, lambda: None)
        while due:
            at_s, _, do = heapq.heappop(due)
            time.sleep(max(begun_s + at_s - time.monotonic(), 0.0))
            do()

    def _do(self, order: Order, runs: Sequence[_Run], report: FaultReport) -> Callable[[], None] | None:
        """Does something, and returns what ends it."""
        publisher = PUBLISHERS[order.whom % len(PUBLISHERS)]
        writer = runs[order.whom % len(runs)].writer
        match order.fault:
            case Fault.KILL_PUBLISHER:
                self._kill(publisher)
            case Fault.FREEZE_PUBLISHER | Fault.FREEZE_PUBLISHER_SHORTLY:
                self._freeze(publisher)
                return lambda: self._thaw(publisher)
            case Fault.KILL_METASTORE:
                self._kill("metastore")
                return lambda: self._restart("metastore")
            case Fault.KILL_BROKER:
                self._kill("kafka")
                return lambda: self._restart("kafka")
            case Fault.KILL_WRITER:
                writer.kill()
                return writer.start
            case Fault.FREEZE_WRITER:
                writer.freeze()
                return writer.thaw
            case Fault.CUT:
                self.proxy.cut()
            case Fault.HOLD_END:
                self.proxy.hold_ends()
                # It lasts from the moment on at which there is one.
                give_up_s = time.monotonic() + ROUND_S
                while not self.proxy.held and time.monotonic() < give_up_s:
                    time.sleep(0.005)
                return lambda: self._release(report)
            case Fault.LOSE_END_ANSWER:
                self.proxy.lose_end_answers()
            case Fault.DELAY_ENDS:
                self.proxy.delay_ends(0.1)
                return lambda: self.proxy.delay_ends(0.0)
        return None

    def _release(self, report: FaultReport) -> None:
        # Where the broker is down, what is late never comes.
        with contextlib.suppress(OSError):
            report.late_ends.update(self.proxy.release_ends())

    def _kill(self, name: str) -> None:
        self._thaw(name)
        self.stack.kill(name)
        self._killed.add(name)

    def _restart(self, name: str) -> None:
        if name in self._killed:
            self.stack.restart(name)
            self._killed.discard(name)

    def _freeze(self, name: str) -> None:
        if name not in self._killed | self._frozen:
            self.stack.pause(name)
            self._frozen.add(name)

    def _thaw(self, name: str) -> None:
        if name in self._frozen:
            self.stack.resume(name)
            self._frozen.discard(name)

    def _mend(self) -> None:
        """Nothing goes wrong any more. Publishers come last: who was killed needs what it depends on."""
        self.proxy.heal()
        for name in list(self._frozen):
            self._thaw(name)
        for name in sorted(self._killed, key=lambda name: (name in PUBLISHERS, name)):
            self._restart(name)
