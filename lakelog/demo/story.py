"""The steps of the demo and their output. A comparison at the end fails loudly."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import lakelog
from lakelog.demo import events, freshness, package_data
from lakelog.demo.counting import CountingProcess
from lakelog.demo.expected import Totals, expected_totals, totals_of
from lakelog.demo.plain_consumer import PlainConsumer
from lakelog.errors import DataCorrupted, Unavailable
from lakelog.format.jobs.work import Pipeline

if TYPE_CHECKING:
    from rich.console import Console

    from lakelog.embedded.stack import EmbeddedStack
    from lakelog.sdk.catalog import Catalog
    from lakelog.sdk.tables.table import Table

FILES_PER_BATCH: Final = 26
TRAVEL_BATCH: Final = 7
"""After so many batches of `FILES_PER_BATCH` daily files, from 2012-12-31 on, the end of June is reached."""

_TAG: Final = "end-of-june"

KILL_AT: Final = 5
"""After this snapshot, in the middle of the year, the subscriber is killed."""

_LOG_OPTIONS: Final = {
    "changelog-producer": "lookup",
    "log.system": "kafka",
    # Each change comes with the row before it, so that followers can count without a memory of rows.
    "log.content": "changelog",
    "log.changelog-mode": "all",
}

_PIPELINE: Final = """\
name: flights
table: nyc.flights
source:
  type: files
  path: ./incoming
  format: parquet
  max_files_per_batch: {files}
mode: upsert
trigger:
  available_now: true
checkpoint: ./checkpoint
bad_records: stop
schema:
  evolution: add-columns
