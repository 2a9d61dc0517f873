from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.client.metastore.metastore import WatchEvent
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    InternalError,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    SnapshotExpired,
    Unavailable,
)
from lakelog.format.jobs.work import Pipeline
from tests.support.snapshots import make_snapshot
from tests.unit.cli.fakes import Lake


def test_databases_are_made_listed_and_dropped(lake: Lake) -> None:
    assert lake.run("database", "create", "lab").out == "Created database lab.\n"
    again = lake.run("database", "create", "lab")
    assert (again.code, again.err) == (4, "Error: Database lab exists already.\n")
    assert "nothing was changed" in lake.run("database", "create", "lab", "--if-not-exists").out
    listed = lake.run("database", "list").out.splitlines()
    assert listed[0].split() == ["DATABASE", "TABLES", "SIZE", "COMMENT"]
    assert listed[1].split() == ["shop", "0", "0", "B", "what", "we", "sell"]
    document = json.loads(lake.run("database", "list", "--output", "json").out)
    assert document[1] == {"name": "lab", "tables": 0, "size_bytes": 0, "comment": ""}
    assert lake.run("database", "drop", "lab", "--yes").out == "Dropped database lab.\n"


def test_an_empty_listing_says_so_to_people_and_is_empty_to_programs(lake: Lake) -> None:
    lake.metastore.databases.clear()
    assert "no databases yet" in lake.run("database", "list").out
    assert json.loads(lake.run("-o", "json", "database", "list").out) == []


def test_a_table_is_made_from_text(lake: Lake) -> None:
    made = lake.run(
        "table", "create", "shop.visits", "--schema", "dt DATE NOT NULL, id INT NOT NULL, tags ARRAY<STRING>",
        "--primary-key", "dt, id", "--partition-by", "dt", "-O", "bucket=4", "--option", "sequence.field=id",
    )  # fmt: skip
    assert (made.code, made.out) == (0, "Created table shop.visits.\n")
    info = lake.metastore.tables["shop.visits"]
    assert info.schema.primary_key == ("dt", "id")
    assert info.schema.partition_by == ("dt",)
    assert info.options == {"bucket": "4", "sequence.field": "id"}
    assert [field.nullable for field in info.schema.arrow] == [False, False, True]


def test_a_table_is_made_like_a_file(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), file)
    assert lake.run("table", "create", "shop.visits", "--schema-from", str(file), "--primary-key", "id").code == 0
    schema = lake.metastore.tables["shop.visits"].schema.arrow
    assert [(field.name, field.nullable) for field in schema] == [("id", False), ("name", True)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--schema", "id BIGNIT"), "at character 4 stands 'BIGNIT', expected a type such as BOOLEAN"),
        (("--schema", "id INT,"), "at character 8 stands the end, expected the name of a field"),
        (("--schema", "id INT> x"), "at character 9 stands 'x'"),
        (("--schema", " "), "names no columns"),
        ((), "either --schema or --schema-from"),
        (("--schema", "id INT", "--option", "bucket"), "'bucket' is not of the form KEY=VALUE"),
        (("--schema", "id INT", "--option", "a=1", "--option", "a=2"), "sets 'a' twice"),
        (("--schema", "id INT", "--primary-key", "id,"), "empty name"),
    ],
)
def test_a_table_that_cannot_be_made_is_refused(lake: Lake, arguments: tuple[str, ...], says: str) -> None:
    refused = lake.run("table", "create", "shop.visits", *arguments)
    assert refused.code == 2
    assert says in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["orders", "a.b.c", ".orders", "shop.", ""])
def test_a_table_is_named_in_full(lake: Lake, name: str) -> None:
    refused = lake.run("table", "describe", name)
    assert (refused.code, "write database.table" in refused.err) == (2, True)


def test_describe_shows_columns_options_and_size(lake: Lake) -> None:
    empty = lake.run("table", "describe", "shop.orders").out
    assert "none yet" in empty
    lake.metastore.snapshots = [make_snapshot(1), make_snapshot(2)]
    text = lake.run("table", "describe", "shop.orders").out
    assert ["Options", "bucket=2"] in [line.split() for line in text.splitlines()]
    assert "3.0 KiB" in text
    assert ["id", "BIGINT", "NOT", "NULL", "1"] in [line.split() for line in text.splitlines()]
    document = json.loads(lake.run("table", "describe", "shop.orders", "-o", "json").out)
    assert document["bytes"] == 3072
    assert document["committed_at"] == "2013-01-01T10:00:02.000Z"
    assert document["columns"][0] == {
        "name": "id", "type": "BIGINT", "nullable": False, "primary_key": 1, "partition": None, "default": None,
        "comment": "",
    }  # fmt: skip


