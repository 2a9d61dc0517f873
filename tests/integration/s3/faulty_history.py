"""Random histories on an S3 store with faults: writers, a compactor, a reader and a subscriber at once."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Unavailable
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import LocationStores
from metastore.use_cases import PLANNERS
from tests.integration.s3.tables import open_catalog
from tests.support.s3.faults import Cut, Fault, Lost, Overtaken, Refused, Rule, Slow
from tests.support.s3.proxy import S3Proxy
from tests.support.tables.attaching import make_service

WRITERS: Final = 2
COMMITS: Final = 5
KEYS: Final = 300
"""Keys of each writer."""

SCHEMA: Final = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("commit", pa.int64()), pa.field("text", pa.string())]
)
MOST_REPEATS: Final = 200


class FaultyHistory:
    """One history. Each commit of a writer sets all of its keys, so a torn read shows two commits' numbers.

    Args:
        settings: The server.
        seed: Decides the options of the tables and, as far as threads allow, the faults.
        share: The part of the requests that each of the faults strikes.
        attempts: How often requests are made.
        looks_up: Whether the keyed table may have a changelog producer. Its stream waits for jobs, and a job that
            failed is done again after a minute.
    """

    def __init__(
        self, settings: S3Settings, seed: int, *, share: float = 0.012, attempts: int = 7, looks_up: bool = True
    ) -> None:
        assert settings.endpoint is not None
        self._settings = settings
        self._random = random.Random(seed)
        self._seed = seed
        self._share = share
        self._attempts = attempts
        self._looks_up = looks_up
        self.proxy: Final = S3Proxy(settings.endpoint, seed)
        self.unanswered: Final[Counter[str]] = Counter()
        """How often calls failed because the store did not answer, by what was called."""
        self._done = [0] * WRITERS
        self._writing = threading.Event()
        self._followed = threading.Event()
        self._failed = False

    def run(self) -> None:
        """Runs it to its end, and compares."""
        faulty = dataclasses.replace(self._settings, endpoint=self.proxy.endpoint, attempts=self._attempts)
        options = {
            "bucket": "2",
            "changelog-producer": self._random.choice(("none", "lookup")) if self._looks_up else "none",
            "snapshot.time-retained": "0 ms",
            "snapshot.num-retained.min": "2",
        }
        with self.proxy, open_catalog(faulty, f"s3://lake/{uuid.uuid4().hex}/", PLANNERS) as catalog:
            self._keyed = catalog.create_table("shop.keyed", SCHEMA, primary_key=["id"], options=options)
            self._log = catalog.create_table("shop.log", SCHEMA)
            self._metastore, self._stores = catalog.metastore, LocationStores(faulty)
            self.proxy.strike(*self._rules())
            self._writing.set()
            with ThreadPoolExecutor(8) as pool:
                compactor, reader, follower = map(pool.submit, (self._compact, self._read, self._follow))
                try:
                    for writer in [pool.submit(self._write, number) for number in range(WRITERS)]:
                        writer.result()
                    self._writing.clear()
                    if self._attempts == 1:
                        # A batch of the stream takes many requests; without repetitions it would hardly ever come.
                        self.proxy.heal()
                    # The stream needs changelogs that the compactor makes.
                    follower.result()
                except BaseException:
                    self._failed = True
                    raise
                finally:
                    self._writing.clear()
                    self._followed.set()
                reader.result()
                compactor.result()
            self.proxy.heal()
            self._compact()
            self._compare()

    def _rules(self) -> list[Rule]:
        faults: list[Fault] = [
            Refused(),
            Refused(500, "InternalError", is_done=True),
            Lost(),
            Lost(is_done=True),
            Lost(late_s=0.5),
            Cut(self._random.choice((0, 30, 1000))),
            Slow(0.2),
            Overtaken(),
        ]
        return [
            Rule(Cut(self._random.choice((0, 100, 2000)), is_admitted=True), "GET", "/data/[^?]*$", share=0.1),
            *(Rule(fault, share=self._share) for fault in faults),
        ]

    def _repeat(self, what: str, work: Callable[[], object]) -> None:
        for _ in range(MOST_REPEATS):
            try:
                work()
            except Unavailable:
                self.unanswered[what] += 1
            else:
                return
        raise AssertionError(f"{what}: the store never answered")

    def _write(self, number: int) -> None:
        writer = f"writer-{number}"
        for commit in range(1, COMMITS + 1):
            given: Any = {"data": _rows(number, commit), "writer": writer, "identifier": commit}
            self._repeat("upsert", partial(self._keyed.upsert, **given))
            self._repeat("append", partial(self._log.append, **given))
            self._done[number] = commit

    def _compact(self) -> None:
        while True:
            assert make_service(self._metastore, stores=self._stores).run() == 0
            if self._followed.wait(0.1):
                return

    def _read(self) -> None:
        while self._writing.is_set():
            done = list(self._done)
            try:
                keyed, log = self._keyed.scan().to_arrow(), self._log.scan().to_arrow()
                one = self._keyed.scan(filter="id = 7").to_arrow()
            except Unavailable:
                self.unanswered["scan"] += 1
                continue
            _check(keyed, done, [1])
            assert set(one["id"].to_pylist()) <= {7}
            _check(log, done, range(1, COMMITS + 1))

    def _follow(self) -> None:
        """Applies the keyed table's changes until all commits have arrived; subscribes again when that fails."""
        found: dict[int, int] = {}
        for _ in range(MOST_REPEATS):
            with contextlib.suppress(Unavailable), self._keyed.subscribe(consumer_id="reader") as stream:
                while not self._failed and (len(found) < WRITERS * KEYS or min(found.values()) < COMMITS):
                    batch = stream.read(timeout=1)
                    for row in [] if batch is None else batch.data.to_pylist():
                        if row["_row_kind"] in ("+I", "+U"):
                            assert row["commit"] >= found.get(row["id"], 0), "a change came back"
                            found[row["id"]] = row["commit"]
                return
            self.unanswered["stream"] += 1
        raise AssertionError("the stream never ended")

    def _compare(self) -> None:
        _check(self._keyed.scan().to_arrow(), [COMMITS] * WRITERS, [1])
        _check(self._log.scan().to_arrow(), [COMMITS] * WRITERS, range(1, COMMITS + 1))
        for table in (self._keyed, self._log):
            _check_files(table)


