"""Commits against a dict: real Postgres behind a proxy that loses answers, and connections that are killed.

C1 to C5 and C8: whatever is lost and repeated, each identifier is applied once, snapshots are numbered without gaps, an
attempt is either committed or aborted, and what the metastore says is certain is certain.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import CommitConflict, Fenced, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import INPUT_GONE, CommitRequest, CommitResult
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.table import TableInfo
from metastore.postgres import migrate
from metastore.postgres.connection.connections import libpq_url
from metastore.testing import InProcessMetastore
from tests.support.metastore.cutting_proxy import Cut, CuttingProxy
from tests.support.metastore.making import compaction, make_change, make_file, make_table
from tests.support.metastore.opening import open_in_process

WRITERS = ("ann", "bob")


@dataclass
class Known:
    """The model of one table."""

    table: TableInfo
    results: dict[tuple[str, int], CommitResult] = field(default_factory=dict)
    live: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    """All that ever were."""
    latest: int = 0
    last: dict[str, int] = field(default_factory=dict)


@dataclass
class Place:
    """Where the machines run."""

    proxy: CuttingProxy
    metastore: InProcessMetastore
    direct_url: str

    def kill(self) -> None:
        with psycopg.connect(self.direct_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'lakelog-metastore'"
            )


class Commits(RuleBasedStateMachine):
    """One table, two writers with epochs, attempts, compactions of what may be gone; faults before any call."""

    place: Place
    attempts = Bundle("attempts")
    applied = Bundle("applied")

    def __init__(self) -> None:
        super().__init__()
        self.metastore = self.place.metastore
        self.known = Known(make_table(self.metastore, keyed=False))
        # Epochs and attempts belong to the whole metastore: names are this machine's own.
        self.prefix = self.known.table.name.name
        self.epochs = dict.fromkeys(WRITERS, 0)
        self.states: dict[str, str] = {}
        self.numbers = itertools.count()

    @rule(cut=st.sampled_from([Cut.AFTER, Cut.BEFORE]))
    def lose_an_answer(self, cut: Cut) -> None:
        self.place.proxy.cut = cut

    @rule()
    def kill_connections(self) -> None:
        self.place.kill()

    @rule(target=attempts)
    def stage(self) -> str:
        while True:
            try:
                attempt = self.metastore.stage_attempt([self.known.table.table_uuid], self.prefix).attempt_id
            except (Unavailable, OutcomeUnknown):
                # One that is never used is no harm.
                continue
            self.states[attempt] = "open"
            return attempt

    @rule(writer=st.sampled_from(WRITERS))
    def register(self, writer: str) -> None:
        before = self.epochs[writer]
        while True:
            try:
                self.epochs[writer] = self.metastore.register_writer(self.prefix + writer)
            except (Unavailable, OutcomeUnknown):
                continue
            break
        assert self.epochs[writer] > before

    @rule(attempt=attempts)
    def abandon(self, attempt: str) -> None:
        while True:
            try:
                self.metastore.abandon_attempt(attempt)
            except (Unavailable, OutcomeUnknown):
                continue
            except CommitConflict:
                assert self.states[attempt] == "committed"
            else:
                assert self.states[attempt] != "committed"
                self.states[attempt] = "aborted"
            break

    @rule(target=applied, writer=st.sampled_from(WRITERS), identifier=st.integers(0, 6), attempt=attempts)
    def append(self, writer: str, identifier: int, attempt: str) -> object:
        return self.commit(writer, identifier, attempt, self.epochs[writer])

    @rule(target=applied, writer=st.sampled_from(WRITERS), identifier=st.integers(0, 6), attempt=attempts)
    def append_as_a_zombie(self, writer: str, identifier: int, attempt: str) -> object:
        return self.commit(writer, identifier, attempt, max(self.epochs[writer] - 1, 0))

    @rule(target=applied, attempt=attempts, choice=st.integers(0, 99), writer=st.sampled_from(WRITERS))
    def compact(self, attempt: str, choice: int, writer: str) -> object:
        if not self.known.files:
            return multiple()
        name = sorted(self.known.files)[choice % len(self.known.files)]
        return self.commit(writer, 100 + choice, attempt, self.epochs[writer], remove=name)

    @rule(writer=st.sampled_from(WRITERS), gap=st.integers(1, 3), attempt=attempts)
    def leave_a_gap(self, writer: str, gap: int, attempt: str) -> None:
        last = self.known.last.get(writer, -1)
        change = make_change(self.known.table, allow_empty=True)
        request = CommitRequest(
            self.prefix + writer, last + gap + 1, (change,), previous_identifier=last + gap, epoch=self.epochs[writer]
        )
        with pytest.raises(CommitConflict, match="commits are missing"):
            self.answer(request)

    @rule(repeated=applied)
    def repeat(self, repeated: tuple[CommitRequest, CommitResult]) -> None:
        request, result = repeated
        assert self.answer(request) == result

    @invariant()
    def progress_is_known(self) -> None:
        for writer in WRITERS:
            while True:
                try:
                    progress = self.metastore.get_writer_progress(self.prefix + writer, self.known.table.table_uuid)
                except Unavailable:
                    continue
                break
            assert progress.last_identifier == self.known.last.get(writer)
            assert progress.epoch == self.epochs[writer]

    def answer(self, request: CommitRequest) -> CommitResult:
        """What a client does: the same request until something is certain."""
        while True:
            try:
                return self.metastore.commit(request)
            except OutcomeUnknown:
                continue
            except Unavailable:
                # It is certain that nothing happened.
                continue

    def commit(self, writer: str, identifier: int, attempt: str, epoch: int, remove: str | None = None) -> object:
        known = self.known
        name = f"f{next(self.numbers)}"
        file = make_file(attempt, name)
        change = (
            make_change(known.table, [file])
            if remove is None
            else compaction(known.table, [file], (known.files[remove],))
        )
        request = CommitRequest(self.prefix + writer, identifier, (change,), attempt, epoch=epoch)
        before = known.results.get((writer, identifier))
        try:
            result = self.answer(request)
        except LakelogError as error:
            assert before is None, "an applied commit is always answered"
            self.check_refusal(error, writer, epoch, attempt)
            return multiple()
        if before is not None:
            assert result == before
            if attempt != result.attempt_id and self.states[attempt] == "open":
                self.states[attempt] = "aborted"
            return multiple((request, result))
        assert epoch == self.epochs[writer]
        assert self.states[attempt] == "open"
        assert result.attempt_id == attempt
        if remove is not None and remove not in known.live:
            assert [dropped.reason for dropped in result.results[0].dropped] == [INPUT_GONE]
            assert result.results[0].snapshot_id is None
            self.states[attempt] = "aborted"
            known.results[writer, identifier] = result
            known.last[writer] = max(known.last.get(writer, -1), identifier)
            assert self.plan() == known.live
            return multiple((request, result))
        self.states[attempt] = "committed"
        known.latest += 1
        assert result.results[0].snapshot_id == known.latest
        known.results[writer, identifier] = result
        known.last[writer] = max(known.last.get(writer, -1), identifier)
        if remove is not None:
            del known.live[remove]
        files = self.plan()
        known.live[name] = known.files[name] = files[name]
        assert files == known.live
        return multiple((request, result))

    def check_refusal(self, refusal: LakelogError, writer: str, epoch: int, attempt: str) -> None:
        if isinstance(refusal, Fenced):
            assert epoch < self.epochs[writer]
            return
        assert isinstance(refusal, CommitConflict)
        assert refusal.reason == {"aborted": "ATTEMPT_DOOMED", "committed": "ATTEMPT_COMMITTED"}[self.states[attempt]]

    def plan(self) -> dict[str, int]:
        while True:
            try:
                files = self.metastore.plan(PlanRequest(self.known.table.table_uuid)).files.to_pylist()
            except Unavailable:
                continue
            return {file["path"].split("/")[-1].removesuffix(".parquet"): file["file_id"] for file in files}

    def teardown(self) -> None:
        self.place.proxy.cut = Cut.NOTHING
        page = self.metastore.list_snapshots(self.known.table.table_uuid)
        assert [snapshot.snapshot_id for snapshot in page.snapshots] == list(range(1, self.known.latest + 1))
        assert self.plan() == self.known.live
        if page.snapshots:
            assert page.snapshots[-1].total_files == len(self.known.live)


@contextmanager
def open_place(server: EmbeddedPostgres, url: str) -> Iterator[Place]:
    migrate(url)
    name = str(psycopg.conninfo.conninfo_to_dict(libpq_url(url))["dbname"])
    direct = psycopg.conninfo.conninfo_to_dict(libpq_url(server.url(name, over_tcp=True)))
    with CuttingProxy(int(str(direct["port"]))) as proxy:
        metastore = open_in_process(psycopg.conninfo.make_conninfo("", **{**direct, "port": proxy.port}))
        try:
            yield Place(proxy, metastore, libpq_url(url))
        finally:
            metastore.close()


def test_commits_are_what_a_dict_would_say(postgres_server: EmbeddedPostgres, postgres_url: str) -> None:
    examples = int(os.environ.get("LAKELOG_TEST_EXAMPLES", "25"))
    with open_place(postgres_server, postgres_url) as place:

        class Here(Commits):
            pass

        Here.place = place
        run_state_machine_as_test(Here, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None))
        assert place.proxy.cuts > 0, "answers were lost"
