"""W14: how long after kill -9 of a service what it does for its users is done again.

Somebody starts it again at once, as a supervisor does, and somebody asks for something at once: a commit, a record in
the log, a batch, a changelog, a row of a pipeline. The clock runs from the signal to the answer. The reference is the
same with a service that was ended in order, so that nothing of it is left to wait for: the clock then runs from its
start. Leases and all other times are what they are by default.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

import lakelog
from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, WrongAnswerError, absolute
from lakelog.embedded.ports import free_port
from lakelog.embedded.processes import ManagedProcess
from lakelog.embedded.services import is_serving, service_command, service_environment
from lakelog.errors import Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing import EmbeddedStack, embedded_stack

ROWS: Final = 10
METASTORE_S: Final = 3
PUBLISHER_S: Final = 5
PIPELINE_S: Final = 10
WITHIN_S: Final = 180.0
_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
_LOGGED: Final = {"log.system": "kafka"}
_POLL_S: Final = 0.005


@dataclass(frozen=True)
class Killed:
    """A service that is killed again and again.

    Args:
        process: It runs.
        succeed: Has the next thing done by it, and blocks until it is.
    """

    process: ManagedProcess
    succeed: Callable[[], None]

    def time_after_kill(self) -> float:
        """Seconds from the signal on."""
        begun_s = time.perf_counter()
        self.process.kill()
        return self._time(begun_s)

    def time_after_end(self) -> float:
        """Seconds from the start on, of one that was ended in order."""
        self.process.stop()
        return self._time(time.perf_counter())

    def _time(self, begun_s: float) -> float:
        starting = threading.Thread(target=self.process.start)
        starting.start()
        self.succeed()
        took_s = time.perf_counter() - begun_s
        starting.join()
        return took_s


def measure_metastore(bench: Bench) -> Iterator[Figure]:
    """To the next commit of a client that was connected before."""
    with embedded_stack(bench.folder / "metastore") as stack:
        # One that can be ended in order takes its place.
        stack.kill("metastore")
        target = f"127.0.0.1:{free_port()}"
        arguments = ["serve", "--warehouse", stack.warehouse, "--listen", target, "--insecure-dev"]
        with (
            _running(
                stack,
                "metastore",
                arguments,
                {"LAKELOG_DATABASE_URL": stack.database_url},
                is_ready=lambda: is_serving(target),
            ) as process,
            lakelog.connect(target) as catalog,
        ):
            table = _make_table(catalog, "metastore")
            commits = _Counter()

            def commit() -> None:
                _append(table, commits.take())

            yield _compare("metastore: the next commit", Killed(process, commit), _pairs(bench), METASTORE_S)
            check_equal("rows", table.scan().count(), commits.taken * ROWS)


def measure_publisher(bench: Bench) -> Iterator[Figure]:
    """To the next record that a plain consumer sees: of a publisher that is alone, and of one of two."""
    with (
        embedded_stack(bench.folder / "publisher", kafka=True) as stack,
        lakelog.connect(stack.target) as catalog,
        _running(stack, "writer", ["publish"], _target(stack), name="publisher-1") as process,
    ):
        one = _LoggedTable(stack, _make_table(catalog, "one", _LOGGED))
        one.succeed()
        yield _compare("publisher, alone: the next record", Killed(process, one.succeed), _pairs(bench), PUBLISHER_S)
        other = _LoggedTable(stack, _make_table(catalog, "other", _LOGGED))
        both = (one, other)
        with _running(stack, "writer", ["publish"], _target(stack), name="publisher-2"):
            taken_over_s = []
            for _ in range(_pairs(bench)):
                _wait_for(lambda: len({each.holder() for each in both} - {""}) == 2, "each publisher has a table")
                begun_s = time.perf_counter()
                process.kill()
                _in_parallel([each.succeed for each in both])
                taken_over_s.append(time.perf_counter() - begun_s)
                process.start()
            yield absolute("publisher, one of two: the next record", "s", taken_over_s, target=PUBLISHER_S)
        for each in both:
            each.close()


def measure_compactor(bench: Bench) -> Iterator[Figure]:
    """To the next changelog that a compactor attaches: of one that had nothing to do, and with a job in its hands."""
    options = {"changelog-producer": "lookup", "lookup-wait": "false", "bucket": "2"}
    with (
        embedded_stack(bench.folder / "compactor") as stack,
        lakelog.connect(stack.target) as catalog,
        _running(stack, "compactor", ["run"], _target(stack)) as process,
    ):
        table = _make_table(catalog, "compacted", options, key=True)
        commits = _Counter()

        def attach() -> None:
            _upsert(table, commits.take())
            newest = table.snapshots(1).column("id").to_pylist()[0]
            listed = catalog.metastore.list_snapshots
            _wait_for(lambda: listed(table.uuid, limit=1).complete_until >= newest, "the changelog is attached")

        killed = Killed(process, attach)
        killed.succeed()
        yield _compare("compactor, idle: the next changelog", killed, _pairs(bench), None)
        busy_s = []
        # Each waits for the lease of the job.
        for _ in range(0 if bench.quick else bench.pairs):
            with _repeating(lambda: _upsert(table, commits.take())):
                time.sleep(1.0)
                busy_s.append(killed.time_after_kill())
        if busy_s:
            yield absolute("compactor, at work: the next changelog", "s", busy_s)
        check_equal("rows", table.scan().count(), ROWS)


def measure_reader(bench: Bench) -> Iterator[Figure]:
    """To the next batch of a subscription through the reader service that was open before."""
    with embedded_stack(bench.folder / "reader") as stack:
        target = f"127.0.0.1:{free_port()}"
        arguments = ["serve", "--listen", target, "--insecure-dev"]
        with (
            _running(stack, "reader", arguments, _target(stack), is_ready=lambda: is_serving(target)) as process,
            lakelog.connect(stack.target) as catalog,
            lakelog.connect(stack.target, reader=target) as remote,
        ):
            table = _make_table(catalog, "followed")
            commits, seen = _Counter(), 0
            with remote.table(table.name).subscribe("latest") as stream:

                def receive() -> None:
                    nonlocal seen
                    _append(table, commits.take())
                    while seen < commits.taken * ROWS:
                        batch = stream.read(WITHIN_S)
                        if batch is None:
                            raise WrongAnswerError(f"{seen} of {commits.taken * ROWS} rows came")
                        seen += batch.data.num_rows

                receive()
                yield _compare("reader: the next batch", Killed(process, receive), _pairs(bench), None)
            check_equal("rows received", seen, commits.taken * ROWS)


def measure_pipeline(bench: Bench) -> Iterator[Figure]:
    """To the next row of a pipeline of the writer: of one that is alone, and of one of two."""
    folder = bench.folder / "writer"
    with embedded_stack(folder) as stack, lakelog.connect(stack.target) as catalog:
        table = _make_table(catalog, "ingested")
        source = folder / "in"
        source.mkdir()
        file = folder / "pipeline.yaml"
        file.write_text(
            f"name: p\ntable: {table.name}\nmode: append\nsource: {{type: files, path: ./in, format: csv}}\n"
            "trigger: {interval: 100 ms}\ncheckpoint: ./state\n"
        )
        files = _Counter()

        def ingest() -> None:
            number = files.take()
            draft = folder / "draft.csv"
            draft.write_text("k,v\n" + "".join(f"{row},{number}\n" for row in range(ROWS)))
            draft.rename(source / f"{number:06d}.csv")
            _wait_for(lambda: table.scan().count() >= files.taken * ROWS, "the rows are in the table")

        arguments = ["run", str(file)]
        with _running(stack, "writer", arguments, _target(stack), name="pipeline-1") as process:
            ingest()
            yield _compare("writer pipeline, alone: the next row", Killed(process, ingest), _pairs(bench), PIPELINE_S)
            with _running(stack, "writer", arguments, _target(stack), name="pipeline-2") as other:
                taken_over_s = []
                for number in range(_pairs(bench)):
                    active, standby = (other, process) if number % 2 else (process, other)
                    _wait_for(partial(_is_standby, standby), "the other one is ready to take over")
                    begun_s = time.perf_counter()
                    active.kill()
                    ingest()
                    taken_over_s.append(time.perf_counter() - begun_s)
                    active.start()
                yield absolute("writer pipeline, one of two: the next row", "s", taken_over_s)
        check_equal("rows", table.scan().count(), files.taken * ROWS)


def _is_standby(process: ManagedProcess) -> bool:
    """Whether the last line of a pipeline's log says that it waits, with a session that is warm."""
    lines = process.log.read_text().splitlines()
    return bool(lines) and '"ready to take over"' in lines[-1]


