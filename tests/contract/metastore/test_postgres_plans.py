"""What a commit looks up costs the same however much there is, although Postgres planned it when there was nothing.

A connection plans a statement once, often on the first commit ever, and keeps the plan until the tables are analyzed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from metastore.postgres import retention, table_files
from metastore.postgres.commits import changes, commits
from metastore.postgres.connection import connections
from metastore.postgres.jobs import due, full_counts, jobs

ROWS = 2000

FILL = f"""
INSERT INTO commit_result (table_id, writer, identifier, committed_at_ms)
SELECT 1, 'w', n, n FROM generate_series(1, {ROWS}) n;
INSERT INTO snapshot (table_id, snapshot_id, snapshot_uuid, kind, schema_id, committed_at_ms, total_rows, total_files,
    total_bytes, added_rows, added_files, removed_files, writer, identifier, next_file_id)
SELECT 1, n, gen_random_uuid(), 'APPEND', 0, n, n, n, n, 1, 1, 0, 'w', n, n + 1 FROM generate_series(1, {ROWS}) n;
INSERT INTO data_file (table_id, file_id, partition_id, bucket, level, path, row_count, delete_count, size_bytes,
    schema_id, added_snapshot, order_snapshot, order_time_ms, order_ordinal)
SELECT 1, n, 0, 0, 0, 'data/' || n, 1, 0, 1, 0, n, n, n, 0 FROM generate_series(1, {ROWS}) n;
-- A table of which all snapshots have expired but the last one.
INSERT INTO snapshot (table_id, snapshot_id, snapshot_uuid, kind, schema_id, committed_at_ms, total_rows, total_files,
    total_bytes, added_rows, added_files, removed_files, writer, identifier, next_file_id)
SELECT 2, {ROWS}, gen_random_uuid(), 'APPEND', 0, 1, 1, 1, 1, 1, 1, 0, 'w', 1, {ROWS} + 1;
INSERT INTO data_file (table_id, file_id, partition_id, bucket, level, path, row_count, delete_count, size_bytes,
    schema_id, added_snapshot, order_snapshot, order_time_ms, order_ordinal)
SELECT 2, n, 0, 0, 0, 'data/2/' || n, 1, 0, 1, 0, n, n, n, 0 FROM generate_series(1, {ROWS}) n;
INSERT INTO full_count (table_id, resolved_until, counted_until, commit_count, first_file_id)
VALUES (2, {ROWS} - 4, {ROWS}, 4, {ROWS} - 3);
INSERT INTO job (table_id, kind, scope, state, priority, attempts, reason, outcome, epoch, holder, due_at,
    created_at_ms, updated_at_ms)
SELECT 1, 'compact', '/' || n, CASE n WHEN 1 THEN 'due' WHEN 2 THEN 'leased' WHEN 3 THEN 'failed' ELSE 'done' END, 0, 0,
    '', '', 0, '', now(), 0, 0 FROM generate_series(1, {ROWS}) n;
INSERT INTO attempt (attempt_id, state, table_uuids, writer, opened_at)
SELECT gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'open' ELSE 'aborted' END,
    ARRAY['00000000-0000-0000-0000-000000000001'::uuid], 'w',
    now() - CASE WHEN n < 3 THEN interval '9 days' ELSE interval '0' END
FROM generate_series(1, {ROWS}) n;
"""

PLACES = 300

FILL_PARTITIONS = f"""
INSERT INTO table_partition (table_id, encoded) SELECT 1, n::text::bytea FROM generate_series(1, {PLACES}) n;
INSERT INTO data_file (table_id, file_id, partition_id, bucket, level, path, row_count, delete_count, size_bytes,
    schema_id, added_snapshot, order_snapshot, order_time_ms, order_ordinal)
