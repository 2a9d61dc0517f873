"""What procedures are given: by name, by place, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import InvalidArgument
from lakelog.sql import parse_statement
from lakelog.sql.call_arguments import Kind, Parameter, read_arguments
from lakelog.sql.statements import Call

PARAMETERS = (
    Parameter("table", Kind.TEXT, required=True),
    Parameter("older_than", Kind.TIME),
    Parameter("retain_last", Kind.WHOLE),
    Parameter("dry_run", Kind.FLAG),
    Parameter("version", Kind.VERSION),
)


def read(arguments: str) -> dict[str, Any]:
    call = parse_statement(f"CALL sys.expire({arguments});")
    assert isinstance(call, Call)
    return read_arguments(call, PARAMETERS)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("'t'", {"table": "t"}),
        ("table => 't'", {"table": "t"}),
        ('TABLE=>"t", `dry_run` => true', {"table": "t", "dry_run": True}),
        ("'t', 5, dry_run => FALSE", {"table": "t", "older_than": 5, "dry_run": False}),
        ("'t', NULL, 3, NULL, 'v1'", {"table": "t", "retain_last": 3, "version": "v1"}),
        ("version => 7, table => 't'", {"table": "t", "version": 7}),
        ("'t', '1970-01-01 00:00:01'", {"table": "t", "older_than": 1000}),
        ("'t', '1970-01-01 02:00:00+02:00'", {"table": "t", "older_than": 0}),
        ("'t', TIMESTAMP '1970-01-02'", {"table": "t", "older_than": 86_400_000}),
        ("'t', -1", {"table": "t", "older_than": -1}),
    ],
)
def test_by_name_and_by_place(arguments: str, values: dict[str, Any]) -> None:
    assert read(arguments) == values


@pytest.mark.parametrize(
    ("arguments", "place", "said"),
    [
        (
            "",
            10,
            r"sys\.expire needs table\. It takes table, \[older_than\], \[retain_last\], \[dry_run\], \[version\]",
        ),
        ("NULL", 10, "needs table"),
        ("'t', retain_lst => 1", 22, r"takes no 'retain_lst'\. Did you mean retain_last\? It takes table"),
        ("'t', table => 'u'", 22, "'table' is given twice"),
        ("'t', 1, 1, true, 1, 1", 37, "takes 5 at most"),
        ("table => 5", 26, r"table is a text in quotes\. Give one"),
        ("t", 17, "t"),
        ("'t', retain_last => -1", 37, r"retain_last is a whole number, 0 or more\. Give one"),
        ("'t', retain_last => 1.5", 37, "whole number"),
        ("'t', dry_run => 'yes'", 33, "dry_run is true or false"),
        ("'t', older_than => 'soon'", 36, r"older_than is a time, as '2024-05-01 12:00:00'.*'soon' is no timestamp"),
        ("'t', version => true", 33, "version is a snapshot's number, or a tag in quotes"),
    ],
)
def test_what_does_not_fit_is_shown(arguments: str, place: int, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as error:
        read(arguments)
    assert error.value.metadata["position"] == str(place), error.value