"""
_STALL_S: Final = 300.0
"""The longest time without progress, even on a busy machine."""

_REPORT_EVERY_S: Final = 10.0


class Story:
    """One run of the demo."""

    def __init__(self, folder: Path, stack: EmbeddedStack, console: Console) -> None:
        self._folder = folder
        self._stack = stack
        self._console = console
        self._catalog: Catalog = lakelog.connect(stack.target)
        self._flights = package_data.read_flights()
        self._counting = CountingProcess(stack.target, folder)
        self._plain: PlainConsumer | None = None

    def run(self) -> None:
        """Runs all steps.

        Raises:
            DataCorrupted: lakelog's data differs from the package's.
            Unavailable: The pipeline did not finish.
        """
        with self._step("Tables: flights by key, weather as a log; airlines and airports in one transaction"):
            flights = self._make_tables()
        with self._step("A year of flights, as 366 daily files of schedules, departures and arrivals"):
            files = events.write_event_files(self._flights, self._folder / "incoming")
            count = sum(table.num_rows for _, table in events.make_events(self._flights))
            self._say(f"{count:,} events of {self._flights.num_rows:,} flights in {len(files)} files")
        with self._step("The writer service reads them, 26 days a commit; a subscriber counts, and is killed once"):
            self._run_pipeline(flights)
        with self._step("What the subscriber knows from the changes alone"):
            self._show_subscriber(flights)
        if self._plain is not None:
            with self._step("What a plain Kafka consumer knows, which does not import lakelog, from the log alone"):
                self._show_plain_consumer(flights, self._plain)
            with self._step("How soon a row that is written is seen"):
                self._show_freshness()
        with self._step("The column that the source has sent since July, without a restart"):
            self._show_late_column(flights)
        with self._step("Reading with the SDK: merged, pruned, filtered"):
            self._read_with_sdk(flights)
        with self._step("Time travel: the state at the end of June"):
            self._travel(flights)
        with self._step("Snapshots and files"):
            self._show_history(flights)
        with self._step("Compaction: fewer files, the same rows"):
            self._compact(flights)
        with self._step("Expiry: old snapshots go, and their files; a tag keeps the end of June"):
            self._expire(flights)
        with self._step("Reading with Spark"):
            by_carrier = self._read_with_spark()
        with self._step("Comparing with the package's own data"):
            self._compare(flights, by_carrier)

    # Steps

    def _make_tables(self) -> Table:
        catalog = self._catalog
        catalog.create_database("nyc", comment="Flights out of New York in 2013")
        airlines, airports = package_data.read_small("airlines"), package_data.read_small("airports")
        catalog.create_table("nyc.airlines", airlines.schema, primary_key=["carrier"])
        catalog.create_table("nyc.airports", airports.schema, primary_key=["faa"])
        with catalog.transaction() as tx:
            tx.table("nyc.airlines").upsert(airlines)
            tx.table("nyc.airports").upsert(airports)
        assert tx.result is not None
        self._say(f"one commit over two tables: snapshots {dict(tx.result.snapshot_ids)}")
        planes = package_data.read_small("planes")
        catalog.create_table("nyc.planes", planes.schema, primary_key=["tailnum"]).upsert(planes)
        weather = package_data.read_small("weather")
        log = catalog.create_table("nyc.weather", weather.schema)
        for month in range(1, 13):
            log.append(weather.filter(pa.compute.equal(weather.column("month"), month)))
        self._say(f"{log.scan().count():,} hours of weather in {len(log.snapshots())} commits of an append table")
        options = {"bucket": "2", "sequence.field": "stage"}
        if self._stack.kafka:
            options |= _LOG_OPTIONS | {"kafka.bootstrap.servers": self._stack.kafka}
        flights = catalog.create_table(
            "nyc.flights",
            events.SCHEMA,
            primary_key=list(events.KEY),
            options=options,
            comment="One row a flight, as last heard of",
        )
        if self._stack.kafka:
            topic = catalog.metastore.get_log(flights.uuid).topic
            self._plain = PlainConsumer("delays", self._stack.kafka, topic, self._folder)
            self._say(f"the flights' changes go to the Kafka topic {topic}")
        return flights

    def _run_pipeline(self, flights: Table) -> None:
        file = self._folder / "flights.yaml"
        file.write_text(_PIPELINE.format(files=FILES_PER_BATCH), encoding="utf-8")
        from lakelog.embedded.java import java_home

        environment = {"LAKELOG_TARGET": self._stack.target, "JAVA_HOME": str(java_home(os.environ))}
        self._stack.add_service("writer", ["run", str(file)], name="writer-flights", environment=environment)
        self._counting.start()
        if self._plain is not None:
            self._plain.start()
        killed_at: int | None = None
        batches = -(-366 // FILES_PER_BATCH)
        done, since_s = None, time.monotonic()
        with self._console.status("starting Spark ...") as status:
            reported_s, reported = time.monotonic(), ""
            while True:
                time.sleep(0.5)
                found = {p.name: p for p in self._catalog.metastore.list_pipelines()}.get("flights")
                if found is not None:
                    if found.last_batch_id != done:
                        done, since_s = found.last_batch_id, time.monotonic()
                    status.update(f"{found.state}: {_describe(found)}")
                    killed_at = killed_at or self._kill_once()
                    if found.state == "failed":
                        raise Unavailable(f"The pipeline failed: {found.last_error}")
                    if found.state == "stopped" and (found.last_batch_id or 0) >= batches - 1:
                        break
                if not self._console.is_terminal and time.monotonic() - reported_s >= _REPORT_EVERY_S:
                    # If lines cannot be rewritten, as in a file, each one is a sign of life.
                    reported_s, before, reported = time.monotonic(), reported, _describe(found)
                    self._say(reported if reported != before else f"... for {reported_s - since_s:.0f} s")
                if time.monotonic() - since_s > _STALL_S:
                    words = "\n".join(self._stack.last_log_lines("writer-flights"))
                    raise Unavailable(f"The pipeline stands still for {_STALL_S:.0f} s. It said last:\n{words}")
        self._say(f"{found.total_rows:,} rows in {len(flights.snapshots())} commits, {found.position}")

    def _kill_once(self) -> int | None:
        """Kills the subscriber in the middle of the year, and starts it again; returns the snapshot."""
        snapshot_id = self._counting.numbers().snapshot_id
        if snapshot_id < KILL_AT:
            return None
        self._counting.kill()
        self._say(f"killed the subscriber after snapshot {snapshot_id}, and started it again")
        self._counting.start()
        if self._plain is not None:
            self._plain.kill()
            self._say("and the Kafka consumer, too")
            self._plain.start()
        return snapshot_id

    def _show_subscriber(self, flights: Table) -> None:
        numbers = self._counting.wait_for(_commits(flights)[-1]["id"], _STALL_S)
        self._counting.kill()
        self._say(f"snapshot {numbers.snapshot_id}: {numbers.by_status.get('departed', 0)} flights in the air")
        means = {name: numbers.delay_minutes[name] / count for name, count in numbers.arrivals.items() if count}
        worst = sorted(means, key=lambda name: -means[name])[:3]
        self._say("the latest carriers on average: " + ", ".join(f"{name} {means[name]:.1f} min" for name in worst))

    def _show_plain_consumer(self, flights: Table, consumer: PlainConsumer) -> None:
        last = _commits(flights)[-1]["id"]
        end_s = time.monotonic() + _STALL_S
        while True:
            found = self._catalog.metastore.find_log_offsets(flights.uuid)
            if found is not None and found.snapshot_id >= last:
                break
            if time.monotonic() > end_s:
                words = "\n".join(self._stack.last_log_lines("publisher"))
                raise Unavailable(f"Snapshot {last} was not published in time. The publisher said last:\n{words}")
            time.sleep(0.1)
        consumer.wait_for_offsets(found.offsets, _STALL_S)
        consumer.kill()
        numbers = consumer.read_numbers()
        self._say(f"snapshot {last}, {sum(found.offsets):,} offsets: {numbers['by_status']}")

    def _show_freshness(self) -> None:
        catalog, brokers = self._catalog, self._stack.kafka
        shown = {"files, to a subscriber": freshness.measure_files(catalog, "nyc.pulse_files")}
        for consistency in ("transactional", "eventual"):
            shown[f"the log, {consistency}, to a plain Kafka consumer"] = freshness.measure_log(
                catalog, f"nyc.pulse_{consistency}", brokers, self._folder, consistency
            )
        for way, milliseconds in shown.items():
            self._say(f"by {way}: {milliseconds:.0f} ms")

    def _show_late_column(self, flights: Table) -> None:
        name = events.LATE_COLUMN.name
        rows = self._catalog.table(flights.name).scan(columns=["flight_date", name]).to_arrow()
        schemas = [each["schema_id"] for each in _commits(flights)]
        self._say(f"{name}: added by the pipeline before commit {schemas.index(1) + 1} of {len(schemas)}")
        since = pa.compute.greater_equal(self._flights.column("flight_date"), events.LATE_SINCE)
        _check(f"the column {name}", _count_and_sum(rows, name), _count_and_sum(self._flights.filter(since), name))

    def _read_with_sdk(self, flights: Table) -> None:
        scan = flights.scan(columns=["carrier", "arr_delay"], filter="origin = 'JFK' AND arr_delay > 600")
        worst = scan.to_pandas().sort_values("arr_delay", ascending=False).head(3)
        for carrier, delay in worst.itertuples(index=False):
            self._say(f"from JFK, {carrier}: {delay} minutes late")
        one = flights.scan(filter="flight_date = DATE '2013-07-04' AND carrier = 'HA' AND flight = 51").to_pandas()
        self._say(f"one row by its key: {one.iloc[0].to_dict() if len(one) else 'none'}")

    def _travel(self, flights: Table) -> None:
        day = dt.date(2012, 12, 31) + dt.timedelta(days=TRAVEL_BATCH * FILES_PER_BATCH - 1)
        snapshot_id = flights.tags.create(_TAG, _commits(flights)[TRAVEL_BATCH - 1]["id"])
        then = totals_of(flights.scan(snapshot_id=snapshot_id).to_arrow())
        self._say(f"snapshot {snapshot_id}, {day}, from now on also called '{_TAG}': {then.by_status}")
        _check(f"the state of {day}", then, expected_totals(self._flights, day))

    def _show_history(self, flights: Table) -> None:
        last = _commits(flights)[-1]
        self._say(f"snapshot {last['id']} by {last['writer']}, its batch {last['identifier']}")
        self._say(f"{_describe_files(flights)} for {self._flights.num_rows:,} flights")

    def _compact(self, flights: Table) -> None:
        """Shows the compactor's automatic work so far, then requests a full compaction."""
        weather = self._catalog.table("nyc.weather")
        for table in (weather, flights):
            kinds = [each["kind"] for each in table.snapshots().to_pylist()]
            done = kinds.count("COMPACT")
            self._say(f"{table.name}: {len(kinds) - done} commits; compactions that nothing asked for: {done}")
        before = totals_of(flights.scan().to_arrow())
        self._say(f"before: {_describe_files(flights)}")
        for each in flights.compact(full=True, timeout=_STALL_S).buckets:
            self._say(f"{each.name}: {each.outcome}")
        self._say(f"after: {_describe_files(flights)}")
        _check("the year after its compaction", totals_of(flights.scan().to_arrow()), before)

    def _expire(self, flights: Table) -> None:
        """Keeps the newest snapshot and the tagged one, and waits until the compactor has deleted the rest."""
        tagged, before = totals_of(flights.scan(tag=_TAG).to_arrow()), flights.check_files()
        found = flights.expire_snapshots(older_than=dt.datetime.now(dt.UTC), retain_last=1)
        self._say(f"{found.snapshots} snapshots expired; {len(found.tagged)} stayed for its tag")
        end_s = time.monotonic() + _STALL_S
        while (after := flights.check_files()).queued_files and time.monotonic() < end_s:
            time.sleep(0.2)
        self._say(
            f"files on disk, with those of changelogs: {before.files} before, {after.files} after it "
            f"({before.size_bytes / 2**20:.1f} and {after.size_bytes / 2**20:.1f} MiB)"
        )
        _check("the state with the tag, after the expiry", totals_of(flights.scan(tag=_TAG).to_arrow()), tagged)

    def _read_with_spark(self) -> dict[str, int]:
        import lakelog.spark

        with self._console.status("starting Spark ..."):
            with _errors_to(self._folder / "logs" / "spark.log"):
                spark = lakelog.spark.build_session("lakelog demo")
            lakelog.spark.install(spark, self._stack.target)
            frame = lakelog.spark.read_table(spark, "nyc.flights", filter="status = 'arrived'")
            rows = frame.groupBy("carrier").sum("arr_delay").collect()
            hottest = lakelog.spark.read_table(spark, "nyc.weather").selectExpr("max(temp)").first()
            spark.stop()
        self._say(f"sums of delays of {len(rows)} carriers; the hottest hour had {hottest[0] if hottest else '?'} °F")
        return {row[0]: row[1] for row in rows}

    def _compare(self, flights: Table, by_carrier: dict[str, int]) -> None:
        expected = expected_totals(self._flights)
        found = totals_of(flights.scan().to_arrow())
        _check("the whole year, read by the SDK", found, expected)
        _check("delays by carrier, read by Spark", dict(sorted(by_carrier.items())), expected.arr_delay_by_carrier)
        numbers = self._counting.numbers()
        by_status = {status: count for status, count in sorted(numbers.by_status.items()) if count}
        delays = {name: numbers.delay_minutes[name] for name, count in sorted(numbers.arrivals.items()) if count}
        _check("flights by status, counted by the subscriber", by_status, expected.by_status)
        _check("delays by carrier, counted by the subscriber", delays, expected.arr_delay_by_carrier)
        if self._plain is not None:
            plain = self._plain.read_numbers()
            _check("flights by status, by a plain Kafka consumer", plain["by_status"], expected.by_status)
            _check("delays by carrier, by it", plain["delay_minutes"], expected.arr_delay_by_carrier)
        self._say(f"{found.flights:,} flights: {found.by_status}")
        self._say(f"{found.distance_miles:,} miles, {found.arr_delay_minutes:,} minutes late in all: equal everywhere")

    # Output

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self._console.print(f"[bold]{title}[/]")
        began_s = time.monotonic()
        yield
        self._console.print(f"  [dim]{time.monotonic() - began_s:.1f} s[/]")

    def _say(self, line: str) -> None:
        self._console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def _describe(found: Pipeline | None) -> str:
    """The pipeline's progress, or the reason why it waits."""
    if found is None:
        return "Spark is starting"
    if not found.position:
        return "Spark is starting: no file is read yet"
    return f"{found.position}, {found.total_rows:,} rows"


