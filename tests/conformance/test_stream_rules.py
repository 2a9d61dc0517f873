"""Rules of sections 5.4 to 5.6 that are no rows: which files are opened, where a position stands, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import Fenced, InvalidArgument, LakelogError, NotFound, SnapshotExpired
from lakelog.reads.streams import follow
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import open_store
from tests.conformance.drivers import SdkDriver
from tests.conformance.language import Step, TableSpec, append, overwrite, upsert
from tests.conformance.stream_drivers import SubscriptionDriver, forget

WAIT_S = 20.0
COLUMNS = "k INT NOT NULL, v STRING"
KV = TableSpec(COLUMNS, key=("k",))
BUCKETS = TableSpec(COLUMNS, key=("k",), options={"bucket": "8"})
LOOKUP = TableSpec(COLUMNS, key=("k",), options={"changelog-producer": "lookup"})
PT = TableSpec("pt INT NOT NULL, k INT NOT NULL", key=("pt", "k"), partition=("pt",))
LOG = TableSpec("k INT, v STRING")


class RecordingStores:
    """Real stores that remember which files were opened."""

    def __init__(self) -> None:
        self.opened: set[str] = set()

    def open(self, location: str) -> ObjectStore:
        stores = self

        class Recording:
            def __init__(self) -> None:
                self._inner = open_store(location)

            def __getattr__(self, name: str) -> object:
                return getattr(self._inner, name)

            def open_input(self, path: str) -> BinaryIO:
                stores.opened.add(path)
                return self._inner.open_input(path)

        return Recording()  # type: ignore[return-value]


def make(catalog: Catalog, spec: TableSpec, *steps: Step) -> Table:
    driver = SdkDriver(catalog)
    name = driver.create(spec)
    for step in steps:
        driver.apply(name, spec, step)
    return catalog.table(name)


FAR = (upsert("1|a", "2|a"), upsert("100|b", "101|b"), upsert("200|a", "201|c"))
"""Three files of keys that lie apart; in the first all values lie before `b`."""


@pytest.mark.parametrize(
    ("spec", "steps", "condition", "opened"),
    [
        (KV, FAR, "k = 100", 1),
        (KV, FAR, "k >= 150 OR k < 2", 2),
        # Without a changelog a file whose rows are of no interest may still hold what replaced others.
        (KV, FAR, "v = 'b'", 3),
        # Change rows stand for themselves.
        (LOOKUP, FAR, "v = 'b'", 2),
        (LOOKUP, FAR, "k = 100", 1),
        (LOG, tuple(append(*step.rows) for step in FAR), "v = 'b'", 2),
        (LOG, tuple(append(*step.rows) for step in FAR), "k > 300", 0),
        (PT, (upsert("1|1", "2|1", "3|1"),), "pt = 2", 1),
        (BUCKETS, (upsert(*(f"{key}|a" for key in range(40))),), "k = 7", 1),
    ],
)
def test_files_that_cannot_match_are_not_opened(
    catalog: Catalog,
    tmp_path_factory: pytest.TempPathFactory,
    spec: TableSpec,
    steps: tuple[Step, ...],
    condition: str,
    opened: int,
) -> None:
    table = make(catalog, spec, *steps)
    stores = RecordingStores()
    watched = Catalog(catalog.metastore, stores, cache_folder=str(tmp_path_factory.mktemp("copies")))
    with watched.table(table.name).subscribe(
        options={"scan.snapshot-id": "1", "scan.bounded.watermark": "0"}, filter=condition
    ) as stream:
        while stream.position != len(steps):
            stream.read(0.05)
    assert len(stores.opened) == opened
    # The answer is that of filtering afterwards.
    found = table.changes(filter=condition).to_arrow().to_pylist()
    everything = {tuple(row.items()) for row in table.changes().to_arrow().to_pylist()}
    assert {tuple(row.items()) for row in found} <= everything


def batches(stream: Subscription) -> Iterator[int]:
    """Snapshots of the batches, as they come."""
    while True:
        batch = stream.read(WAIT_S)
        assert batch is not None
        yield batch.snapshot_id


def test_a_position_moves_when_the_last_row_of_a_snapshot_is_done(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else so small a snapshot is one batch.
    monkeypatch.setattr(follow, "_MAX_ROWS", 1)
    spec = TableSpec("pt INT, k INT", partition=("pt",))
    table = make(catalog, spec, append("1|1", "2|1", "3|1"), append("1|2"))

    def position() -> int | None:
        found: int | None = table.consumers.list().column("snapshot_id")[0].as_py()
        return found

    with table.subscribe("from-snapshot", "etl", options={"scan.snapshot-id": "1"}) as stream:
        found = batches(stream)
        shown: list[int] = []
        while 2 not in shown:
            # As long as the first snapshot has rows left, the position stands before it.
            assert not shown or position() == 0
            shown.append(next(found))
        assert len(shown) > 2, "a snapshot of several batches"
        assert set(shown[:-1]) == {1}
        assert position() == 1
    # The second one was handed out, but not done.
    with table.subscribe(consumer_id="etl") as stream:
        assert next(batches(stream)) == 2


def test_a_reset_is_within_what_is_kept(catalog: Catalog, stack: EmbeddedStack) -> None:
    table = make(catalog, LOG, *(append(f"{n}|x") for n in range(5)))
    with table.subscribe("latest", "etl") as stream:
        stream.read(0.2)
        with pytest.raises(InvalidArgument, match=r"cannot be set to snapshot 6: the newest of .* is 5\. Give at most"):
            table.consumers.reset("etl", 6)
        table.consumers.reset("etl", 5)
        table.append(LOG.rows(["6|x"]))
        assert next(batches(stream)) == 6
        with pytest.raises(
            Fenced, match=r"Consumer 'etl' of table .* was reset, or .*, so this reader's position does not"
        ):
            stream.read(WAIT_S)
    forget(stack, table, 4)
    with pytest.raises(InvalidArgument, match=r"cannot be set to snapshot 2: table .* keeps 4 to 6 only\. Give 3 or"):
        table.consumers.reset("etl", 2)
    table.consumers.reset("etl", 3)
    with table.subscribe(consumer_id="etl") as stream:
        assert next(batches(stream)) == 4


def test_an_unknown_consumer(catalog: Catalog) -> None:
    table = make(catalog, LOG)
    with pytest.raises(NotFound, match=r"has no consumer 'etl'; it has none\. Subscribing with its id makes one"):
        table.consumers.reset("etl", 0)
    with table.subscribe("latest", "ingest"):
        pass
    with pytest.raises(NotFound, match=r"has no consumer 'etl'; it has ingest\."):
        table.consumers.delete("etl")


def test_two_readers_of_one_consumer(catalog: Catalog) -> None:
    table = make(catalog, LOG, append("1|a"), append("2|b"))
    with table.subscribe("from-snapshot", "etl", options={"scan.snapshot-id": "1"}) as first:
        assert next(batches(first)) == 1
        with table.subscribe(consumer_id="etl") as second:
            assert next(batches(second)) == 1
            with pytest.raises(
                Fenced,
                match=r"Consumer 'etl' of table .* is read by '.*' by now, so this reader's position does not count "
                r"any more\. Stop it, give it another consumer id, or open the consumer again",
            ):
                first.read(WAIT_S)
            assert next(batches(second)) == 2


def test_changes_after_an_expired_snapshot(catalog: Catalog, stack: EmbeddedStack) -> None:
    table = make(catalog, KV, *(upsert(f"1|{n}") for n in range(5)))
    forget(stack, table, 3)
    with pytest.raises(
        SnapshotExpired, match=r"at snapshot 1 of .* snapshots 3 to 5 are all that is kept. Give after=2 or"
    ):
        table.changes(1)
    kinds = table.changes(2, 3).to_arrow().select(["_row_kind", "v"]).to_pylist()
    assert [tuple(row.values()) for row in kinds] == [("-U", "1"), ("+U", "2")]
    with pytest.raises(NotFound, match=r"Snapshot 6 of .* does not exist: its newest snapshot is 5"):
        table.changes(6)
    with pytest.raises(InvalidArgument, match="until=1 lies before after=4"):
        table.changes(4, 1)


def test_skipped_overwrites_are_counted(catalog: Catalog) -> None:
    table = make(catalog, KV, upsert("1|a"), overwrite("1|b"), upsert("1|c"))
    assert table.changes().skipped_snapshots == (2,)


def test_what_is_wrong_is_said_when_it_is_asked_for(catalog: Catalog, stack: EmbeddedStack) -> None:
    """Not with the first row."""
    table = make(catalog, KV, upsert("1|a"))
    driver = SubscriptionDriver(catalog, stack)
    for options in ({"scan.mode": "from-snapshot"}, {"scan.snapshot-id": "1", "scan.timestamp-millis": "1"}):
        with pytest.raises(LakelogError):
            catalog.table(table.name).subscribe(options=driver.resolve(table.name, options))
    with pytest.raises(InvalidArgument, match="There is no column 'w'"):
        table.changes(filter="w = 1")
    assert table.consumers.list().num_rows == 0


def test_the_kind_always_comes(catalog: Catalog) -> None:
    """Whichever columns are asked for, as long as rows may go."""
    table, log = make(catalog, KV, upsert("1|a"), upsert("1|b")), make(catalog, LOG, append("1|a"))
    assert table.changes(columns=["v"]).to_arrow().to_pydict() == {
        "v": ["a", "a", "b"],
        "_row_kind": ["+I", "-U", "+U"],
    }
    assert table.changes(columns=["v"], raw=True).to_arrow().schema.names == ["v", "_row_kind"]
    assert table.changes(columns=["_row_kind", "_snapshot_id"]).to_arrow().schema.names == ["_row_kind", "_snapshot_id"]
    assert log.changes(columns=["v"]).to_arrow().schema.names == ["v"]
    with pytest.raises(
        InvalidArgument, match=r"columns='v' is no list of column names: give one, here perhaps \['v'\]"
    ):
        table.changes(columns="v")
    for each, names in ((table, ["v", "_row_kind"]), (log, ["v"])):
        with each.subscribe(columns=["v"]) as stream:
            batch = stream.read(WAIT_S)
            assert batch is not None
            assert batch.data.schema.names == names