def test_options_are_set_and_unset(lake: Lake) -> None:
    done = lake.run("table", "options", "set", "shop.orders", "target-file-size=64 mb", "x=")
    assert done.out == "Options of shop.orders: bucket=2, target-file-size=64 mb, x=\n"
    document = json.loads(lake.run("table", "options", "unset", "shop.orders", "x", "-o", "json").out)
    assert document == {"table": "shop.orders", "options": {"bucket": "2", "target-file-size": "64 mb"}}


def test_nothing_is_dropped_without_being_asked(lake: Lake) -> None:
    refused = lake.run("table", "drop", "shop.orders")
    assert (refused.code, "add --yes" in refused.err) == (2, True)
    assert "shop.orders" in lake.metastore.tables
    assert lake.run("table", "drop", "shop.orders", "-y").code == 0
    assert not lake.metastore.tables


def test_snapshots_show_the_newest_and_say_what_is_left_out(lake: Lake) -> None:
    assert "no snapshots yet" in lake.run("snapshots", "shop.orders").out
    lake.metastore.snapshots = [make_snapshot(n) for n in range(1, 8)]
    shown = lake.run("snapshots", "shop.orders", "--limit", "2", width=200)
    assert [line.split()[0] for line in shown.out.splitlines()] == ["SNAPSHOT", "6", "7"]
    assert "--until 5" in shown.err
    assert "2013-01-01T10:00:07.000Z" in shown.out
    assert "10.5 KiB" in shown.out
    document = json.loads(lake.run("snapshots", "shop.orders", "--after", "6", "-o", "json").out)
    assert [(s["snapshot_id"], s["total_bytes"], s["watermark"]) for s in document] == [(7, 10752, None)]
    assert "those from 1 to 7" in lake.run("snapshots", "shop.orders", "--after", "7").out


def test_a_scan_shows_some_rows_and_says_that_there_are_more(lake: Lake) -> None:
    shown = lake.run("scan", "shop.orders")
    assert len(shown.out.splitlines()) == 21
    assert shown.err == "The first 20 rows; there are more: --limit N, or --limit 0 for all.\n"
    assert len(lake.run("scan", "shop.orders", "--limit", "0").out.splitlines()) == 31
    exactly = lake.run("scan", "shop.orders", "--limit", "30")
    assert exactly.err == ""


def test_a_scan_hands_its_arguments_on(lake: Lake) -> None:
    lake.run("scan", "shop.orders", "-c", "id, item", "--filter", "id > 3", "--timestamp", "2013-01-01T11:00:00+01:00")
    (call,) = lake.table.calls
    assert call["columns"] == ["id", "item"]
    assert call["filter"] == "id > 3"
    assert call["timestamp"] == 1_357_034_400_000
    assert lake.run("scan", "shop.orders", "--count").out == "30\n"
    both = lake.run("scan", "shop.orders", "--timestamp", "5", "--snapshot", "1")
    assert (both.code, "--snapshot and --timestamp" in both.err) == (2, True)


def test_a_scan_for_programs_is_all_rows_a_line_each(lake: Lake) -> None:
    shown = lake.run("scan", "shop.orders", "--output", "json")
    rows = [json.loads(line) for line in shown.out.splitlines()]
    assert rows[3] == {"id": 3, "item": "item 3"}
    assert len(rows) == 30
    assert shown.err == ""


def test_a_scan_without_rows_says_so(lake: Lake) -> None:
    lake.catalog.the_table.rows = lake.table.rows.slice(0, 0)
    assert lake.run("scan", "shop.orders").out == "No rows in shop.orders.\n"
    assert lake.run("scan", "shop.orders", "--filter", "id = 1").out == "No rows in shop.orders match.\n"
    assert lake.run("scan", "shop.orders", "-o", "json").out == ""


def test_wide_rows_leave_columns_out_and_say_which(lake: Lake) -> None:
    lake.catalog.the_table.rows = pa.table(
        {"long": ["x" * 300, "y\n\x1b[31m", None], **{f"c{i}": [1, 2, 3] for i in range(40)}}
    )
    shown = lake.run("scan", "shop.orders", width=60)
    lines = shown.out.splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert lines[1].startswith("xxxxx")
    assert "…" in lines[1]
    assert lines[2].startswith("y\\n\\x1b[31m")
    assert lines[3].startswith("NULL")
    assert "did not fit" in shown.err


CHANGES = pa.table(
    {
        "id": [1, 2, 1],
        "item": ["tea", "cup", "tea"],
        "_row_kind": ["+I", "+I", "-D"],
        "_snapshot_id": pa.array([1, 1, 2], pa.int64()),
    }
)


