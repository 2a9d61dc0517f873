"""Every command in every format for programs: what comes back is parsed, and compared with JSON.

A command that is not named here runs by the examples of its help.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dev.cli_page import walk_commands
from lakelog.cli.app import app
from lakelog.cli.invocation import LakelogCommand
from lakelog.cli.services import SERVICES
from tests.integration.cli.lake import HOSTILE, Lake, Outcome, open_lake

NOT_RUN = {
    **{f"lakelog {name}": "a program of its own" for name in SERVICES},
    "lakelog up": "runs until Ctrl-C; tests/e2e/cli/test_up.py reads its events",
    "lakelog demo": "tells a story for people",
}
CALLS = {
    "lakelog status": [""],
    "lakelog support-bundle": ["-o support-{n}.tar.gz"],
    "lakelog database create": ["made{n}", "shop", "shop --if-not-exists"],
    "lakelog database list": [""],
    "lakelog database drop": ["gone --if-exists --yes", "gone --yes", "shop"],
    "lakelog table create": ["shop.made{n} --schema 'id INT'", "shop.x --schema nonsense"],
    "lakelog table list": ["", "shop", "shop --dropped", "gone"],
    "lakelog table describe": ["shop.orders", "shop.visits", "shop.gone"],
    "lakelog table show-create": ["shop.orders"],
    "lakelog table alter": ["shop.items --comment 'no, {n}'"],
    "lakelog table options set": ["shop.items write-buffer-size='{n}0 mb'"],
    "lakelog table options unset": ["shop.items write-buffer-size"],
    "lakelog table drop": ["shop.gone --if-exists --yes", "shop.orders"],
    "lakelog table rollback": ["shop.orders --to release-1 --dry-run"],
    "lakelog table check": ["shop.orders", "shop.visits"],
    "lakelog table expire": ["shop.orders --dry-run"],
    "lakelog table expire-partitions": ["shop.visits --dry-run"],
    "lakelog table compact": ["shop.orders --dry-run", "shop --dry-run", "shop.visits --full --no-wait"],
    "lakelog table restore": ["shop.gone"],
    "lakelog insert": ["shop.orders orders.csv", "shop.orders exports --job formats{n}", "shop.orders gone.csv"],
    "lakelog delete": ["shop.orders --where 'id = 903' --dry-run", "shop.orders --where 'id = -{n}' --yes"],
    "lakelog scan": [
        "shop.orders",
        "shop.orders --columns item",
        "shop.baskets",
        "shop.orders --columns quantity,item --limit 2",
        "shop.orders --filter 'id = -1'",
        "shop.orders --count",
        "shop.orders --filter nonsense",
    ],
    "lakelog changes": ["shop.orders --after 2 --until 6", "shop.visits"],
    "lakelog tail": ["shop.orders --after 2 --until 6", "shop.orders shop.items --mode latest-full"],
    "lakelog consumers list": ["shop.orders", "shop.items"],
    "lakelog consumers reset": ["shop.orders etl --to 3"],
    "lakelog consumers delete": ["shop.orders gone --yes"],
    "lakelog tags list": ["shop.orders", "shop.items"],
    "lakelog tags create": ["shop.orders made-{n} --snapshot 2"],
    "lakelog tags delete": ["shop.orders gone --yes"],
    "lakelog snapshots": ["shop.orders --until 8", "shop.items"],
    "lakelog files": ["shop.visits", "shop.items"],
    "lakelog pipelines forget": ["gone"],
    "lakelog pipelines list": [""],
    "lakelog jobs list": ["", "shop.orders"],
    "lakelog jobs history": ["", "shop.orders --failed", "--job 4711"],
    "lakelog jobs retry": ["4711"],
    "lakelog log status": ["", "shop.orders"],
    "lakelog log verify": ["shop.orders"],
    "lakelog log schema": ["shop.orders"],
    "lakelog log restart": ["shop.orders --yes"],
    "lakelog grant": ["reader shop.visits --to bob"],
    "lakelog revoke": ["gone --from bob"],
    "lakelog grants": ["shop.orders", "--to ann"],
    "lakelog writers release": ["nightly"],
    "lakelog sql": [
        "-e 'SELECT * FROM shop.orders ORDER BY id'",
        "-e 'SHOW TABLES IN shop'",
        "-e 'SHOW CREATE TABLE shop.orders'",
        "-e 'INSERT INTO shop.items VALUES ({n}, NULL)'",
        "-e 'SELECT nonsense'",
    ],
}
_WITH_AGES = ("path", "lag", "freshness", "timeline")
CHANGES = {"database create", "table create", "table alter", "table options set", "table compact", "insert", "delete"}
CHANGES |= {"tags create", "jobs list", "sql", "doctor", "support-bundle", *(f"plot {kind}" for kind in _WITH_AGES)}
"""They do something new at each run, so of the answers only the keys are compared."""
PASSING = ("_ms", "_at", "_until", "free_bytes", "age", "since")
"""The ends of keys whose values change from run to run."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