def _commits(table: Table) -> list[dict[str, Any]]:
    """The snapshots that brought rows; compactions have the numbers in between."""
    return [each for each in table.snapshots().to_pylist() if each["kind"] == "APPEND"]


def _count_and_sum(rows: pa.Table, name: str) -> dict[str, int]:
    values = rows.column(name)
    return {"values": len(values) - values.null_count, "sum": pa.compute.sum(values).as_py()}


def _describe_files(table: Table) -> str:
    """The live files of a table, and the sorted runs of its buckets, which a read has to merge."""
    files = table.files()
    stored = pa.compute.sum(files.column("rows")).as_py()
    size = pa.compute.sum(files.column("bytes")).as_py()
    runs: dict[int, set[object]] = {}
    for place, each in enumerate(files.to_pylist()):
        # Each file of level 0 is a run by itself; all files of a higher level form one run.
        runs.setdefault(each["bucket"], set()).add(each["level"] or f"file {place}")
    counts = ", ".join(str(len(each)) for _, each in sorted(runs.items()))
    return f"{len(files)} files, {size / 2**20:.1f} MiB, sorted runs a bucket: {counts}; {stored:,} stored rows"


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Sends the error output of processes that start meanwhile to a file, such as the log of Spark's Java."""
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _check(what: str, found: Totals | dict[str, int], expected: Totals | dict[str, int]) -> None:
    if found != expected:
        raise DataCorrupted(f"The demo found a difference in {what}.\n  lakelog: {found}\n  package: {expected}")
