"""Names, comments, rows and properties that mean harm: pages show them as text, and never as anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
import pytest

from tests.support.console import Console
from tests.support.log.log_world import World

_SCRIPT = "<script>alert(1)</script>"
_QUOTES = "\"' onmouseover=alert(1) x='"
_BIDI = "\u202eevil\u2066\u200f"
_CONTROL = "\x00\x07\u2028\x1b[31m"
_ALL = (_SCRIPT, _QUOTES, _BIDI, _CONTROL, "{{ 7 * 7 }}", "</title></textarea>--><img src=x onerror=alert(1)>")
_TABS = ("", "/history", "/snapshots", "/snapshots/1", "/files", "/log", "/log?records=yes", "/streams", "/jobs")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("hostile"))
    fields = [pa.field("k", pa.string(), nullable=False), pa.field("_links", pa.struct([("k", pa.string())]))]
    fields += [pa.field(f"c{_SCRIPT}", pa.string(), metadata={"comment": _SCRIPT}), pa.field(_QUOTES, pa.string())]
    table = world.catalog.create_table(
        "shop.hostile",
        pa.schema(fields),
        primary_key=["k"],
        options={"log.system": "kafka"},
        comment=f"{_SCRIPT} {_QUOTES} {_BIDI}",
    )
    publisher = world.publish(table)
    rows = [{"k": each, "_links": {"k": "javascript:alert(1)"}, f"c{_SCRIPT}": each, _QUOTES: each} for each in _ALL]
    table.upsert(
        pa.Table.from_pylist(rows, schema=table.schema),
        writer=f"w{_SCRIPT}",
        identifier=1,
        properties={_SCRIPT: _QUOTES, "large": "x" * 60_000},
    )
    publisher.publish()
    table.subscribe(consumer_id="c" + _SCRIPT[1:7]).close()
    parts = world.catalog.create_table(
        "shop.hostile_parts", pa.schema([("p", pa.string()), ("n", pa.int64())]), partition_by=["p"]
    )
    parts.append([{"p": each, "n": 1} for each in _ALL])
    yield world
    world.close()


@pytest.fixture(scope="module")
def console(world: World) -> Console:
    return Console(lambda _: world.catalog)


@pytest.mark.parametrize("table", ["hostile", "hostile_parts"])
@pytest.mark.parametrize("tab", _TABS)
def test_pages_escape_what_users_wrote(console: Console, table: str, tab: str) -> None:
    answer = console.get(f"/tables/shop/{table}{tab}")
    assert answer.status == 200
    _check_escaped(answer.text)


@pytest.mark.parametrize(
    "address",
    [
        "/search?q={}",
        "/tables?after={}",
        "/tables/{}",
        "/tables/shop/{}",
        "/tables/shop/hostile?filter={}",
        "/tables/shop/hostile?of={}",
        "/tables/shop/hostile/history?from={}&to={}",
        "/tables/shop/hostile/snapshots?from={}&to={}",
        "/tables/shop/hostile/snapshots/{}",
        "/tables/shop/hostile/files?where={}&bucket={}&level={}",
        "/tables/shop/hostile_parts/files?partitions_after={}&after={}",
        "/tables/shop/hostile/files/one?path={}&where=",
        "/tables/shop/hostile/jobs?after={}",
    ],
)
@pytest.mark.parametrize("text", [*_ALL, "9" * 5000, "x" * 8000, "🦆é"])
def test_pages_escape_what_addresses_say(console: Console, address: str, text: str) -> None:
    answer = console.get(address.replace("{}", quote(text, safe="")))
    assert answer.status in (200, 303, 400, 404)
    _check_escaped(answer.text)
    assert len(answer.text) < 600_000


def test_a_column_cannot_pose_as_the_links_of_a_row(console: Console) -> None:
    shown = console.json("/tables/shop/hostile")["rows"]
    assert {each["_links_"]["k"] for each in shown} == {"javascript:alert(1)"}
    assert 'href="javascript' not in console.get("/tables/shop/hostile").text


def _check_escaped(text: str) -> None:
    assert "<script>alert" not in text
    assert "<img" not in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u200e\u200f\u2028-\u202e\u2066-\u2069]", text)
    assert not re.search(r"<[a-z][^>]*\sonmouseover=", re.sub(r'"[^"]*"', '""', text))
