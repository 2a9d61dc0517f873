"""Subscriptions through the reader service show what those without it show, over replicas that come and go."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog import AddColumn, DropColumn, RenameColumn
from lakelog.embedded.ports import free_port
from lakelog.embedded.services import is_serving
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import Fenced, InvalidArgument, ResourceExhausted, Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.storage.parquet.read_counts import ReadMetrics
from lakelog.testing import embedded_stack
from tests.support.health import NOT_SERVING, SERVING, health_of
from tests.support.replicas import end_replica, launch_replica
from tests.support.repository import ROOT

from .rows import ITEMS, SUBSCRIPTIONS, WAIT_S, Start, is_silent, items, make_append, make_keyed, take


def test_it_shows_what_a_subscription_without_it_shows(
    catalog: Catalog, database: str, start_replica: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed, append = make_keyed(catalog, database), make_append(catalog, database)
    for number in range(5):
        with catalog.transaction(watermark=number) as tx:
            tx.table(keyed.name).upsert(items(number, 7, v=f"v{number}"))
            tx.table(append.name).append(items(number))
        keyed.delete(pa.table({"id": [number - 1]}))
    target = start_replica().target
    names = [keyed.name, append.name]
    ways: list[dict[str, Any]] = [
        {},
        {"scan_mode": "from-timestamp", "options": {"scan.timestamp-millis": 0}},
        {"columns": {keyed.name: ["v"], append.name: []}, "options": {"scan.timestamp-millis": 0}},
        {"filter": {keyed.name: "id = 7"}, "options": {"scan.timestamp-millis": 0, "scan.bounded.watermark": 2}},
    ]
    for way in ways:
        with catalog.subscribe(names, **way) as near, catalog.subscribe(names, reader=target, **way) as far:
            while (expected := near.read(2.0)) is not None:
                got = far.read(WAIT_S)
                assert got is not None
                assert (got.table, got.snapshot_id, far.is_whole) == (
                    expected.table,
                    expected.snapshot_id,
                    near.is_whole,
                )
                assert got.data.equals(expected.data)
                assert got.data.schema.equals(expected.data.schema)
            far.read(0.5)
            assert far.positions == near.positions
            assert far.ended == near.ended
    monkeypatch.setenv("LAKELOG_READER", target)
    with lakelog.connect(str(catalog.metastore._connection.target)) as other:  # type: ignore[attr-defined]
        assert str(other.context.reader) == target
        with other.table(append.name).subscribe(options={"scan.snapshot-id": 3}) as stream:
            assert take(stream, 3) == [(append.name, n + 1, n, f"x{n}") for n in (2, 3, 4)]


def test_the_log_says_who_reads_what_and_how_far(
    catalog: Catalog, database: str, start_replica: Start, tmp_path: Path
) -> None:
    table = make_append(catalog, database)
    table.append(items(1))
    target = start_replica().target
    with lakelog.request_id("dashboard-7"), table.subscribe(consumer_id="dashboard", reader=target) as stream:
        take(stream, 1)
        assert stream.read(0.5) is None, "the snapshot is complete"

    def find(event: str) -> dict[str, Any]:
        give_up_s = time.monotonic() + WAIT_S
        while time.monotonic() < give_up_s:
            lines = (tmp_path / "reader-0.log").read_text().splitlines()
            found = [json.loads(line) for line in lines if f'"event": "{event}"' in line]
            if found:
                return found[0]
            time.sleep(0.05)
        raise AssertionError(f"no line says {event}")

    for event in ("subscription opened", "subscription ended"):
        line = find(event)
        assert (line["table"], line["consumer"]) == ([str(table.name)], "dashboard")
        assert line["request_id"] == "dashboard-7"
    assert "snapshot" not in find("subscription opened")
    assert (line["snapshot"], line["outcome"]) == ([1], "client")


def test_a_stream_keeps_its_columns_over_changes_and_replicas(
    catalog: Catalog, database: str, start_replica: Start
) -> None:
    table = make_append(catalog, database)
    replicas = [start_replica(), start_replica()]
    with table.subscribe("latest", reader=",".join(each.target for each in replicas)) as stream:
        table.append(items(1))
        assert take(stream, 1) == [(table.name, 1, 1, "x1")]
        table.alter(columns=[AddColumn("added", pa.int32(), first=True), RenameColumn("v", "text")])
        # The other one has never seen what the stream began with.
        next(each for each in replicas if each.measure(SUBSCRIPTIONS)).kill()
        table.append(items(2).rename_columns(["id", "text"]), fill_missing=True)
        assert take(stream, 1) == [(table.name, 2, 2, "x2")]
        table.alter(columns=[DropColumn("text")])
        table.append(pa.table({"id": [3]}), fill_missing=True)
        with pytest.raises(InvalidArgument, match="v: was dropped") as caught:
            stream.read(WAIT_S)
        assert (caught.value.reason, caught.value.metadata["snapshot_id"]) == ("COLUMNS_CHANGED", "2")


@pytest.mark.parametrize("consumer", [None, "etl"])
def test_nothing_is_lost_or_doubled_when_replicas_are_killed(
    catalog: Catalog, database: str, start_replica: Start, consumer: str | None
) -> None:
    keyed, append = make_keyed(catalog, database), make_append(catalog, database)
    append.append(items(*range(1000, 200_000)))
    replicas = [start_replica(), start_replica()]
    # Each is started again at its own address.
    reader = ",".join(each.target for each in replicas)
    done = threading.Event()

    def write() -> None:
        for number in range(40):
            with catalog.transaction() as tx:
                tx.table(keyed.name).upsert(items(*range(number, number + 300), v=f"n{number}-"))
                tx.table(append.name).append(items(number))
            time.sleep(0.02)
        done.set()

    writing = threading.Thread(target=write)
    found: list[tuple[Any, ...]] = []
    kills = 0
    with catalog.subscribe([append.name, keyed.name], consumer_id=consumer, reader=reader) as stream:
        writing.start()
        silent_until_s = time.monotonic() + 60
        while True:
            batch = stream.read(3.0)
            if batch is None:
                # A replica may take longer than that to come back.
                assert time.monotonic() < silent_until_s, f"nothing came behind {stream.positions}"
                if done.is_set() and stream.positions == {append.name: 41, keyed.name: 40}:
                    break
                continue
            silent_until_s = time.monotonic() + 60
            found += [(batch.table, batch.snapshot_id, *row.values()) for row in batch.data.to_pylist()]
            if kills < 5 and len(found) > kills * 60_000:
                serving = next((i for i, each in enumerate(replicas) if each.measure(SUBSCRIPTIONS)), None)
                if serving is not None:
                    replicas[serving].kill()
                    kills += 1
                    replicas[serving] = start_replica(listen=replicas[serving].target)
    writing.join()
    assert kills >= 3
    expected = [(append.name, 1, n, f"x{n}") for n in range(1000, 200_000)]
    assert [row for row in found if row[:2] == (append.name, 1)] == expected
    for table in (keyed, append):
        changes = table.changes(0 if table is keyed else 1).to_arrow().to_pylist()
        # Streams of append tables have no row kinds.
        width = 3 if table is keyed else 2
        wanted = [(table.name, row.pop("_snapshot_id"), *list(row.values())[:width]) for row in changes]
        assert [row for row in found if row[0] == table.name and row[:2] != (append.name, 1)] == wanted
    order = [row[:2] for row in found if row[:2] != (append.name, 1)]
    parts = list(dict.fromkeys(order))
    assert parts == [part for n in range(1, 41) for part in ((append.name, n + 1), (keyed.name, n))]
    if consumer is not None:
        for name, at in ((append.name, 41), (keyed.name, 40)):
            (kept,) = catalog.table(name).consumers.list().to_pylist()
            assert (kept["id"], kept["snapshot_id"]) == ("etl", at)


def test_a_replica_that_ends_sends_its_clients_elsewhere(catalog: Catalog, database: str, start_replica: Start) -> None:
    table = make_append(catalog, database)
    replicas = [start_replica(), start_replica()]
    with table.subscribe(consumer_id="etl", reader=",".join(each.target for each in replicas)) as stream:
        table.append(items(1))
        assert take(stream, 1) == [(table.name, 1, 1, "x1")]
        assert is_silent(stream)
        serving = next(each for each in replicas if each.measure(SUBSCRIPTIONS))
        assert serving.stop() == 0
        table.append(items(2))
        assert take(stream, 1) == [(table.name, 2, 2, "x2")]
        stream.commit()
        assert table.consumers.list().column("snapshot_id").to_pylist() == [2]
        other = next(each for each in replicas if each is not serving)
        assert other.measure(SUBSCRIPTIONS) == 1
    other.wait_for(SUBSCRIPTIONS, 0)
    with pytest.raises(Unavailable):
        table.subscribe(reader=serving.target)


def test_overwrites_that_are_not_shown_are_reported_once_over_all_replicas(
    catalog: Catalog, database: str, start_replica: Start, caplog: pytest.LogCaptureFixture
) -> None:
    keyed, append = make_keyed(catalog, database), make_append(catalog, database)
    replicas = [start_replica(), start_replica()]
    names = [keyed.name, append.name]
    with catalog.subscribe(names, "latest", reader=",".join(each.target for each in replicas)) as stream:
        for number in range(3):
            keyed.overwrite(items(number))
        append.overwrite(items(1))
        keyed.upsert(items(7))
        assert take(stream, 1) == [(keyed.name, 4, 7, "x7", "+I")]
        assert is_silent(stream)
        assert stream.metrics == ReadMetrics(snapshots_skipped=4)
        next(each for each in replicas if each.measure(SUBSCRIPTIONS)).kill()
        append.overwrite(items(2))
        append.append(items(3))
        assert take(stream, 1) == [(append.name, 3, 3, "x3")]
        assert stream.metrics.snapshots_skipped == 5
    reported = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    skipped = [(each.split(":")[0], int(n)) for each in reported for n in re.findall(r"\d+", each.split(":")[1])]
    assert sorted(skipped) == sorted(
        [(keyed.name, 1), (keyed.name, 2), (keyed.name, 3), (append.name, 1), (append.name, 2)]
    )
    assert all("overwrote rows" in each and "'streaming-read-overwrite' = 'true' shows it" in each for each in reported)
    caplog.clear()
    options: dict[str, str | int] = {"scan.timestamp-millis": 0, "streaming-read-overwrite": "true"}
    target = next(each for each in replicas if each.process.poll() is None).target
    with keyed.subscribe(options=options, reader=target) as stream:
        take(stream, 6)
        assert stream.metrics.snapshots_skipped == 0
    assert not caplog.records


def test_one_reader_a_consumer_over_all_replicas(catalog: Catalog, database: str, start_replica: Start) -> None:
    table = make_append(catalog, database)
    table.append(items(1))
    first, second = start_replica(), start_replica()
    with table.subscribe(consumer_id="etl", reader=first.target, options={"scan.snapshot-id": 1}) as stream:
        assert len(take(stream, 1)) == 1
        with table.subscribe(consumer_id="etl", reader=second.target) as other:
            assert take(other, 1) == [(table.name, 1, 1, "x1")]
            assert is_silent(other)
            with pytest.raises(Fenced, match=r"Consumer 'etl' of table .* is read by 'reader "):
                stream.read(WAIT_S)
            with pytest.raises(Fenced):
                stream.commit()
            table.append(items(2))
            assert take(other, 1) == [(table.name, 2, 2, "x2")]


def test_who_was_taken_over_while_its_replica_was_gone_does_not_take_over_again(
    catalog: Catalog, database: str, start_replica: Start
) -> None:
    table = make_append(catalog, database)
    table.append(items(1))
    first, second = start_replica(), start_replica()
    both = f"{first.target},{second.target}"
    with table.subscribe(consumer_id="etl", reader=both, auto_commit=False) as stream:
        assert len(take(stream, 1)) == 1
        with table.subscribe(consumer_id="etl", auto_commit=False) as other:
            next(each for each in (first, second) if each.measure(SUBSCRIPTIONS)).kill()
            with pytest.raises(Fenced, match=r"is read by .* by now.*Subscribe again to take over"):
                take(stream, 1)
            assert take(other, 1) == [(table.name, 1, 1, "x1")]
            other.commit()


def test_a_slow_client_holds_only_itself(catalog: Catalog, database: str, start_replica: Start) -> None:
    table = make_append(catalog, database)
    data = items(*range(100_000), v="y" * 500)
    for _ in range(4):
        table.append(data)
    replica = start_replica()
    options = {"scan.timestamp-millis": 0}
    with table.subscribe(options=options, reader=replica.target) as slow:
        assert slow.read(WAIT_S) is not None
        with table.subscribe(options=options, reader=replica.target) as quick:
            rows = 0
            while rows < 400_000:
                batch = quick.read(WAIT_S)
                assert batch is not None
                rows += batch.data.num_rows
        replica.wait_for(SUBSCRIPTIONS, 1)
        # 200 MB wait; on their way is what the client has asked for, and one message more.
        time.sleep(3.0)
        assert 8 << 20 < replica.measure("lakelog_reader_untaken_bytes") <= 24 << 20
        assert replica.measure("lakelog_reader_lag_snapshots") >= 1


_DEAD_CLIENT = """
import sys, lakelog
stream = lakelog.connect(sys.argv[1], reader=sys.argv[2]).table(sys.argv[3]).subscribe()
print("open", flush=True)
stream.read()
"""


def test_a_dead_client_frees_its_subscription(
    stack: EmbeddedStack, catalog: Catalog, database: str, start_replica: Start
) -> None:
    table = make_append(catalog, database)
    replica = start_replica("--max-subscriptions", "1")
    command = [sys.executable, "-c", _DEAD_CLIENT, stack.target, replica.target, table.name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"open\n"
        assert replica.measure(SUBSCRIPTIONS) == 1
        with pytest.raises(ResourceExhausted, match="has 1 subscriptions open, which is its limit"):
            table.subscribe(reader=replica.target)
        other = start_replica()
        with table.subscribe(reader=f"{replica.target},{other.target}"):
            assert other.measure(SUBSCRIPTIONS) == 1
        client.send_signal(signal.SIGKILL)
        client.wait()
    replica.wait_for(SUBSCRIPTIONS, 0)
    with table.subscribe(reader=replica.target) as stream:
        table.append(items(1))
        assert len(take(stream, 1)) == 1


def test_large_rows_come_in_messages_of_bounded_size(catalog: Catalog, database: str, start_replica: Start) -> None:
    table = make_append(catalog, database)
    table.append(pa.table({"id": range(40), "v": ["z" * 1_000_000] * 40}, ITEMS))
    replica = start_replica()
    with table.subscribe(reader=replica.target) as stream:
        sizes: list[int] = []
        while sum(sizes) < 40:
            batch = stream.read(WAIT_S)
            assert batch is not None
            sizes.append(batch.data.num_rows)
        assert max(sizes) <= 8
    table.append(pa.table({"id": [1], "v": ["z" * 9_000_000]}, ITEMS))
    with table.subscribe("latest", reader=replica.target) as stream:
        table.append(pa.table({"id": [1], "v": ["z" * 9_000_000]}, ITEMS))
        with pytest.raises(ResourceExhausted, match=r"A row of .* in snapshot 3 has 9\d+ bytes"):
            stream.read(WAIT_S)


def test_the_embedded_stack_runs_one(tmp_path: Path) -> None:
    with (
        # Not pytest's own folder: that keeps the data of the last runs, and a Postgres is 40 MB.
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        embedded_stack(folder, services=["metastore", "reader"]) as stack,
        lakelog.connect(stack.target, reader=stack.reader_target) as catalog,
    ):
        catalog.create_database("shop")
        table = make_append(catalog, "shop")
        with table.subscribe() as stream:
            table.append(items(1))
            assert len(take(stream, 1)) == 1
            stack.kill("reader")
            table.append(items(2))
            stack.restart("reader")
            assert take(stream, 1) == [(table.name, 2, 2, "x2")]
    with pytest.raises(InvalidArgument, match="'reader' needs the metastore beside it"):
        EmbeddedStack(tmp_path, services=["reader"])


@pytest.mark.slow
def test_without_a_position_to_keep_a_replica_that_hangs_is_left_as_well(
    catalog: Catalog, database: str, start_replica: Start
) -> None:
    table = make_append(catalog, database)
    replicas = [start_replica(), start_replica()]
    with table.subscribe("latest", reader=",".join(each.target for each in replicas)) as stream:
        table.append(items(1))
        assert len(take(stream, 1)) == 1
        hanging = next(each for each in replicas if each.measure(SUBSCRIPTIONS))
        hanging.process.send_signal(signal.SIGSTOP)
        try:
            table.append(items(2))
            # Nothing is asked of it, and it says nothing: after 20 seconds the connection is tried, for 10.
            batch = stream.read(45.0)
            assert batch is not None
            assert batch.data.column("id").to_pylist() == [2]
        finally:
            hanging.process.send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_a_replica_that_hangs_is_left(catalog: Catalog, database: str, start_replica: Start) -> None:
    table = make_append(catalog, database)
    replicas = [start_replica(), start_replica()]
    with table.subscribe("latest", consumer_id="c", reader=",".join(each.target for each in replicas)) as stream:
        table.append(items(1))
        assert len(take(stream, 1)) == 1
        hanging = next(each for each in replicas if each.measure(SUBSCRIPTIONS))
        hanging.process.send_signal(signal.SIGSTOP)
        try:
            table.append(items(2))
            began_s = time.monotonic()
            # The position of the first row is kept before the second is handed out, and only the other replica answers.
            assert take(stream, 1) == [(table.name, 2, 2, "x2")]
            assert time.monotonic() - began_s < 40.0
            table.append(items(3))
            assert take(stream, 1) == [(table.name, 3, 3, "x3")]
            stream.commit()
        finally:
            hanging.process.send_signal(signal.SIGCONT)
        # What the one that hung still had to say is of no use any more.
        table.append(items(4))
        assert take(stream, 1) == [(table.name, 4, 4, "x4")]
        stream.commit()
    assert table.consumers.list().column("snapshot_id").to_pylist() == [4]


def test_closing_ends_the_search_for_a_replica(catalog: Catalog, database: str, start_replica: Start) -> None:
    table = make_append(catalog, database)
    replica = start_replica()
    stream = table.subscribe(reader=replica.target)
    assert is_silent(stream)
    replica.kill()
    assert is_silent(stream)
    began_s = time.monotonic()
    stream.close()
    assert time.monotonic() - began_s < 5.0
    assert stream.read() is None


def test_a_replica_without_a_metastore_says_so(tmp_path: Path) -> None:
    no_one = f"127.0.0.1:{free_port()}"
    probes = f"127.0.0.1:{(port := free_port())}"
    replica = launch_replica(no_one, tmp_path / "reader.log", ("--health-port", str(port)), "127.0.0.1:0")
    try:
        assert not is_serving(replica.target)
        assert health_of(probes, "readiness") == NOT_SERVING
        assert health_of(probes, "liveness") == SERVING, "it must not be restarted for that"
        said = replica.log.read_text()
        assert "development only; the metastore does not answer)" in said
        assert '"event": "not serving: the metastore does not answer", "level": "error"' in said
        assert no_one in said
        assert replica.stop() == 0
    finally:
        end_replica(replica)