def leaves() -> Iterator[tuple[str, click.Command]]:
    for path, command in walk_commands("lakelog", app):
        if not isinstance(command, click.Group):
            yield path, command


def calls_of(path: str, command: click.Command) -> list[str]:
    if path in CALLS:
        return [f"{path.removeprefix('lakelog ')} {words}".strip() for words in CALLS[path]]
    lines = command.example if isinstance(command, LakelogCommand) else ()
    assert lines, f"{path}: give it an example in its help, or name it in CALLS of {__name__}"
    return [line.removeprefix("lakelog ") for line in lines]


def test_all_names_here_are_commands() -> None:
    assert {*CALLS, *NOT_RUN} <= {path for path, _ in leaves()}


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.replace(" ", "-")) for path, _ in leaves() if path not in NOT_RUN]
)
def test_every_format_says_the_same(lake: Lake, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake.folder)
    (command,) = (command for found, command in leaves() if found == path)
    only_keys = path.removeprefix("lakelog ") in CHANGES
    for words in calls_of(path, command):
        outcomes = {
            name: lake.run(*shlex.split(words.replace("{n}", str(number))), "--output", name)
            for number, name in enumerate(("json", "jsonl", "csv", "yaml"), 1)
        }
        codes = {name: outcome.code for name, outcome in outcomes.items()}
        assert len(set(codes.values())) == 1, (words, codes, outcomes["json"].err)
        expected = parse_json(outcomes["json"].out)
        for name, outcome in outcomes.items():
            compare(name, outcome.out, expected, (words, name, outcome.out), only_keys=only_keys)
            compare_errors(name, outcome, outcomes["json"], words)


def compare(name: str, text: str, expected: list[Any], about: Any, *, only_keys: bool) -> None:
    if name == "csv":
        found: list[Any] = list(csv.DictReader(io.StringIO(text, newline="")))
        keys = list(dict.fromkeys(key for record in expected for key in record))
        expected = [{key: record.get(key) for key in keys} for record in expected]
        if not only_keys:
            found = [
                {key: from_cell(cell, record[key]) for key, cell in row.items()}
                for row, record in zip(found, expected, strict=True)
            ]
    else:
        found = parse_yaml(text) if name == "yaml" else [json.loads(line) for line in text.split("\n") if line] \
            if name == "jsonl" else parse_json(text)  # fmt: skip
    if only_keys:
        assert [list(record) for record in found] == [list(record) for record in expected][: len(found)], about
        assert bool(found) == bool(expected), about
    else:
        assert without_passing(found) == without_passing(expected), about


def compare_errors(name: str, outcome: Outcome, in_json: Outcome, words: str) -> None:
    expected = [json.loads(line) for line in in_json.err.splitlines()]
    found = (
        list(yaml.safe_load_all(outcome.err)) if name == "yaml" else [json.loads(x) for x in outcome.err.splitlines()]
    )
    assert [list(each) for each in found] == [list(each) for each in expected], (words, outcome.err)
    # A check that failed, as of doctor, is no error of the command.
    if outcome.code and expected:
        assert found[-1]["exit_code"] == outcome.code, words
        assert found[-1]["reason"] == expected[-1]["reason"], words


