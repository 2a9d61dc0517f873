"""Each check of the gate, with its control: the same story with the check left out, which must be missed.

A story returns what went wrong; the empty text when the rule held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, Fenced, HistoryDiverged, LakelogError
from lakelog.format.commit.facts import AttemptState
from lakelog.format.commit.request import BucketRef, CommitRequest, Fence
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.storage.merging.deletion_vectors import are_committed
from lakelog.storage.parquet.live_file import to_live_files
from metastore.postgres.commits import group_records
from tests.support.metastore.making import (
    append,
    compaction,
    empty,
    key,
    make_change,
    make_file,
    make_table,
    snapshot_ids,
)
from tests.support.metastore.opening import open_in_process

RULES = "lakelog.format.commit.rules"
REBASE = "lakelog.format.commit.rebase"
RECORDS = "metastore.postgres.commits.group_records"


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
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="ab", row_count=5)
    for compactor in ("x", "y"):
        attempt = metastore.stage_attempt([table.table_uuid], compactor).attempt_id
        change = compaction(table, [make_file(attempt, row_count=10)], (1, 2))
        refusal(partial(metastore.commit, CommitRequest(compactor, 1, (change,), attempt)))
    rows = sum(metastore.plan(PlanRequest(table.table_uuid)).files.column("row_count").to_pylist())
    return "" if rows == 10 else f"{rows} rows where 10 were written"


def _compact(
    metastore: Metastore, table: TableInfo, identifier: int, *inputs: int, moves: Any = (), level: int = 1, **file: Any
) -> tuple[CommitRequest, LakelogError | None]:
    """A compaction that writes one file, or none where it only moves; and how it was refused, if it was."""
    attempt = metastore.stage_attempt([table.table_uuid], "c").attempt_id
    files = [make_file(attempt, f"z{identifier}", **file)] if inputs else []
    request = CommitRequest("c", identifier, (compaction(table, files, inputs, moves=moves, level=level),), attempt)
    return request, refusal(lambda: metastore.commit(request))


def _files(metastore: Metastore, table: TableInfo) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = metastore.plan(PlanRequest(table.table_uuid)).files.to_pylist()
    return found


def rows_pass_no_file_that_stays(metastore: Metastore) -> str:
    """C6: file 2 knows later values of the keys of file 1, though file 3 does not have them."""
    table = make_table(metastore)
    for number in (1, 2, 3):
        append(metastore, table, number, names=str(number))
    _compact(metastore, table, 1, 1, 3, row_count=20)
    (second,) = (file for file in _files(metastore, table) if file["file_id"] == 2)
    passed = [file for file in _files(metastore, table) if file["order_snapshot"] > 2 and file["row_count"] == 20]
    return f"rows of snapshot 1 behind {second['path']}" if passed else ""


def a_delete_that_is_dropped_hid_nothing(metastore: Metastore) -> str:
    """C6: file 2 deletes keys of file 1; it is brought below it, where nothing is older and deletes are left out."""
    table = make_table(metastore)
    append(metastore, table, 1, names="a", row_count=1)
    append(metastore, table, 2, names="b", row_count=1, delete_count=1)
    request, _ = _compact(metastore, table, 1, moves=(2,), level=5)
    if not metastore.commit(request).results[0].dropped:
        _compact(metastore, table, 2, 3, level=5, row_count=0)
    deletes = [file for file in _files(metastore, table) if file["delete_count"]]
    return "" if deletes else "a deleted row is back"


def a_level_is_one_sorted_run(metastore: Metastore) -> str:
    """C6: whoever reads a level file after file meets each key once."""
    table = make_table(metastore)
    append(metastore, table, 1, names="a", min_key=key(1), max_key=key(5))
    append(metastore, table, 2, names="b", min_key=key(5), max_key=key(9))
    _compact(metastore, table, 1, moves=(1,), level=3)
    _compact(metastore, table, 2, moves=(2,), level=3)
    levels = [file["level"] for file in _files(metastore, table)]
    return "" if levels == [3, 0] else "a key twice in one run"


def what_one_group_writes_to_a_level_is_one_sorted_run(metastore: Metastore) -> str:
    """C6."""
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    _compact(metastore, table, 1, 1, moves=(2,), level=3)
    return "" if [file["level"] for file in _files(metastore, table)] == [0, 0] else "a key twice in one run"


def a_compaction_loses_no_row_without_a_key(metastore: Metastore) -> str:
    """2.5: a compactor that read half of its input."""
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1, names="ab")
    _compact(metastore, table, 1, 1, 2, level=0, row_count=10)
    rows = sum(file["row_count"] for file in _files(metastore, table))
    return "" if rows == 20 else f"{rows} rows where 20 were written"


def a_compaction_moves_no_row_to_another_bucket(metastore: Metastore) -> str:
    """2.5: nobody looks for them there."""
    table = make_table(metastore)
    append(metastore, table, 1, bucket=3)
    _compact(metastore, table, 1, 1, bucket=0)
    return "" if [file["bucket"] for file in _files(metastore, table)] == [3] else "rows in another bucket"


def levels_are_for_compactions_of_rows_with_keys(metastore: Metastore) -> str:
    """6.1: level 0 is where runs may overlap."""
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    _compact(metastore, table, 1, 1, 2, level=0, row_count=20)
    return "" if len(_files(metastore, table)) == 2 else "what is merged is again at level 0"


def a_repeated_compaction_returns_what_was_dropped(metastore: Metastore) -> str:
    """C2: whoever is not told keeps files of which nobody knows, and takes its work for done."""
    table = make_table(metastore)
    append(metastore, table, 1)
    request, _ = _compact(metastore, table, 1, 7)
    return "" if metastore.commit(request).results[0].dropped else "it seems that all of it was committed"


def the_files_of_a_compaction_that_was_dropped_may_be_deleted(metastore: Metastore) -> str:
    """C4: whoever clears up behind one that died asks whether its attempt is given up."""
    table = make_table(metastore)
    append(metastore, table, 1)
    request, _ = _compact(metastore, table, 1, 7)
    return "" if refusal(lambda: metastore.abandon_attempt(request.attempt_id)) is None else "files nobody may delete"


def a_moved_file_knows_nothing_of_what_was_rewritten_since(metastore: Metastore) -> str:
    """Files 1 and 2; 3 says which rows of both it supersedes; 1 and 2 become 4; then 3 moves, and is newer than 4."""
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    attempt = metastore.stage_attempt([table.table_uuid], "l").attempt_id
    path = f"data/{attempt}/positions.parquet"
    change = make_change(
        table,
        [make_file(attempt, deletion_vector_path=path)],
        base_snapshot_id=1,
        unchanged_buckets=(BucketRef(b"", 0),),
    )
    metastore.commit(CommitRequest("l", 1, (change,), attempt))
    _compact(metastore, table, 1, 1, 2, level=5, row_count=20)
    _compact(metastore, table, 2, moves=(3,), level=2)
    live = to_live_files(metastore.plan(PlanRequest(table.table_uuid)).files)
    assert [file.added_snapshot for file in live] == [3, 4]
    return "positions of files that are no more" if are_committed(live) else ""


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
    Case(of_two_compactors_the_second_loses, f"{REBASE}.find_gone"),
    Case(rows_pass_no_file_that_stays, f"{REBASE}.find_in_the_way", lambda *_, **__: None),
    Case(a_delete_that_is_dropped_hid_nothing, f"{REBASE}.find_in_the_way", lambda *_, **__: None),
    Case(a_level_is_one_sorted_run, f"{REBASE}.find_in_the_way", lambda *_, **__: None),
    Case(what_one_group_writes_to_a_level_is_one_sorted_run, f"{REBASE}._check_overlap"),
    Case(a_compaction_loses_no_row_without_a_key, f"{REBASE}._check_rows"),
    Case(a_compaction_moves_no_row_to_another_bucket, f"{REBASE}._check_bucket"),
    Case(levels_are_for_compactions_of_rows_with_keys, f"{REBASE}._check_level"),
    Case(a_repeated_compaction_returns_what_was_dropped, f"{RECORDS}._dropped"),
    Case(
        the_files_of_a_compaction_that_was_dropped_may_be_deleted,
        "metastore.commits.group._end_attempt",
        lambda *_: AttemptState.COMMITTED,
    ),
    Case(
        a_moved_file_knows_nothing_of_what_was_rewritten_since,
        f"{RECORDS}._INSERT_MOVED",
        group_records._INSERT_MOVED.replace("n.deletion_vector_path\n", "f.deletion_vector_path\n"),
    ),
    Case(what_was_looked_up_still_holds, f"{RULES}._check_base"),
    Case(files_of_another_bucket_count_stay_out, f"{RULES}.check_compatible"),
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
