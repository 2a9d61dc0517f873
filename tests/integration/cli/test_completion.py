"""What can follow a line, with the names of a real metastore."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.shell_completion import get_completion_class

import lakelog
from lakelog.cli.app import app
from lakelog.cli.completion import live_names, name_cache, shells
from lakelog.cli.completion.name_cache import NameCache, cache_folder
from lakelog.cli.invocation import Invocation
from tests.integration.cli.lake import Lake, open_lake

TABLES = ("baskets", "items", "odd", "orders", "visits")
BREAKS = " \t\n\"'@><=;|&(:"
ODD = '$(touch pwned) it\'s; "x" `y` \\'


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(tmp_path_factory.mktemp("lake")) as lake:
        with lakelog.connect(lake.target) as catalog:
            catalog.create_table("shop.odd", pa.schema([(ODD, pa.int64())]))
        yield lake


@pytest.fixture
def complete(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], list[str]]:
    monkeypatch.setenv("LAKELOG_TARGET", lake.target)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Imports of a first call take their time on a busy machine, and the limit is not what is tested here.
    monkeypatch.setattr(live_names, "WITHIN_S", 30)
    return lambda line: answers(line, monkeypatch)


def answers(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash gets for a line, each with its type in front."""
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_WORDBREAKS", BREAKS)
    made = get_completion_class("bash")
    assert made is not None
    return made(app, {"obj": Invocation()}, "lakelog", shells.VARIABLE).complete().split("\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("lakelog sna", ["plain,snapshots"]),
        ("lakelog table opt", ["plain,options"]),
        ("lakelog scan --filt", ["plain,--filter"]),
        ("lakelog scan shop.or", ["plain,shop.orders"]),
        ("lakelog scan 'shop.or", ["plain,shop.orders"]),
        ("lakelog table describe shop.v", ["plain,shop.visits"]),
        ("lakelog tail shop.orders shop.v", ["plain,shop.visits"]),
        ("lakelog grants sho", ["plain,shop", *(f"plain,shop.{name}" for name in TABLES)]),
        ("lakelog table list s", ["plain,shop"]),
        ("lakelog database drop s", ["plain,shop"]),
        ("lakelog sql -d s", ["plain,shop"]),
        ("lakelog scan shop.orders --columns i", ["plain,id", "plain,item"]),
        ("lakelog scan shop.orders --columns id,i", ["plain,id,item"]),
        ("lakelog scan shop.orders --columns=id,it", ["plain,id,item"]),
        ('lakelog scan shop.orders --filter "quantity < 5 AND cust', ["plain,quantity < 5 AND customer"]),
        ("lakelog delete shop.orders --where pri", ["plain,price"]),
        ("lakelog scan shop.orders --filter \"item = 'pri", [""]),
        ("lakelog scan shop.odd -c ", ["plain,\\$\\(touch\\ pwned\\)\\ it\\'s\\;\\ \\\"x\\\"\\ \\`y\\`\\ \\\\"]),
        ("lakelog scan shop.odd -c '$", ["plain,$(touch pwned) it'\\''s; \"x\" `y` \\"]),
        ("lakelog consumers delete shop.orders e", ["plain,etl"]),
        ("lakelog tail shop.orders --consumer e", ["plain,etl"]),
        ("lakelog tags delete shop.orders r", ["plain,release-1"]),
        ("lakelog tags create shop.orders r", [""]),
        ("lakelog scan shop.orders --tag r", ["plain,release-1"]),
        ("lakelog scan shop.orders --snapshot 7", ["plain,7"]),
        ("lakelog table rollback shop.orders --to r", ["plain,release-1"]),
        ("lakelog table rollback shop.orders --to 8", ["plain,8"]),
        ("lakelog table compact shop.visits --partition ", ["open,day="]),
        ("lakelog table create shop.new -O merge-eng", ["open,merge-engine="]),
        ("lakelog table create shop.new -O merge-engine=f", ["plain,first-row"]),
        ("lakelog table options set shop.orders write-onl", ["open,write-only="]),
        ("lakelog table options set shop.orders write-only=t", ["plain,true"]),
        ("lakelog table options unset shop.orders b", ["plain,bucket"]),
        ("lakelog table create sh", [""]),
        ("lakelog insert shop.orders or", ["file,"]),
        ("lakelog reader s", ["plain,serve"]),
        ("lakelog status -o c", ["plain,csv"]),
        ("lakelog -o y", ["plain,yaml"]),
        ("lakelog sql -e 'SELECT * FROM shop.or", ["plain,SELECT * FROM shop.orders"]),
        ("lakelog sql -e 'SELECT * FROM shop.orders$sn", ["plain,SELECT * FROM shop.orders$snapshots"]),
        ("lakelog sql -e 'SELECT * FROM sys.dat", ["plain,SELECT * FROM sys.databases"]),
        ("lakelog sql -e \"ALTER TABLE shop.orders SET ('a'='b', 'merge-e", [
            "plain,ALTER TABLE shop.orders SET ('a'='b', 'merge-engine"
        ]),
        ("lakelog nonsense x", [""]),
        ("lakelog scan gone.t --columns a", [""]),
    ],
)  # fmt: skip
def test_names_and_values_follow_a_line(complete: Callable[[str], list[str]], line: str, expected: list[str]) -> None:
    assert complete(line) == expected