def test_tail_begins_with_the_newest_snapshot(lake: Lake) -> None:
    lake.catalog.the_table.rows = CHANGES
    assert "no snapshots yet" in lake.run("tail", "shop.orders").out
    lake.metastore.snapshots = [make_snapshot(1), make_snapshot(2)]
    lines = lake.run("tail", "shop.orders").out.splitlines()
    assert [line.split() for line in lines] == [["_snapshot_id", "_row_kind", "id", "item"], ["2", "-D", "1", "tea"]]
    shown = lake.run("tail", "shop.orders", "--after", "0", "--until", "1", "-o", "json").out.splitlines()
    assert [json.loads(line)["_row_kind"] for line in shown] == ["+I", "+I"]
    cut = lake.run("tail", "shop.orders", "--after", "0", "--limit", "2")
    assert len(cut.out.splitlines()) == 3
    assert "The first 2 rows" in cut.err


def test_tail_refuses_to_begin_after_the_newest_snapshot_unless_it_waits(lake: Lake) -> None:
    lake.catalog.the_table.rows = CHANGES
    lake.metastore.snapshots = [make_snapshot(1), make_snapshot(2)]
    refused = lake.run("tail", "shop.orders", "--after", "7")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err == "Error: Snapshot 7 of shop.orders does not exist.\n"
    assert lake.run("tail", "shop.orders", "--after", "2").code == 0
    assert "Snapshot 7" not in lake.run("tail", "shop.orders", "--after", "7", "--follow").err


def test_tail_reports_snapshots_that_it_cannot_show(lake: Lake) -> None:
    lake.catalog.the_table.rows = CHANGES
    lake.catalog.the_table.overwrites = (2, 3)
    lake.metastore.snapshots = [make_snapshot(1), make_snapshot(2), make_snapshot(3)]
    assert "Snapshot 2 overwrote rows" in lake.run("tail", "shop.orders", "--after", "0", "--until", "2").err
    assert "Snapshots 2, 3 overwrote rows" in lake.run("tail", "shop.orders", "--after", "0").err
    assert "overwrote" not in lake.run("tail", "shop.orders", "--after", "0", "--until", "1").err
    shown = lake.run("tail", "shop.orders", "--after", "0", "--until", "2", "-o", "json")
    reported = [json.loads(line) for line in shown.err.splitlines()]
    assert [(each["kind"], each["message"][:26]) for each in reported] == [("Warning", "Snapshot 2 overwrote rows;")]
    assert "overwrote" not in shown.out