SELECT 1, {ROWS} + partition_id, partition_id, 0, 0, 'data/' || partition_id, 1, 0, 1, 0, {ROWS}, {ROWS}, 1, 0
FROM table_partition;
"""

DAY_MS = 86_400_000

LOOKUPS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "an earlier result": (commits._FIND_RESULTS, (["0" * 31 + "1"], ["w"], [ROWS + 1])),
    "who changed a bucket": (
        changes._FIND_CHANGES,
        ([b""], [0], 1, 1, 1, ROWS - 1, ROWS - 1, 1, ROWS - 1, 1, "false"),
    ),
    "files to remove": (commits._MARK_FILES, (ROWS + 1, 1, [5, 6])),
    "what is live in a bucket": (commits._FIND_LIVE_FILES, ([b""], [7], 1, 1)),
    "what has expired": (
        retention._CLEAR_FILES,
        (1, 0, ROWS, 1, 0, ROWS, 0, [3], [3], ROWS, [3], [3], 1000),
    ),
    "who else names a file": (retention._EXPIRE, (1, ["data/7", "data/gone"], 1, 1, 1)),
    "what some snapshots touched": (
        due._LIST_TOUCHED,
        (1, 1, ROWS - 1, 1, ROWS, ROWS - 1, ROWS, 1, ROWS - 1, ROWS),
    ),
    "small files since some snapshot": (due._COUNT_SMALL, (1, 1, ROWS - 2, ROWS - 2, ROWS, ROWS, 2, [b""], 1)),
    "what is written since a full compaction": (
        full_counts._LIST_WRITTEN,
        (2, 2, ROWS - 4, 2, ROWS - 4, ROWS - 4, ROWS, 2, ROWS - 4, ROWS, 2),
    ),
    "attempts of a table that are over": (
        table_files._LIST_UNFINISHED,
        (DAY_MS, DAY_MS, DAY_MS, "00000000-0000-0000-0000-000000000001", 10),
    ),
    "tables with attempts that are over": (table_files._LIST_UNCLEANED, (DAY_MS, DAY_MS, DAY_MS, 10)),
    "jobs that are not done": (jobs._DESCRIBE_QUEUE, ()),
}

WITHOUT_CARE = {
    "an earlier result": (" LIMIT 1\n) r", "\n) r"),
    "who changed a bucket": (
        "JOIN LATERAL (\n    SELECT kind, writer, committed_at_ms FROM snapshot WHERE table_id = %s "
        "AND snapshot_id = c.snapshot_id LIMIT 1\n) s ON s.kind <> 'COMPACT' OR %s::boolean",
        "JOIN snapshot s ON s.table_id = %s AND s.snapshot_id = c.snapshot_id AND (s.kind <> 'COMPACT' OR %s::boolean)",
    ),
    "files to remove": ("coalesce(removed_snapshot, 0) = 0", "removed_snapshot IS NULL"),
    "what is live in a bucket": (" OFFSET 0", ""),
    "what has expired": (
        "d.removed_snapshot > %s AND d.removed_snapshot <= %s",
        "coalesce(d.removed_snapshot, 0) > %s AND coalesce(d.removed_snapshot, 0) <= %s",
    ),
    "who else names a file": (
        'd.path = g.path COLLATE "C" AND d.table_id + 0 = %s',
        "d.path || '' = g.path AND d.table_id = %s",
    ),
    "what some snapshots touched": (" AND file_id >= ", " AND file_id + 0 >= "),
    "small files since some snapshot": (" AND file_id >= ", " AND file_id + 0 >= "),
    "what is written since a full compaction": ("greatest(", "least("),
    "attempts of a table that are over": (
        "<> 'committed' AND opened_at <= statement_timestamp()",
        "<> 'committed' AND opened_at <= clock_timestamp()",
    ),
    "jobs that are not done": ("WHERE state IN ('due', 'leased')", "WHERE state <> ALL('{failed,done}')"),
    "tables with attempts that are over": (
        "<> 'committed' AND opened_at <= statement_timestamp()",
        "<> 'committed' AND opened_at <= clock_timestamp()",
    ),
}


@pytest.fixture
def connection(migrated_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Set up as the metastore's own."""
    with psycopg.connect(connections.libpq_url(migrated_url), autocommit=True) as opened:
        opened.execute(f"SELECT {connections._assignments(connections._SETTINGS)}".encode())
        opened.execute(
            "INSERT INTO table_head (table_id, table_uuid, name, schema_id, bucket_count, partitioned,"
            " latest_snapshot_id, earliest_snapshot_id, committed_at_ms, total_rows, total_files, total_bytes,"
            " next_file_id) VALUES (1, '00000000-0000-0000-0000-000000000001', 't', 0, -1, false, 0, 1, 0, 0, 0, 0, 1)"
        )
        yield opened


def rows_looked_at(
    connection: psycopg.Connection[Any], statement: str, parameters: tuple[Any, ...], more: str = ""
) -> int:
    """How many entries of the tables a statement reads that was planned before there were any."""
    first, *rest = statement.split("%s")
    numbered = first + "".join(f"${number}{part}" for number, part in enumerate(rest, start=1))
    connection.execute(f"PREPARE looked_up AS {numbered}".encode())
    values = ", ".join(psycopg.sql.Literal(value).as_string(connection) for value in parameters)
    call = f"looked_up ({values})" if values else "looked_up"
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {call}".encode()
    connection.execute(explain)
    connection.execute((FILL + more).encode())
    row = connection.execute(explain).fetchone()
    assert row is not None
    plans = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return sum(_read(plan["Plan"]) for plan in plans)


def _read(node: dict[str, Any]) -> int:
    read = sum(_read(child) for child in node.get("Plans", []))
    if "Scan" in node["Node Type"] and node.get("Relation Name"):
        per_loop = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        read += round(per_loop * node["Actual Loops"])
    return read


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_reads_what_it_is_about(connection: psycopg.Connection[Any], name: str) -> None:
    statement, parameters = LOOKUPS[name]
    assert rows_looked_at(connection, statement, parameters) < 20


@pytest.mark.parametrize("name", LOOKUPS)
def test_control_without_care_a_lookup_reads_the_whole_table(connection: psycopg.Connection[Any], name: str) -> None:
    statement, parameters = LOOKUPS[name]
    careful, careless = WITHOUT_CARE[name]
    assert statement.count(careful) == 1
    assert rows_looked_at(connection, statement.replace(careful, careless), parameters) >= ROWS


@pytest.mark.parametrize("is_hashed", [True, False], ids=["protected", "control"])
def test_many_changes_are_found_in_many_places_without_comparing_all_with_all(
    connection: psycopg.Connection[Any], is_hashed: bool
) -> None:
    """Six thousand places and a thousand changes took twelve seconds, while the table was locked."""
    statement = changes._FIND_CHANGES
    if not is_hashed:
        join = "JOIN wanted w ON w.partition_id = c.partition_id AND (w.bucket = c.bucket OR w.bucket IS NULL)"
        statement = statement.replace("AS MATERIALIZED", "AS NOT MATERIALIZED")
        statement = statement.replace("FROM changed c\n", f"FROM changed c\n{join}\n")
    places = [str(number).encode() for number in range(1, PLACES + 1)]
    parameters = (places, [None] * PLACES, 1, 1, 1, ROWS - 1, ROWS - 1, 1, ROWS - 1, 1, "false")
    looked_at = rows_looked_at(connection, statement, parameters, FILL_PARTITIONS)
    assert looked_at < 10 * PLACES if is_hashed else looked_at > PLACES * PLACES / 2