def test_of_many_databases_their_tables_come_once_one_is_typed(
    lake: Lake, complete: Callable[[str], list[str]]
) -> None:
    with lakelog.connect(lake.target) as catalog:
        for number in range(21):
            catalog.create_database(f"many{number:02}")
    try:
        assert complete("lakelog scan man")[:2] == ["open,many00.", "open,many01."]
    finally:
        with lakelog.connect(lake.target) as catalog:
            for number in range(21):
                catalog.drop_database(f"many{number:02}")


def test_catalogs_come_from_their_file(
    complete: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete("lakelog --catalog s") == [""]
    (tmp_path / "catalogs.toml").write_text('[sales]\ntarget = "a:1"\n[web]\ntarget = "b:1"\n')
    monkeypatch.setenv("LAKELOG_CATALOGS", str(tmp_path / "catalogs.toml"))
    assert complete("lakelog --catalog s") == ["plain,sales"]


def test_names_are_kept_for_a_moment_in_a_private_file_without_secrets(
    complete: Callable[[str], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete("lakelog --token secret-of-ann scan shop.or") == ["plain,shop.orders"]
    (file,) = cache_folder(os.environ).iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "secret-of-ann" not in file.read_text() + file.name
    content = json.loads(file.read_text())
    content["tables shop"][1] = ["kept"]
    file.write_text(json.dumps(content))
    assert complete("lakelog --token secret-of-ann scan shop.k") == ["plain,shop.kept"]
    # Another caller may see other names.
    assert complete("lakelog --token of-bob scan shop.k") == [""]
    monkeypatch.setattr(name_cache, "KEPT_S", 0.0)
    assert complete("lakelog --token secret-of-ann scan shop.k") == [""]


@pytest.mark.parametrize("content", ["", "[]", '{"tables shop": 1}', '{"tables shop": [0, [1]]}', "\x00", "{" * 10_000])
def test_a_broken_file_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    cache = NameCache(tmp_path, "a:1", "ann")
    cache.path.write_text(content)
    assert cache.get("tables shop") is None
    cache.put("tables shop", ["orders"])
    assert cache.get("tables shop") == ["orders"]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = NameCache(tmp_path / "file" / "folder", "a:1", "ann")
    cache.put("databases", ["shop"])
    assert cache.get("databases") is None


def test_without_a_metastore_there_are_no_names_and_no_second_wait(
    complete: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_names, "WITHIN_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        # It accepts connections, and never answers.
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        for line in (f"lakelog -t {target} scan shop.or", f"lakelog -t {target} scan shop.orders --tag a"):
            assert complete(line) == [""]
    assert complete(f"lakelog -t {target} scan --fil") == ["plain,--filter"]


def test_a_wrong_target_is_no_error(complete: Callable[[str], list[str]]) -> None:
    assert complete("lakelog -t nonsense::: scan shop.or") == [""]
    assert complete("lakelog --tls-ca /no/file scan shop.or") == [""]


def test_a_name_with_a_line_end_is_left_out(
    complete: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_names.LiveNames, "_fetch", lambda *_: ["a\nplain,b", "a\x1b[31m", "etl"])
    assert complete("lakelog consumers delete shop.orders ") == ["plain,etl"]