def _pairs(bench: Bench) -> int:
    """A service takes seconds to start, whatever there is for it to do."""
    return 1 if bench.quick else bench.pairs


class _Counter:
    """Counts what was asked for."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self) -> int:
        self.taken += 1
        return self.taken


class _LoggedTable:
    """A table with a log, and a consumer that knows nothing of lakelog."""

    def __init__(self, stack: EmbeddedStack, table: Table) -> None:
        self._table = table
        self._commits = _Counter()
        self._seen = 0
        self._metastore = table._context.metastore
        topic = self._metastore.get_log(table.uuid).topic
        settings = {"bootstrap.servers": stack.kafka, "group.id": "bench", "isolation.level": "read_committed"}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def holder(self) -> str:
        """Who publishes it; empty: nobody."""
        return self._metastore.get_publish_state(self._table.uuid).holder

    def succeed(self) -> None:
        """Commits rows and waits until the consumer has them."""
        _append(self._table, self._commits.take())
        give_up_s = time.monotonic() + WITHIN_S
        while self._seen < self._commits.taken * ROWS:
            message = self._consumer.poll(0.1)
            if message is not None:
                if message.error() is not None:
                    raise KafkaException(message.error())
                self._seen += 1
            if time.monotonic() > give_up_s:
                raise WrongAnswerError(f"{self._seen} of {self._commits.taken * ROWS} records came")

    def close(self) -> None:
        """Checks that nothing came twice, and ends."""
        more = len(self._consumer.consume(ROWS, 0.5))
        self._consumer.close()
        check_equal("records", self._seen + more, self._commits.taken * ROWS)


@contextlib.contextmanager
def _running(
    stack: EmbeddedStack,
    service: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    *,
    name: str = "",
    is_ready: Callable[[], bool] | None = None,
) -> Iterator[ManagedProcess]:
    """A service for the length of a `with` block."""
    process = ManagedProcess(
        name or service,
        service_command(service, arguments),
        log=Path(stack.folder) / "logs" / f"{name or service}-killed.log",
        # With HOME and PATH: Spark finds the machine's Java, and its classes as an earlier start left them.
        environment=service_environment(service, {**os.environ, **environment}),
        working_directory=stack.folder,
        is_ready=is_ready,
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()


def _target(stack: EmbeddedStack) -> dict[str, str]:
    return {"LAKELOG_TARGET": stack.target}


def _make_table(catalog: Catalog, name: str, options: Mapping[str, str] | None = None, *, key: bool = False) -> Table:
    catalog.create_database("b", if_not_exists=True)
    return catalog.create_table(f"b.{name}", _SCHEMA, primary_key=["k"] if key else [], options=options or {})


def _rows(number: int) -> pa.Table:
    return pa.table([list(range(ROWS)), [number] * ROWS], schema=_SCHEMA)


def _append(table: Table, number: int) -> None:
    """Appends; where it is certain that nothing has happened, once more."""
    give_up_s = time.monotonic() + WITHIN_S
    while True:
        try:
            table.append(_rows(number))
            return
        except Unavailable:
            if time.monotonic() > give_up_s:
                raise


def _upsert(table: Table, number: int) -> None:
    table.upsert(_rows(number))


def _wait_for(is_so: Callable[[], bool], what: str) -> None:
    give_up_s = time.monotonic() + WITHIN_S
    while not is_so():
        if time.monotonic() > give_up_s:
            raise WrongAnswerError(f"not within {WITHIN_S:g} s: {what}")
        time.sleep(_POLL_S)


def _in_parallel(works: Sequence[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _repeating(work: Callable[[], None]) -> Iterator[None]:
    """Does something again and again for the length of a `with` block."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.02):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _compare(name: str, killed: Killed, pairs: int, target_s: int | None) -> Figure:
    """Kills and ends it in turn; a first pair is not counted."""
    runs = [(killed.time_after_kill(), killed.time_after_end()) for _ in range(pairs + (pairs > 1))][-pairs:]
    ratios = [start_s / kill_s for kill_s, start_s in runs]
    middle_s = statistics.median(kill_s for kill_s, _ in runs)
    return Figure(
        name,
        "s",
        middle_s,
        statistics.median(start_s for _, start_s in runs),
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        pairs,
        target_s,
        None if target_s is None else middle_s <= target_s,
        aim=None if target_s is None else f"<= {target_s} s",
    )
