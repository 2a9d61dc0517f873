"""Random histories over a failover that loses commits: writers, a compactor and a reader, which then must agree."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

import pytest

from compactor.compactions.bucket_work import BucketWork, Strategy, list_bucket, plan_work
from lakelog.errors import HistoryDiverged, NotFound, OutcomeUnknown, Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.e2e.database.lost_files import BUCKET, compact
from tests.e2e.database.two_metastores import TABLE, TwoMetastores, repeat, upsert

pytestmark = pytest.mark.e2e

WRITERS = 3
WRITES = 12
MOST_S = 60.0


@dataclass
class Writer:
    """Commits one row under each number; each try has a value of its own.

    Args:
        name: Of the writer.
        catalog: Its own.
        place: Its number, which tells its keys from those of others.
        values: Of the acknowledged try of each number.
    """

    name: str
    catalog: Catalog
    place: int
    table: Table = field(init=False)
    values: dict[int, str] = field(default_factory=dict)
    tries: int = 0

    def __post_init__(self) -> None:
        self.table = self.catalog.table(TABLE)

    def write_until(self, last: int) -> None:
        """Goes on after what the metastore knows, as every writer does."""
        done = repeat(lambda: self.catalog.last_identifier(self.name, TABLE)) or 0
        for number in range(done + 1, last + 1):
            self.tries += 1
            value = f"{self.name}.{number}.{self.tries}"
            answer = upsert(self.table, self.place * 1000 + number, value, self.name, identifier=number)
            if not answer.already_applied:
                self.values[number] = value


def compact_until(metastore: InProcessMetastore, table: Table, ended: threading.Event) -> int:
    """Compacts again and again, whatever the database does meanwhile; how often it was refused for a lost plan."""
    refused = identifier = 0
    while not ended.is_set():
        identifier += 1
        try:
            work = plan_work(list_bucket(metastore, table.info, BUCKET, {}), BUCKET, Strategy.FULL)
            if isinstance(work, BucketWork):
                ended.wait(0.05)
                compact(metastore, table, work, identifier)
        except HistoryDiverged:
            refused += 1
        except (Unavailable, OutcomeUnknown, NotFound):
            continue
    return refused


def follow(table: Table, ended: threading.Event) -> list[str]:
    """The values that a subscription has shown, which begins again when the history has diverged."""
    give_up_s = time.monotonic() + 2 * MOST_S
    while True:
        found: list[str] = []
        try:
            with table.subscribe() as stream:
                while True:
                    batch = stream.read(0.2)
                    assert time.monotonic() < give_up_s, (stream.position, table.snapshots(1).to_pylist())
                    if batch is not None:
                        kept = [row for row in batch.data.to_pylist() if row["_row_kind"] in ("+I", "+U")]
                        found += [row["v"] for row in kept]
                    elif ended.is_set() and stream.position == table.snapshots(1)["id"][0].as_py():
                        return found
        except (HistoryDiverged, Unavailable, OutcomeUnknown):
            continue


@pytest.mark.parametrize("seed", range(4))
def test_all_agree_after_a_failover(both: TwoMetastores, seed: int) -> None:
    dice = Random(seed)
    table = both.make_table(**{"write-only": "true"})
    metastores = [both.old, both.other]
    writers = [
        Writer(f"w{place}", Catalog(dice.choice(metastores), LocationStores()), place) for place in range(WRITERS)
    ]
    all_done, compacted = threading.Event(), threading.Event()
    with ThreadPoolExecutor(WRITERS + 2) as pool:
        compacting = pool.submit(compact_until, dice.choice(metastores), table, compacted)
        following = pool.submit(follow, dice.choice([both.catalog, both.other_catalog]).table(TABLE), all_done)
        try:
            kept = dice.randint(1, WRITES // 2)
            run(pool, writers, kept)
            both.pair.begin_to_lag()
            replicated = {writer.name: dict(writer.values) for writer in writers}
            lost = dice.randint(kept + 1, WRITES)
            run(pool, writers, lost)
            both.fail_over()
            run(pool, writers, WRITES)
        finally:
            compacted.set()
            refused = compacting.result(MOST_S)
            all_done.set()
        shown = following.result(MOST_S)
    rows = sorted(table.scan().to_arrow().column("v").to_pylist())
    assert rows == sorted(value for writer in writers for value in writer.values.values()), f"{refused} refused"
    assert rows == sorted(shown), "what the reader has shown since it began again"
    for writer in writers:
        assert set(writer.values) == set(range(1, WRITES + 1))
        assert writer.values.items() >= replicated[writer.name].items(), "what the standby had is not written again"
        assert writer.tries == WRITES + lost - kept, "and what it had not, is"


def run(pool: ThreadPoolExecutor, writers: list[Writer], last: int) -> None:
    for done in [pool.submit(writer.write_until, last) for writer in writers]:
        done.result(MOST_S)
