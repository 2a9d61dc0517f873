"""Plans of random histories, packed at random moments, against a model that knows every file's life."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.clock import SystemClock
from lakelog.format.commit.request import (
    BucketRef,
    Change,
    CommitRequest,
    CompactionGroup,
    RemoveEverything,
    RemovePartitions,
    RestoreState,
)
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.packed_statistics import PackedStatistics
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableName
from metastore.heavy_work import HeavyWork
from metastore.memory import MemoryStore
from metastore.ownership import EVERYONE
from metastore.plans.entries import read_entries
from metastore.plans.packing import Packer
from metastore.postgres import PostgresStore
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.support.metastore.making import SCHEMA, day, key, make_file

DAY, ID = 1, 2
DAYS = (None, "mon", "tue", "wed")
BUCKETS = 3


@dataclass
class ModelFile:
    """A file of the model; `values` are all ids in it."""

    file_id: int
    day: str | None
    bucket: int
    values: tuple[int, ...]
    added: int
    order: tuple[int, int]
    level: int = 0
    removed: int | None = None

    @property
    def entry(self) -> tuple[object, ...]:
        """What tells it from all others of a state, whichever snapshot added it."""
        return self.day, self.bucket, self.order, self.level


@dataclass
class Model:
    """A table's files, dead and alive."""

    files: list[ModelFile] = field(default_factory=list)
    latest: int = 0

    def live(self, snapshot: int) -> list[ModelFile]:
        return [f for f in self.files if f.added <= snapshot and (f.removed is None or f.removed > snapshot)]


@dataclass(frozen=True)
class Action:
    """A step of a history; `numbers` choose among what there is."""

    kind: str
    files: tuple[tuple[str | None, int, tuple[int, ...]], ...] = ()
    numbers: tuple[int, ...] = ()


new_files = st.lists(
    st.tuples(
        st.sampled_from(DAYS),
        st.integers(0, BUCKETS - 1),
        st.lists(st.integers(0, 30), min_size=1, max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=4,
).map(tuple)
actions = st.one_of(
    st.builds(Action, st.just("append"), new_files),
    st.builds(Action, st.just("append"), new_files),
    st.builds(Action, st.just("compact"), numbers=st.tuples(st.integers(0, 99), st.integers(0, 3))),
    st.builds(Action, st.just("overwrite"), numbers=st.lists(st.integers(0, 3), max_size=2).map(tuple)),
    st.builds(Action, st.just("truncate")),
    st.builds(Action, st.just("restore"), numbers=st.tuples(st.integers(0, 99))),
    st.builds(Action, st.just("pack")),
)
comparisons = st.one_of(
    st.builds(
        lambda operator, value: Comparison(DAY, operator, (day(value),)),
        st.sampled_from([Operator.IN, Operator.LESS, Operator.GREATER_OR_EQUAL, Operator.NOT_EQUAL]),
        st.sampled_from(["mon", "tue", "wed"]),
    ),
    st.sampled_from([Comparison(DAY, Operator.IS_NULL), Comparison(DAY, Operator.IS_NOT_NULL)]),
    st.builds(
        lambda operator, value: Comparison(ID, operator, (key(value),)),
        st.sampled_from([Operator.IN, Operator.LESS, Operator.GREATER, Operator.LESS_OR_EQUAL, Operator.NOT_EQUAL]),
        st.integers(-1, 31),
    ),
)
predicates = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)


@dataclass(frozen=True)
class Question:
    """A plan to be asked for; times are fractions of the history."""

    at: float | None
    span: tuple[float, float] | None
    days: tuple[str | None, ...]
    buckets: tuple[int, ...]
    bounds: tuple[int | None, int | None]
    predicate: Predicate | None
    levels: tuple[int, ...] = ()
    with_statistics: bool = False


questions = st.builds(
    Question,
    st.one_of(st.none(), st.floats(0, 1)),
    st.one_of(st.none(), st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda pair: (min(pair), max(pair)))),
    st.one_of(st.just(()), st.lists(st.sampled_from(DAYS), min_size=1, max_size=2, unique=True).map(tuple)),
    st.one_of(st.just(()), st.lists(st.integers(0, BUCKETS - 1), min_size=1, max_size=2, unique=True).map(tuple)),
    st.tuples(st.one_of(st.none(), st.integers(0, 15)), st.one_of(st.none(), st.integers(15, 30))),
    st.one_of(st.none(), predicates),
    st.one_of(st.just(()), st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True).map(tuple)),
    st.booleans(),
)


