"""How many statements a group of commits takes: each one is time under the lock of a table's head."""

from __future__ import annotations

from lakelog.format.commit.facts import AttemptState, OrderKey, PlacedChangelogFile, PlacedFile
from lakelog.format.tables.files import DataFile
from metastore.postgres.commits.group_records import group_statements
from metastore.store.records import GroupRecords


def make_file(partition: bytes) -> DataFile:
    return DataFile("data/x/a.parquet", partition, 0, 0, 1, 0, 1, None, None, 0)


def count(partition: bytes, with_changelog: bool) -> int:
    records = GroupRecords(attempts={"0" * 32: AttemptState.COMMITTED})
    for number in range(1, 4):
        records.files.append((1, PlacedFile(number, make_file(partition), number, OrderKey(number, 0, 0))))
        if with_changelog:
            records.changelog_files.append((1, PlacedChangelogFile(make_file(partition), number, 0, 0)))
    return len(group_statements(records))


def test_a_commit_without_a_changelog_takes_no_statement_for_it() -> None:
    assert (count(b"", False), count(b"p", False)) == (3, 4)


def test_changelog_files_of_a_group_take_one_statement_and_one_for_their_partitions() -> None:
    assert (count(b"", True), count(b"p", True)) == (4, 6)
