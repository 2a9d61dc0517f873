"""The pages of databases and tables: what they show, how they page, and what bad input gets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote, unquote_plus

import pyarrow as pa
import pytest

import lakelog
from console.pages import overview
from console.pages.tables import files as file_pages
from console.pages.tables import names as name_pages
from console.pages.tables.jobs import measure_amplification
from console.pages.tables.sample import sample
from console.pages.tables.snapshots import comparison, snapshots
from lakelog import AddColumn, RenameColumn
from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.health.health import examine
from lakelog.health.problem import Problem, Severity
from lakelog.log.memory.reader import MemoryReader
from lakelog.sdk.tables.table import Table
from tests.support.console import Console
from tests.support.log.log_world import World, rows

_TABS = ("", "/history", "/snapshots", "/snapshots/1", "/files", "/log", "/streams", "/jobs")
_DAYS = pa.schema([("day", pa.string()), ("n", pa.int64()), ("text", pa.string())])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("console"))
    yield world
    world.close()


@pytest.fixture(scope="module")
def console(world: World) -> Console:
    return Console(lambda _: world.catalog)


@pytest.fixture(scope="module")
def orders(world: World) -> Table:
    """A table with a key, a published log, and five snapshots."""
    table, publisher = world.make()
    for number in range(5):
        table.upsert(rows((number, number), (number + 1, number)), writer="etl", identifier=number)
    publisher.publish()
    table.tags.create("begin", 2)
    return table


@pytest.fixture(scope="module")
def days(world: World) -> Table:
    """An append table by day, some of whose days are no words of SQL."""
    table = world.catalog.create_table(
        "shop.days", _DAYS, partition_by=["day"], options={"snapshot.num-retained.max": "1000"}
    )
    days = ["1", "it's", "a\\b", None]
    table.append([{"day": day, "n": number, "text": "t"} for number, day in enumerate(days)])
    return table


def _find_problems(text: str) -> list[str]:
    return re.findall(r'class="problem"[^>]*>([^<]*)', text)


def _read_pages(console: Console, address: str, part: str) -> list[Any]:
    """The rows of a listing, page by page."""
    found: list[Any] = []
    while True:
        found += console.json(address)[part]
        answer = console.get(address)
        more = re.search(rf'rel="next" href="(\?[^"#]*)#{part}"', answer.text)
        if more is None:
            return found
        address = address.partition("?")[0] + more[1].replace("&amp;", "&")


@pytest.mark.parametrize("tab", _TABS)
def test_each_page_shows_the_table(console: Console, orders: Table, tab: str) -> None:
    answer = console.get(f"/tables/shop/orders{tab}")
    assert answer.status == 200
    assert not _find_problems(answer.text)
    assert answer.text.count('aria-current="page"') == 2
    assert console.json(f"/tables/shop/orders{tab}")


def test_options_say_where_their_values_come_from(console: Console, orders: Table, days: Table) -> None:
    shown = console.json("/tables/shop/orders")
    assert {each["source"] for each in shown["options"]} == {"this table"}
    assert {each["key"]: each["value"] for each in shown["options"]}["log.system"] == "kafka"
    defaults = {each["key"]: each for each in shown["defaults"]}
    assert (defaults["bucket"]["value"], defaults["bucket"]["source"]) == ("1", "default by the table")
    assert (defaults["merge-engine"]["value"], defaults["merge-engine"]["source"]) == ("deduplicate", "default")
    assert not defaults["merge-engine"]["changeable"]
    without_key = {each["key"]: each for each in console.json("/tables/shop/days")["defaults"]}
    assert without_key["bucket"]["value"] == "-1"


def test_rows_fulfil_the_filter(console: Console, orders: Table) -> None:
    assert {row["k"] for row in console.json("/tables/shop/orders")["rows"]} == set(range(6))
    assert console.json(f"/tables/shop/orders?filter={quote('k > 3')}")["rows"] == [{"k": 4, "v": 4}, {"k": 5, "v": 4}]


def test_snippets_run_as_they_stand(
    console: Console, world: World, orders: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    snippets = {each["title"]: each["text"] for each in console.json("/tables/shop/orders")["snippets"]}
    monkeypatch.setattr(lakelog, "connect", {"localhost:7450": world.catalog}.__getitem__)
    exec(snippets["SDK"], {})
    assert "{'k': 5, 'v': 4}" in capsys.readouterr().out, "a person sees rows"
    for title in ("SDK", "SDK, what changes from now on", "Spark", "Iceberg"):
        compile(snippets[title], title, "exec")
        assert '"localhost:7450"' in snippets[title], "each says which metastore it reads"
    assert "subscribe('latest')" in snippets["SDK, what changes from now on"], "not all rows first"
    assert snippets["CLI"].endswith(" --follow"), "as its note says, it waits"
    assert snippets["CLI"].startswith("export LAKELOG_TARGET=localhost:7450\n")
    assert "spark = " in snippets["Spark"]


def test_a_wrong_filter_is_kept_and_explained(console: Console, orders: Table) -> None:
    answer = console.get(f"/tables/shop/orders?filter={quote('nothing > 3')}")
    assert answer.status == 200
    assert "There is no column" in _find_problems(answer.text)[0]
    assert 'value="nothing &gt; 3"' in answer.text
    assert 'aria-invalid="true" aria-describedby="filter-problem"' in answer.text


def test_rows_that_cost_much_are_shown_when_asked(
    console: Console, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "_CHEAP_FILES", 0)
    assert "rows" not in console.json("/tables/shop/orders")
    assert "when you ask" in console.get("/tables/shop/orders").text
    answer = console.get("/tables/shop/orders?rows=yes")
    assert 'data-live="no"' in answer.text
    assert len(console.json("/tables/shop/orders?rows=yes")["rows"]) == 6
    monkeypatch.setattr(sample, "_MOST_SEARCHED_BYTES", 0)
    assert "Narrow it by a partition" in _find_problems(console.get("/tables/shop/orders?filter=v=99").text)[0]


def test_large_values_are_cut_and_few_are_read(world: World, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.catalog.create_table("shop.large", _DAYS)
    table.append([{"day": "d", "n": number, "text": "x" * 1_000_000} for number in range(30)])
    found = console.json("/tables/shop/large")["rows"]
    assert len(found) == 20
    assert all(len(row["text"]) < 11_000 and "1,000,000 characters" in row["text"] for row in found)
    assert len(console.get("/tables/shop/large").text) < 100_000


def test_rows_of_many_bytes_are_read_until_there_are_enough(
    world: World, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A table of its own: the rows of one that was shown before are cached.
    table = world.catalog.create_table("shop.bytes", _DAYS, partition_by=["day"])
    table.append([{"day": str(number), "n": number, "text": "t"} for number in range(4)])
    monkeypatch.setattr(sample, "_MOST_BYTES", 1)
    found = console.json("/tables/shop/bytes")["rows"]
    assert 0 < len(found) < 4
    assert "these are many bytes" in console.get("/tables/shop/bytes").text


def test_schema_history_names_what_changed(world: World, console: Console) -> None:
    table = world.catalog.create_table("shop.changed", _DAYS)
    table.alter(columns=[AddColumn("extra", pa.int32())])
    table.alter(columns=[RenameColumn("text", "words")])
    shown = console.json("/tables/shop/changed/history")
    assert [each["changed"] for each in shown["versions"]] == ["renamed words", "added extra", "made"]
    assert shown["versions"][2]["used_since"] == table.info.created_at_ms
    made = [each["created_at"] for each in shown["versions"]]
    assert made == [each.created_at_ms for each in reversed(table._context.metastore.list_schemas(table.uuid))]
    assert made == sorted(made, reverse=True)
    assert made[-1] == table.info.created_at_ms
    changed = console.json("/tables/shop/changed/history?from=0&to=2")["changes"]
    assert [(each["column"], each["change"], each["before"], each["after"]) for each in changed] == [
        ("extra", "added", None, "INT"),
        ("words", "renamed", "text", "words"),
    ]
    assert console.get("/tables/shop/changed/history?to=9").status == 404
    assert "give a whole number" in _find_problems(console.get("/tables/shop/changed/history?to=-1").text)[0]


def test_schema_history_says_since_when_a_version_is_in_use(world: World, console: Console) -> None:
    table = world.catalog.create_table("shop.used", _DAYS)

    def append(count: int) -> None:
        for number in range(count):
            table.append(pa.table({"day": ["d"], "n": [number], "text": ["t"]}), fill_missing=True)

    append(3)
    table.alter(columns=[AddColumn("extra", pa.int32())])
    append(4)
    table.alter(columns=[AddColumn("skipped", pa.int32())])
    table.alter(columns=[AddColumn("more", pa.int32())])
    append(1)
    table.alter(columns=[AddColumn("unused", pa.int32())])
    committed = {each["id"]: each["committed_at"] for each in console.json("/tables/shop/used/snapshots")["snapshots"]}

    def uses() -> list[tuple[int | None, int | None]]:
        versions = console.json("/tables/shop/used/history")["versions"]
        return [(each["first_snapshot"], each["used_since"]) for each in versions]

    made_ms = table.info.created_at_ms
    assert uses() == [(None, None), (8, committed[8]), (None, None), (4, committed[4]), (1, made_ms)]
    assert "no commit has used them yet" in console.get("/tables/shop/used/history").text
    table.expire_snapshots(older_than=1 << 52, retain_last=3)
    assert uses() == [(None, None), (8, committed[8]), (None, None), (None, None), (None, made_ms)]


def test_snapshots_say_how_they_change_the_size(world: World, console: Console) -> None:
    table = world.catalog.create_table("shop.grown", _DAYS)
    for number in range(2):
        table.append([{"day": "d", "n": number, "text": "t" * 100}])
    table.overwrite([{"day": "d", "n": 3, "text": None}])
    shown = console.json("/tables/shop/grown/snapshots")["snapshots"]
    sizes = [0, *(each["bytes"] for each in reversed(shown))]
    assert [each["bytes_change"] for each in reversed(shown)] == [after - before for before, after in pairwise(sizes)]
    assert re.search(r'title="−[\d,]+ bytes"', console.get("/tables/shop/grown/snapshots").text)
    table.expire_snapshots(older_than=1 << 52, retain_last=1)
    assert [each["bytes_change"] for each in console.json("/tables/shop/grown/snapshots")["snapshots"]] == [None]


def test_snapshots_come_page_by_page(console: Console, orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PAGE_ROWS", 2)
    found = _read_pages(console, "/tables/shop/orders/snapshots", "snapshots")
    assert [each["id"] for each in found] == [5, 4, 3, 2, 1]
    assert [each["tags"] for each in found] == [None, None, None, "begin", None]
    assert {each["writer"] for each in found} == {"etl"}


def test_what_one_does_with_snapshots_comes_before_the_long_list_of_them(console: Console, orders: Table) -> None:
    text = console.get("/tables/shop/orders/snapshots").text
    assert text.index('id="h-between"') < text.index('id="tags"') < text.index('id="snapshots"')


def test_two_snapshots_are_compared(console: Console, orders: Table) -> None:
    shown = console.json("/tables/shop/orders/snapshots?from=1&to=3")
    differences = {each["what"]: each["difference"] for each in shown["differences"]}
    assert (differences["Stored rows"], differences["Files"], differences["Schema"]) == (4, 2, 0)
    assert [each["change"] for each in shown["files"]] == ["added", "added"]
    assert shown["changes"] == []
    assert differences["Size in bytes"] > 0
    text = console.get("/tables/shop/orders/snapshots?from=1&to=3").text
    cells = re.findall(r'data-title="Difference">\s*([^<\s]*)', text)
    assert cells[:2] == ["+4", "+2"]
    assert "none" in cells
    assert "−2" in console.get("/tables/shop/orders/snapshots?from=3&to=1").text, "with a sign that reads as one"
    back = console.json("/tables/shop/orders/snapshots?from=3&to=1")
    assert [each["change"] for each in back["files"]] == ["removed", "removed"]


def test_a_comparison_says_who_wrote_and_leads_to_the_rows(
    console: Console, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ("/tables/shop/orders/snapshots?from=1&to=3", "/tables/shop/orders/snapshots?from=3&to=1"):
        assert [(each["id"], each["writer"]) for each in console.json(address)["writers"]] == [(3, "etl"), (2, "etl")]
        link = re.search(r'href="/query\?sql=([^"]*)"', console.get(address).text)
        assert link is not None
        assert unquote_plus(link[1]).endswith("FROM shop.orders$changelog WHERE _snapshot_id > 1 AND _snapshot_id <= 3")
    monkeypatch.setattr(comparison, "PAGE_ROWS", 2)
    assert "The newest 2 of 4." in console.get("/tables/shop/orders/snapshots?from=1&to=5").text
    assert "writers" not in console.json("/tables/shop/orders/snapshots?from=2&to=2")


def test_a_snapshot_that_expired_between_two_clicks_is_a_sentence(world: World, console: Console) -> None:
    table = world.catalog.create_table("shop.brief", _DAYS)
    for number in range(3):
        table.append([{"day": "d", "n": number, "text": None}])
    assert console.get("/tables/shop/brief/snapshots/1").status == 200
    table.expire_snapshots(older_than=1 << 52, retain_last=1)
    for address in ("snapshots/1", "snapshots?from=1&to=3"):
        answer = console.get(f"/tables/shop/brief/{address}")
        assert answer.status == 410
        assert "Snapshot 1 of shop.brief has expired" in _find_problems(answer.text)[0]
    assert console.get("/tables/shop/brief/snapshots/4").status == 404
    assert console.get("/tables/shop/brief/snapshots/four").status == 400


def test_files_are_chosen_by_condition(console: Console, orders: Table) -> None:
    shown = console.json("/tables/shop/orders/files")
    assert len(shown["files"]) == 5
    assert [(each["level"], each["files"], each["rows"]) for each in shown["levels"]] == [(0, 5, 10)]
    assert len(console.json(f"/tables/shop/orders/files?where={quote('added_snapshot > 3')}&bucket=0")["files"]) == 2
    assert console.json("/tables/shop/orders/files?level=4")["files"] == []
    answer = console.get("/tables/shop/orders/files?where=nonsense&bucket=x")
    assert answer.status == 200
    assert "is no bucket" in _find_problems(answer.text)[0]
    assert "cannot be used" in _find_problems(console.get("/tables/shop/orders/files?where=nonsense").text)[0]


def test_buckets_with_too_many_sorted_runs_stand_out(world: World, console: Console) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    options = {"bucket": "2", "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    table = world.catalog.create_table("shop.runs", schema, primary_key=["k"], options=options)
    buckets: dict[int, int] = {}
    for number in range(8):
        table.upsert([{"k": number}])
        buckets |= {each["bucket"]: each["files"] for each in console.json("/tables/shop/runs/files")["buckets"]}
    shown = console.json("/tables/shop/runs/files")["buckets"]
    assert [each["runs"] for each in shown] == sorted(buckets.values(), reverse=True)
    assert [each["state"] for each in shown] == ["too many" if each["runs"] > 3 else "ok" for each in shown]
    assert shown[0]["state"] == "too many"
    answer = console.get("/tables/shop/runs/files").text
    assert "lakelog table compact shop.runs" in answer
    link = re.search(r'href="([^"]*files\?where=[^"]*)"', answer)
    assert link is not None
    assert len(console.json(link[1].replace("&amp;", "&"))["files"]) == shown[0]["files"]
    assert len(console.json("/tables/shop/runs/files?bucket=1")["buckets"]) == 1


def test_a_table_leads_to_its_grants_and_back(console: Console, days: Table) -> None:
    assert 'href="/grants?scope=shop.days"' in console.get("/tables/shop/days/files").text
    grants = console.get("/grants?scope=shop.days")
    assert grants.status == 200
    assert '<a href="/tables/shop/days">shop.days</a>' in grants.text


def test_where_callers_are_not_identified_pages_say_so(console: Console, days: Table) -> None:
    text = console.get("/grants?scope=shop.days").text
    assert "This metastore identifies no callers: everyone who reaches it may do everything" in text
    assert "you are an admin" not in text
    assert text.count("There is none, and none is needed") == 3
    assert "no one: callers are not identified" in console.get("/settings").text


def test_the_overview_says_where_to_type_what_helps(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def show(*kinds: str) -> str:
        problems = tuple(Problem(Severity.WARNING, kind, "", None, "bad", "lakelog doctor") for kind in kinds)
        monkeypatch.setattr(overview, "examine", lambda catalog: replace(examine(catalog), problems=problems))
        return console.get("/").text

    assert "LAKELOG_TARGET" not in show()
    assert "<code>export LAKELOG_TARGET=localhost:7450</code>" in show("job")
    assert "loses its position" not in show("job")
    assert "loses its position" in show("job", "consumer")


def test_each_partition_leads_to_its_files(console: Console, days: Table) -> None:
    text = console.get("/tables/shop/days/files").text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"]*files\?where=[^"]*)"', text)]
    links = [link for link in links if "as=" not in link]
    assert len(links) == 4
    found = [console.json(link)["files"] for link in links]
    assert [len(each) for each in found] == [1, 1, 1, 1]
    assert {each[0]["partition"] for each in found} == {"day=1", "day=it's", "day=a\\b", "day=NULL"}


def test_many_files_are_listed_when_asked(console: Console, days: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_pages, "MOST_BY_ITSELF", 0)
    shown = console.json("/tables/shop/days/files")
    assert not shown.keys() & {"files", "partitions"}
    assert len(console.json("/tables/shop/days/files?partitions=yes")["partitions"]) == 4
    assert len(console.json("/tables/shop/days/files?all=yes")["files"]) == 4


def test_a_file_has_a_page_of_its_own(world: World, console: Console) -> None:
    table = world.catalog.create_table("shop.one_file", _DAYS)
    table.append([{"day": "d", "n": 7, "text": None}])
    text = console.get("/tables/shop/one_file/files").text
    (link,) = {each.replace("&amp;", "&") for each in re.findall(r'href="([^"]*files/one[^"]*)"', text)}
    shown = console.json(link)
    assert shown["facts"]["rows"] == 1
    assert {each["column"]: (each["min"], each["nulls"]) for each in shown["statistics"]} == {
        "day": ("d", 0),
        "n": ("7", 0),
        "text": (None, 1),
    }
    table.overwrite([{"day": "d", "n": 8, "text": None}])
    answer = console.get(link)
    assert answer.status == 404
    assert "may have replaced it" in _find_problems(answer.text)[0]
    assert console.get("/tables/shop/one_file/files/one").status == 400


def test_the_log_shows_positions_and_records(
    world: World, console: Console, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = console.json("/tables/shop/orders/log")
    assert (shown["facts"]["published_snapshot"], shown["facts"]["pending_snapshots"]) == (5, 0)
    assert "records" not in shown
    closed: list[MemoryReader] = []
    close = MemoryReader.close

    def note_and_close(reader: MemoryReader) -> None:
        closed.append(reader)
        close(reader)

    monkeypatch.setattr(MemoryReader, "close", note_and_close)
    records = console.json("/tables/shop/orders/log?records=yes")["records"]
    assert len(closed) == 1, "each request has connections to the brokers"
    assert len(records) == 10
    assert records[0]["snapshot_id"] == 5
    assert '"v": 4' in records[0]["value"].replace('"v":4', '"v": 4')


def test_a_log_that_cannot_be_reached_says_why(
    world: World, console: Console, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "refuses", Unavailable("No broker answers at kafka:9092."))
    answer = console.get("/tables/shop/orders/log?records=yes")
    assert answer.status == 200
    assert _find_problems(answer.text) == ["The records cannot be read: No broker answers at kafka:9092."]


def test_a_table_without_a_log_says_so(console: Console, days: Table) -> None:
    assert "has no external log" in console.get("/tables/shop/days/log").text


def test_streams_name_who_holds_back_expiry(world: World, console: Console) -> None:
    table = world.catalog.create_table(
        "shop.held", _DAYS, options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    )
    table.append([{"day": "d", "n": 0, "text": None}])
    with table.subscribe("from-snapshot-full", "slow", options={"scan.snapshot-id": "1"}) as subscription:
        next(iter(subscription))
        subscription.commit()
    for number in range(12):
        table.append([{"day": "d", "n": number, "text": None}, {"day": "d", "n": number, "text": None}])
    world.commits.time_ms += 90_000
    try:
        shown = console.json("/tables/shop/held/streams")
    finally:
        world.commits.time_ms -= 90_000
    (consumer,) = shown["consumers"]
    assert (consumer["id"], consumer["snapshots_behind"], consumer["rows_behind"]) == ("slow", 12, 24)
    assert (consumer["behind_ms"] > 0, consumer["state"]) == (True, "silent")
    (overdue,) = shown["overdue"]
    assert (overdue["holder"], overdue["kind"], overdue["snapshot_id"]) == ("slow", "consumer", 1)
    assert overdue["count"] > 0
    assert overdue["since"] > 0


def test_amplification_compares_compactions_with_commits() -> None:
    found = measure_amplification(
        [
            {"kind": "APPEND", "added_rows": 100, "added_files": 1, "rows": 100, "bytes": 1000},
            {"kind": "APPEND", "added_rows": 100, "added_files": 1, "rows": 200, "bytes": 2000},
            {"kind": "COMPACT", "added_rows": 200, "added_files": 1, "rows": 200, "bytes": 2000},
        ]
    )
    assert (found["commits_bytes"], found["compactions_bytes"], found["factor"]) == (2000, 2000, 2.0)
    assert measure_amplification([])["factor"] is None


def test_a_table_that_was_made_again_is_another_one(world: World, console: Console) -> None:
    first = world.catalog.create_table("shop.again", _DAYS)
    text = console.get("/tables/shop/again").text
    live = re.search(r'data-address="([^"]*)"', text)
    assert live is not None
    assert live[1] == f"/tables/shop/again?of={first.uuid}"
    assert "was dropped" not in console.get(live[1]).text
    world.catalog.drop_table("shop.again")
    assert console.get(live[1]).status == 404
    world.catalog.create_table("shop.again", _DAYS)
    for tab in ("", "/history", "/snapshots", "/files", "/log", "/streams", "/jobs"):
        answer = console.get(f"/tables/shop/again{tab}?of={first.uuid}")
        assert answer.status == 200
        assert f"(uuid {first.uuid}) was dropped, and another table has its name now" in answer.text


def test_tables_show_which_got_commits_lately(
    world: World, console: Console, days: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.catalog.create_database("lately")
    busy = world.catalog.create_table("lately.busy", rows((0, 0)).schema, primary_key=["k"])
    world.catalog.create_table("lately.empty", _DAYS)
    busy.upsert(rows((0, 0)))
    monkeypatch.setattr(world.commits, "time_ms", SystemClock().now_ms())
    for number in range(4):
        busy.upsert(rows((number, number), (number + 1, number)))

    def read() -> list[tuple[int | None, int | None]]:
        return [(each["recent_commits"], each["recent_rows"]) for each in console.json("/tables/lately")["tables"]]

    assert read() == [(4, 8), (0, 0)], "not the one of half a century ago"
    monkeypatch.setattr(name_pages, "_MOST_RECENT", 5)
    assert read() == [(4, 8), (0, 0)]
    monkeypatch.setattr(name_pages, "_MOST_RECENT", 4)
    assert read() == [(None, None), (0, 0)], "more than are counted"
    assert "Partitioned by" not in console.get("/tables/lately").text, "a column that no table has a value for"
    assert "Partitioned by" in console.get("/tables/shop").text
    world.catalog.drop_database("lately", cascade=True)


def test_tables_come_page_by_page_and_are_found(
    world: World, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.catalog.create_database("many")
    for number in range(7):
        world.catalog.create_table(f"many.T{number}", _DAYS)
    monkeypatch.setattr(name_pages, "_TABLES_A_PAGE", 3)
    monkeypatch.setattr(name_pages, "PAGE_ROWS", 3)
    names = [f"T{number}" for number in range(7)]
    assert [each["name"] for each in _read_pages(console, "/tables/many", "tables")] == names
    found = _read_pages(console, "/search?q=MANY.t", "tables")
    assert [each["name"] for each in found] == [f"many.{name}" for name in names]
    assert {each["name"] for each in console.json("/tables")["databases"]} == {"many", "shop"}
    answer = console.get("/search?q=many.T3")
    assert (answer.status, answer.headers["location"]) == (303, "/tables/many/T3")
    assert "No table that you may see" in console.get("/search?q=%00%E2%80%AEx").text
    assert console.get("/tables/nowhere").status == 404
    assert console.get("/tables/shop/nowhere").status == 404
    assert console.get("/tables/many?after=zzz").status == 200