def holds(predicate: Predicate, file_day: str | None, value: int) -> bool:
    """Whether a row matches."""
    if isinstance(predicate, AllOf):
        return all(holds(operand, file_day, value) for operand in predicate.operands)
    if isinstance(predicate, AnyOf):
        return any(holds(operand, file_day, value) for operand in predicate.operands)
    own = day(file_day) if predicate.field_id == DAY else key(value)
    is_null = predicate.field_id == DAY and file_day is None
    if predicate.operator is Operator.IS_NULL:
        return is_null
    if predicate.operator is Operator.IS_NOT_NULL:
        return not is_null
    (other,) = predicate.values
    answers = {
        Operator.IN: own == other,
        Operator.LESS: own < other,
        Operator.LESS_OR_EQUAL: own <= other,
        Operator.GREATER: own > other,
        Operator.GREATER_OR_EQUAL: own >= other,
        Operator.NOT_EQUAL: own != other,
    }
    return not is_null and answers[predicate.operator]


class History:
    """A table that a history is played on, and its model."""

    def __init__(self, use_cases: UseCases, packer: Packer, table_uuid: str) -> None:
        self.use_cases = use_cases
        self.packer = packer
        self.table_uuid = table_uuid
        self.model = Model()
        self.identifiers = itertools.count()

    async def play(self, action: Action) -> None:
        model = self.model
        if action.kind == "pack":
            await self.packer.pack(self.table_uuid)
            return
        if action.kind == "restore":
            await self.restore(action.numbers[0])
            return
        change = Change(self.table_uuid, SnapshotKind.OVERWRITE, 0, BUCKETS)
        gone: list[ModelFile] = []
        level = 0
        brought: list[tuple[str | None, int, tuple[int, ...]]] = []
        place: tuple[int, int] | None = None
        live = model.live(model.latest)
        if action.kind == "append":
            change = replace(change, kind=SnapshotKind.APPEND)
            brought = list(action.files)
        elif action.kind == "compact":
            if not live:
                return
            first = live[action.numbers[0] % len(live)]
            mates = [f for f in live if (f.day, f.bucket) == (first.day, first.bucket)]
            mates.sort(key=lambda f: (f.order, f.file_id))
            # The oldest ones become one, or only the oldest gets a higher level, whose next entry this then is.
            rewritten = action.numbers[1]
            gone = mates[: rewritten or 1]
            level = max(f.level for f in gone) + 1
            place = max(f.order for f in gone)
            brought = [(first.day, first.bucket, tuple(value for f in gone for value in f.values))]
            ids = tuple(f.file_id for f in gone)
            ref = BucketRef(day(first.day), first.bucket)
            group = CompactionGroup(ref, ids, 1, level=level) if rewritten else CompactionGroup(ref, (), 0, ids, level)
            change = replace(change, kind=SnapshotKind.COMPACT, groups=(group,))
        elif action.kind == "overwrite":
            days = {DAYS[number] for number in action.numbers}
            gone = [f for f in live if f.day in days]
            change = replace(change, remove=RemovePartitions(tuple(day(value) for value in days)))
        else:
            gone = live
            change = replace(change, remove=RemoveEverything())
        attempt = (await self.use_cases.staging.stage_attempt([self.table_uuid], "w", by=EVERYONE)).attempt_id
        written = [] if place is not None and not change.groups[0].output_count else brought
        files = tuple(
            make_file(
                attempt,
                f"f{n}",
                level=level,
                partition=day(file_day),
                bucket=bucket,
                row_count=len(values),
                min_key=key(min(values)),
                max_key=key(max(values)),
                statistics=(ColumnStatistics(ID, 0, key(min(values)), key(max(values))),),
            )
            for n, (file_day, bucket, values) in enumerate(written)
        )
        request = CommitRequest("w", next(self.identifiers), (replace(change, add_files=files),), attempt)
        result = (await self.use_cases.gate.commit(request, by=EVERYONE)).results[0]
        assert result.snapshot_id == (model.latest + 1 if gone or files else None)
        if result.snapshot_id is None:
            return
        model.latest = result.snapshot_id
        for f in gone:
            f.removed = model.latest
        for n, (file_day, bucket, values) in enumerate(brought):
            order = place or (model.latest, n)
            file_id = len(model.files) + 1
            model.files.append(ModelFile(file_id, file_day, bucket, values, model.latest, order, level))

    async def restore(self, number: int) -> None:
        """Makes an earlier state the state again."""
        model = self.model
        if not model.latest:
            return
        target = 1 + number % model.latest
        live, wanted = model.live(model.latest), model.live(target)
        now, then = {f.entry for f in live}, {f.entry for f in wanted}
        gone = [f for f in live if f.entry not in then]
        back = sorted((f for f in wanted if f.entry not in now), key=lambda f: f.file_id)
        change = Change(self.table_uuid, SnapshotKind.OVERWRITE, 0, BUCKETS, remove=RestoreState(target))
        result = (
            await self.use_cases.gate.commit(CommitRequest("w", next(self.identifiers), (change,)), by=EVERYONE)
        ).results[0]
        assert result.snapshot_id == (model.latest + 1 if gone or back else None)
        if result.snapshot_id is None:
            return
        model.latest = result.snapshot_id
        for f in gone:
            f.removed = model.latest
        for f in back:
            model.files.append(replace(f, file_id=len(model.files) + 1, added=model.latest, removed=None))

    async def ask(self, question: Question) -> None:
        model, latest = self.model, self.model.latest
        request = PlanRequest(
            self.table_uuid,
            predicate=question.predicate,
            buckets=question.buckets,
            partitions=tuple(day(value) for value in question.days),
            first_key=None if question.bounds[0] is None else key(question.bounds[0]),
            last_key=None if question.bounds[1] is None else key(question.bounds[1]),
            levels=() if question.span is not None else question.levels,
            with_statistics=question.with_statistics,
        )
        candidates = model.live(latest)
        if question.span is not None and latest:
            after, until = (round(part * (latest - 1)) for part in question.span)
            request = replace(request, at=InRange(after, until + 1))
            candidates = [f for f in model.files if after < f.added <= until + 1]
        elif question.at is not None and latest:
            snapshot = 1 + round(question.at * (latest - 1))
            request = replace(request, at=AtSnapshot(snapshot))
            candidates = model.live(snapshot)
        plan = await self.use_cases.planner.plan(request)
        rows: list[dict[str, object]] = []
        without: set[object] = set()
        per_bucket: dict[object, list[tuple[int, int]]] = {}
        async for chunk in plan.chunks:
            entries = read_entries(chunk.entries).to_pylist()
            keys = [(e["partition"], e["bucket"], e["order_snapshot"], e["order_ordinal"]) for e in entries]
            assert keys == sorted(keys), "a chunk is in the order of a plan"
            assert all(("statistics" in e) == question.with_statistics for e in entries)
            for e in entries:
                per_bucket.setdefault((e["partition"], e["bucket"]), []).append(
                    (e["order_snapshot"], e["order_ordinal"])
                )
            rows += entries
            without.update(chunk.without_file_ids)
        for order in per_bucket.values():
            assert order == sorted(order), "for one bucket the order holds across chunks"
        found = [row["file_id"] for row in rows if row["file_id"] not in without]
        assert len(found) == len(set(found)), "no file is listed twice"
        listed = {f.file_id: f for f in candidates}
        assert set(found) <= set(listed), "nothing is listed that is not live"
        must = {f.file_id for f in candidates if self.is_wanted(f, question)}
        assert must <= set(found), "nothing is left out that may match"
        if question.predicate is None:
            assert must == set(found), "partitions, buckets and key bounds are exact"
        for row in rows:
            if row["file_id"] in listed:
                known = listed[row["file_id"]]
                assert (row["added_snapshot"], row["order_snapshot"], row["order_ordinal"]) == (
                    known.added,
                    *known.order,
                )
                assert (row["partition"], row["bucket"]) == (day(known.day), known.bucket)
                assert (row["level"], row["row_count"]) == (known.level, len(known.values))
                if question.with_statistics:
                    (of_id,) = PackedStatistics(row["statistics"])  # type: ignore[arg-type]
                    assert (of_id.min_value, of_id.max_value) == (key(min(known.values)), key(max(known.values)))

    @staticmethod
    def is_wanted(f: ModelFile, question: Question) -> bool:
        first, last = question.bounds
        return (
            (not question.days or f.day in question.days)
            and (not question.buckets or f.bucket in question.buckets)
            and (not question.levels or question.span is not None or f.level in question.levels)
            and (first is None or max(f.values) >= first)
            and (last is None or min(f.values) <= last)
            and (question.predicate is None or any(holds(question.predicate, f.day, value) for value in f.values))
        )