def test_tail_follows_over_a_metastore_that_goes_and_returns(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.cli.commands.rows.tail._RETRY_S", 0.0)
    lake.catalog.the_table.rows = CHANGES
    uuid = lake.metastore.tables["shop.orders"].table_uuid
    lake.metastore.events = [
        WatchEvent(uuid, (make_snapshot(1),)),
        Unavailable("gone"),
        Unavailable("gone"),
        WatchEvent(uuid, (make_snapshot(2),)),
    ]
    shown = lake.run("tail", "shop.orders", "--follow")
    assert shown.code == 130
    assert [line.split()[0] for line in shown.out.splitlines()] == ["_snapshot_id", "1", "1", "2"]
    assert shown.err.splitlines()[:2] == ["The metastore is away; waiting for it.", "The metastore is back."]
    assert [(call["after"], call["until"], call["raw"]) for call in lake.table.calls] == [
        (0, 1, False),
        (1, 2, False),
    ]


def test_tail_ends_when_the_table_is_dropped(lake: Lake) -> None:
    lake.metastore.events = [WatchEvent(lake.metastore.tables["shop.orders"].table_uuid, (), dropped=True)]
    ended = lake.run("tail", "shop.orders", "--follow")
    assert (ended.code, ended.err) == (3, "Error: Table shop.orders was dropped.\n")


def test_files_leave_out_columns_that_say_nothing(lake: Lake) -> None:
    lake.table.file_rows = pa.table(
        {
            "path": ["data/a/1.parquet"],
            "partition": pa.array([{}], pa.struct([])),
            "bucket": [0],
            "level": [0],
            "rows": [1234],
            "bytes": [2048],
            "min_key": pa.array(["1\u2028\x85"]),
            "max_key": pa.array(["id=9"]),
            "added_snapshot": [4],
        }
    )
    shown = lake.run("files", "shop.orders", width=200)
    assert shown.out.splitlines()[0].split("  ")[0] == "BUCKET"
    assert "id=9" in shown.out
    assert shown.err == "1 file, 1,234 stored rows, 2.0 KiB.\n"
    assert json.loads(lake.run("files", "shop.orders", "-o", "json").out)[0]["bytes"] == 2048


def test_pipelines_show_lag_and_last_error(lake: Lake) -> None:
    assert "No pipeline has reported yet" in lake.run("pipelines", "list").out
    running = Pipeline(
        "flights", "air.flights", "folder /in", "running", 7, "120 of 365 files", 245, 9000, 2, "", 1, "me"
    )
    lake.metastore.pipelines = [
        running,
        replace(running, name="weather", state="failed", last_error="bad line 3", holder=""),
        replace(running, name="killed", holder=""),
    ]
    shown = lake.run("pipelines", "list", width=200)
    assert "120 of 365 files" in shown.out
    assert shown.err == "weather: bad line 3\n"
    document = json.loads(lake.run("pipelines", "list", "-o", "json").out)
    assert (document[0]["lag"], document[0]["last_error"], document[1]["holder"]) == (245, None, None)
    assert [record["state"] for record in document] == ["running", "failed", "abandoned"]


def test_a_pipeline_is_forgotten(lake: Lake) -> None:
    done = lake.run("pipelines", "forget", "flights")
    assert (done.code, done.out, lake.metastore.forgotten) == (0, "Forgot pipeline flights.\n", ["flights"])


def test_a_writer_is_released(lake: Lake) -> None:
    lake.metastore.writer_owners = {"nightly": "alice"}
    done = lake.run("writers", "release", "nightly")
    assert (done.code, lake.metastore.writer_owners) == (0, {})
    assert done.out == "Released writer nightly. It belonged to alice. The next caller that uses it owns it.\n"
    again = lake.run("writers", "release", "nightly", "-o", "json")
    assert json.loads(again.out) == {"writer": "nightly", "former_owner": None}


def test_times_beyond_the_years_that_python_knows_are_shown(lake: Lake) -> None:
    far = 400_000_000_000_000_000  # In microseconds: the year 14645.
    lake.catalog.the_table.rows = pa.table(
        {
            "instant": pa.array([far, 0], pa.timestamp("us", "UTC")),
            "day": pa.array([5_000_000, 0], pa.date32()),
        }
    )
    shown = lake.run("scan", "shop.orders", "--columns", "instant,day")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[1].startswith("14645-06-30T15:06:40Z")
    assert shown.out.splitlines()[2].split() == ["1970-01-01T00:00:00Z", "1970-01-01"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LakelogError("x"), 1),
        (InternalError("x"), 1),
        (InvalidArgument("x"), 2),
        (NotFound("x"), 3),
        (SnapshotExpired("x"), 3),
        (AlreadyExists("x"), 4),
        (CommitConflict("x"), 4),
        (Unavailable("x"), 5),
        (OutcomeUnknown("x"), 5),
        (KeyboardInterrupt(), 130),
        (RuntimeError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(lake.metastore, "list_databases", fail)
    assert lake.run("database", "list").code == code
    assert lake.catalog.closed


def test_programs_get_errors_as_json(lake: Lake) -> None:
    failed = lake.run("table", "describe", "shop.nothing", "-o", "json")
    assert json.loads(failed.err) == {
        "kind": "NotFound",
        "reason": "TABLE_NOT_FOUND",
        "message": "Table shop.nothing does not exist.",
        "metadata": {},
        "exit_code": 3,
    }


def test_a_traceback_is_shown_when_asked_for(lake: Lake) -> None:
    assert "Traceback" not in lake.run("table", "describe", "shop.nothing").err
    assert "Traceback" in lake.run("table", "describe", "shop.nothing", "-v").err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("scan", "shop.orders", "--limit", "many"), "'many' is not a whole number of at least 0"),
        (("snapshots", "shop.orders", "--limit", "5000"), "from 1 to 1000"),
        (("scan",), "Missing argument 'DATABASE.TABLE'"),
        (("scann",), "No such command 'scann'"),
        (("scan", "shop.orders", "--colums", "a"), "No such option"),
    ],
)
def test_wrong_usage_is_one_line_with_where_to_look(lake: Lake, arguments: tuple[str, ...], says: str) -> None:
    wrong = lake.run(*arguments)
    assert wrong.code == 2
    assert says in wrong.err
    assert "--help" in wrong.err
    assert len(wrong.err.splitlines()) == 1


def test_options_may_stand_after_the_command_and_win_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_OUTPUT", "json")
    assert json.loads(lake.run("database", "list").out)
    assert lake.run("database", "list", "-o", "table").out.startswith("DATABASE")


def test_groups_alone_show_their_help(lake: Lake) -> None:
    for arguments in ((), ("table",)):
        shown = lake.run(*arguments)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.startswith("Usage: lakelog")


def test_what_is_unknown_is_reported_in_whole_sentences(lake: Lake) -> None:
    assert lake.run("scna").err == "Error: No such command 'scna'. Did you mean 'scan'? See: lakelog --help\n"
    assert lake.run("scan").err == "Error: Missing argument 'DATABASE.TABLE'. See: lakelog scan --help\n"