def _rows(writer: int, commit: int) -> pa.Table:
    ids = np.arange(KEYS) * WRITERS + writer
    texts = [f"{writer} {commit} {each * 7919 % 10_007}" for each in range(KEYS)]
    return pa.table([ids, np.full(KEYS, commit), texts], schema=SCHEMA)


def _check(found: pa.Table, done: Sequence[int], times: Sequence[int]) -> None:
    """Checks that each writer's rows are those of a whole commit, not older than its last one.

    Args:
        found: The rows.
        done: The commits of each writer that were acknowledged before the read.
        times: With one entry each commit replaces the one before; else all are there.
    """
    for writer, last in enumerate(done):
        mine = found.filter(pc.equal(pc.bit_wise_and(found["id"], 1), writer))
        commits = sorted(set(mine["commit"].to_pylist()))
        assert (commits[-1] if commits else 0) >= last, "a commit is lost"
        assert commits == (list(times[: len(commits)]) if len(times) > 1 else commits[:1]), "two commits show"
        expected = pa.concat_tables([_rows(writer, commit) for commit in commits] or [SCHEMA.empty_table()])
        order = [("commit", "ascending"), ("id", "ascending")]
        assert mine.sort_by(order).equals(expected.sort_by(order)), "rows are lost, doubled or wrong"


def _check_files(table: Table) -> None:
    """Cleans up, and checks that nothing is left that nothing refers to, and nothing is missing."""
    found = table.check_files(repair=True, older_than=dt.timedelta(0))
    assert (found.broken_files, found.left_files) == (0, 0)
    after = table.check_files()
    assert (after.orphan_files, after.broken_files) == (0, 0), after