async def play_history(store: Store, name: str, history: list[Action], asked: list[Question]) -> None:
    use_cases = UseCases(store, "file:///warehouse")
    await use_cases.catalog.create_database("shop", if_not_exists=True)
    table, _ = await use_cases.catalog.create_table(
        TableName("shop", name),
        SCHEMA,
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": "3"},
        by=EVERYONE,
    )
    played = History(use_cases, Packer(store, HeavyWork(), 1), table.table_uuid)
    for action in history:
        await played.play(action)
    latest = played.model.latest
    # Every state as a whole first: that is what packed entries are sent for as they are.
    for snapshot in range(1, latest + 1):
        at = (snapshot - 1) / max(latest - 1, 1)
        await played.ask(Question(at, None, (), (), (None, None), None))
    for question in asked:
        await played.ask(question)
    for kept in (await use_cases.listing.list_snapshots(table.table_uuid)).snapshots:
        live = played.model.live(kept.snapshot_id)
        assert (kept.total_files, kept.total_rows) == (len(live), sum(len(f.values) for f in live))
    await use_cases.close()


@pytest.fixture(autouse=True)
def _small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a history of some files has chunks of several parts, merged and unmerged ranges."""
    monkeypatch.setattr("metastore.plans.planning._MAX_ROW_PLAN_FILES", -1)
    monkeypatch.setattr("metastore.plans.parts.MAX_ENTRIES", 3)
    monkeypatch.setattr("metastore.plans.parts.MAX_ENTRIES_WITH_STATISTICS", 2)
    monkeypatch.setattr("metastore.plans.packing.MAX_ENTRIES", 2)
    monkeypatch.setattr("metastore.plans.packing.MAX_RANGE_ENTRIES", 8)
    monkeypatch.setattr("metastore.plans.packing.MAX_STEP_FILES", 12)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(actions, max_size=25), st.lists(questions, min_size=5, max_size=20))
def test_plans_of_any_history(history: list[Action], asked: list[Question]) -> None:
    asyncio.run(play_history(MemoryStore(SystemClock()), "t", history, asked))


def test_plans_of_any_history_in_postgres(migrated_url: str) -> None:
    names = itertools.count()
    with asyncio.Runner() as runner:

        async def open_store() -> Store:
            return PostgresStore(migrated_url)

        store = runner.run(open_store())

        @settings(max_examples=40, deadline=None)
        @given(st.lists(actions, max_size=25), st.lists(questions, min_size=5, max_size=20))
        def check(history: list[Action], asked: list[Question]) -> None:
            runner.run(play_history(store, f"t{next(names)}", history, asked))

        check()
        runner.run(store.close())
