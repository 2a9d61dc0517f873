"""Each check of the gate, with its control: the same story with the check left out, which must be missed.

A story returns what went wrong; the empty text when the rule held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from lakelog.client.metastore import Metastore
from lakelog.errors import CommitConflict, Fenced, HistoryDiverged, LakelogError
from lakelog.format.commit import BucketRef, CommitRequest, Fence, RemoveFiles
from lakelog.format.plan import PlanRequest
from lakelog.format.snapshot import SnapshotKind
from tests.contract.metastore.conftest import open_in_process
from tests.contract.metastore.making import append, empty, make_change, make_file, make_table, snapshot_ids

RULES = "lakelog.format.commit_rules"


@pytest.fixture
def metastore(migrated_url: str) -> Iterator[Metastore]:
    opened = open_in_process(migrated_url)
    yield opened
    opened.close()


def refusal(call: Callable[[], Any]) -> LakelogError | None:
    try:
        call()
    except LakelogError as error:
        return error
    return None


def repeat_is_answered_with_the_first_result(metastore: Metastore) -> str:
    """C2."""
    table = make_table(metastore)
    first = metastore.commit(empty(table, 1))
    append(metastore, table, 2)
    try:
        again = metastore.commit(empty(table, 1))
    except LakelogError as error:
        return f"refused: {error.message}"
    return "" if again == first and snapshot_ids(metastore, table) == [1, 2] else "applied again"


def no_gap_among_a_writers_numbers(metastore: Metastore) -> str:
    """C2: batch 1 may not come where batch 0 never was."""
    table = make_table(metastore)
    refused = refusal(lambda: metastore.commit(replace(empty(table, 1), previous_identifier=0)))
    return "" if isinstance(refused, CommitConflict) else "a batch is missing"


def who_lost_the_lease_is_fenced(metastore: Metastore) -> str:
    """C3: the writer service's fence; the second instance has looked, and found that nothing was done."""
    table = make_table(metastore)
    zombie = metastore.acquire_lease("pipeline/p", "first", 1000)
    metastore.release_lease("pipeline/p", zombie.epoch)
    metastore.acquire_lease("pipeline/p", "second", 60_000)
    assert metastore.get_writer_progress("p", table.table_uuid).last_identifier is None
    refused = refusal(
        lambda: metastore.commit(empty(table, 0, writer="p", fences=(Fence("pipeline/p", zombie.epoch),)))
    )
    return "" if isinstance(refused, Fenced) and snapshot_ids(metastore, table) == [] else "the zombie committed"


def what_is_given_up_is_never_committed(metastore: Metastore) -> str:
    """C4: whoever gave the attempt up deletes its files."""
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    metastore.abandon_attempt(attempt)
    refusal(lambda: metastore.commit(CommitRequest("w", 1, (make_change(table, [make_file(attempt)]),), attempt)))
    live = metastore.plan(PlanRequest(table.table_uuid)).files
    return "" if live.num_rows == 0 else "a live file whose attempt was given up"


def of_two_compactors_the_second_loses(metastore: Metastore) -> str:
    """C5, C6: both read files 1 and 2 and write their rows anew."""
    table = make_table(metastore)
    append(metastore, table, 1, names="ab", row_count=5)
    for compactor in ("x", "y"):
        attempt = metastore.stage_attempt([table.table_uuid], compactor).attempt_id
        files = [make_file(attempt, row_count=10)]
        change = make_change(table, files, kind=SnapshotKind.COMPACT, remove=RemoveFiles((1, 2)))
        refusal(partial(metastore.commit, CommitRequest(compactor, 1, (change,), attempt)))
    rows = sum(metastore.plan(PlanRequest(table.table_uuid)).files.column("row_count").to_pylist())
    return "" if rows == 10 else f"{rows} rows where 10 were written"


def what_was_looked_up_still_holds(metastore: Metastore) -> str:
    """C5: a change that rests on the old rows of a bucket, which another commit changes meanwhile."""
    table = make_table(metastore)
    append(metastore, table, 1)
    append(metastore, table, 2, writer="other")
    change = make_change(table, allow_empty=True, base_snapshot_id=1, unchanged_buckets=(BucketRef(b"", 0),))
    refused = refusal(lambda: metastore.commit(CommitRequest("lookup", 1, (change,))))
    return "" if isinstance(refused, CommitConflict) else "old rows that were not the last ones"


def files_of_another_bucket_count_stay_out(metastore: Metastore) -> str:
    """C5: rows would lie in buckets in which nobody looks for them."""
    table = make_table(metastore, buckets=4)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    change = make_change(table, [make_file(attempt, bucket=7)], bucket_count=8)
    refused = refusal(lambda: metastore.commit(CommitRequest("w", 1, (change,), attempt)))
    return "" if isinstance(refused, CommitConflict) else "a file in a bucket that the table does not have"


def a_base_of_another_history_is_noticed(metastore: Metastore) -> str:
    """C9."""
    table = make_table(metastore)
    change = make_change(table, allow_empty=True, base_snapshot_id=3)
    refused = refusal(lambda: metastore.commit(CommitRequest("w", 1, (change,))))
    return "" if isinstance(refused, HistoryDiverged) else "a change against a snapshot that never was"


def _leave_out(*_: object) -> None:
    """A check of the gate that is left out."""


@dataclass(frozen=True)
class Case:
    """A story, and the check without which it goes wrong."""

    story: Callable[[Metastore], str]
    check: str
    left_out: Any = _leave_out


CASES = [
    Case(repeat_is_answered_with_the_first_result, f"{RULES}._is_applied", lambda *_: False),
    Case(no_gap_among_a_writers_numbers, f"{RULES}._check_previous"),
    Case(who_lost_the_lease_is_fenced, f"{RULES}._check_fences"),
    Case(what_is_given_up_is_never_committed, f"{RULES}._check_attempt"),
    Case(of_two_compactors_the_second_loses, f"{RULES}._check_files"),
    Case(what_was_looked_up_still_holds, f"{RULES}._check_base"),
    Case(files_of_another_bucket_count_stay_out, f"{RULES}.check_fit"),
    Case(a_base_of_another_history_is_noticed, f"{RULES}._check_base"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story.__name__)
def test_the_rule_holds(metastore: Metastore, case: Case) -> None:
    assert case.story(metastore) == ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.story.__name__)
def test_control_without_its_check_the_rule_breaks(
    metastore: Metastore, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case.check, case.left_out)
    assert case.story(metastore) != ""