def parse_json(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = [json.loads(line) for line in text.split("\n") if line]
    return value if isinstance(value, list) else [value]


def parse_yaml(text: str) -> list[Any]:
    value = yaml.safe_load(text)
    return value if isinstance(value, list) else [] if value is None else [value]


def from_cell(cell: str, expected: Any) -> Any:
    """A cell's value: texts are as they are, everything else is JSON, and nothing is NULL."""
    if isinstance(expected, str):
        return cell
    return None if cell == "" else json.loads(cell)


def without_passing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_passing(each) for key, each in value.items() if not key.endswith(PASSING)}
    return [without_passing(each) for each in value] if isinstance(value, list) else value


def test_a_hostile_text_comes_back_from_each_format(lake: Lake) -> None:
    words = ("scan", "shop.orders", "--filter", "id = 4", "--columns", "id,item", "--output")
    assert list(csv.DictReader(io.StringIO(lake.run(*words, "csv").out, newline=""))) == [{"id": "4", "item": HOSTILE}]
    assert yaml.safe_load(lake.run(*words, "yaml").out) == [{"id": 4, "item": HOSTILE}]
    assert json.loads(lake.run(*words, "jsonl").out) == {"id": 4, "item": HOSTILE}


def test_csv_distinguishes_null_from_an_empty_text_and_goes_back_into_a_table(lake: Lake, tmp_path: Path) -> None:
    words = ("scan", "shop.orders", "--columns", "id,item", "--filter", "id in (3, 5)", "--output", "csv")
    text = lake.run(*words).out
    assert sorted(text.splitlines()) == ["3,", '5,""', "id,item"]
    assert lake.run("table", "create", "shop.copies", "--schema", "id BIGINT, item STRING").code == 0
    (tmp_path / "rows.csv").write_text(text)
    assert lake.run("insert", "shop.copies", str(tmp_path / "rows.csv")).code == 0
    assert sorted(lake.run("scan", "shop.copies", "--output", "csv").out.splitlines()) == sorted(text.splitlines())


def test_no_rows_are_a_header_in_csv_and_an_empty_list_in_yaml(lake: Lake) -> None:
    words = ("scan", "shop.orders", "--columns", "id,item", "--filter", "id = -1", "--output")
    assert lake.run(*words, "csv").out == "id,item\n"
    assert lake.run(*words, "yaml").out == "[]\n"
    assert lake.run(*words, "jsonl").out == ""


def test_a_wrong_command_line_is_an_error_in_the_format_as_well(lake: Lake) -> None:
    wrong = lake.run("--output", "yaml", "scan")
    assert (wrong.code, yaml.safe_load(wrong.err)["reason"]) == (2, "USAGE")
    assert json.loads(lake.run("--output", "csv", "scan", "--nonsense").err)["exit_code"] == 2
    for words in (("nonsense", "-o", "json"), ("scan", "--nonsense", "--output=csv"), ("table", "x", "-ojsonl")):
        assert json.loads(lake.run(*words).err)["exit_code"] == 2


def test_a_query_without_rows_looks_like_a_scan_without_rows(lake: Lake) -> None:
    query = ("sql", "-e", "SELECT id, item FROM shop.orders WHERE id < 0", "--output")
    assert lake.run(*query, "csv").out == "id,item\n"
    assert lake.run(*query, "yaml").out == "[]\n"
    assert lake.run(*query, "json").out == ""
    both = ("sql", "-e", "SELECT 1 AS a WHERE false", "-e", "SELECT 2 AS b", "--output")
    assert yaml.safe_load(lake.run(*both, "yaml").out) == [{"b": 2}]


def test_columns_of_one_name_get_keys_of_their_own(lake: Lake) -> None:
    query = ("sql", "-e", "SELECT 1 AS a, 2 AS a, 3 AS a_1, INTERVAL 3 DAY AS i", "--output")
    record = {"a": 1, "a_2": 2, "a_1": 3, "i": "P0M3DT0S"}
    assert json.loads(lake.run(*query, "json").out) == record
    assert yaml.safe_load(lake.run(*query, "yaml").out) == [record]
    assert lake.run(*query, "csv").out.splitlines()[0] == "a,a_2,a_1,i"
