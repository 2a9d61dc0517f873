"""Where services find the metastore: a target or a catalog's name, and never one of them in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compactor.config import parse_config as parse_compactor
from lakelog.errors import InvalidArgument
from reader.config import parse_config as parse_reader
from writer.config import parse_config as parse_writer

Parse = Callable[[Sequence[str], Mapping[str, str]], Any]

SERVICES = [
    (parse_compactor, ["run"]),
    (parse_writer, ["publish"]),
    (parse_writer, ["run", "visits.yaml"]),
    (parse_reader, ["run", "visits.yaml"]),
    (parse_reader, ["serve", "--insecure-dev"]),
]


@pytest.mark.parametrize(("parse", "arguments"), SERVICES)
def test_a_target_and_a_catalog_are_refused_together(
    parse: Parse, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"LAKELOG_TARGET": "sales:7450", "LAKELOG_CATALOG": "web"}
    with pytest.raises(InvalidArgument, match="LAKELOG_TARGET=sales:7450 and LAKELOG_CATALOG=web are both set: unset"):
        parse(arguments, both)
    # Controls: the command line decides, and each variable alone does.
    assert parse([*arguments, "--target", "here:7450"], both)
    assert parse(arguments, {"LAKELOG_TARGET": "sales:7450", "LAKELOG_CATALOG": ""})
    with pytest.raises(SystemExit):
        parse([arguments[0], "--help"], {})
    assert "LAKELOG_CATALOG" in capsys.readouterr().out


def test_a_service_takes_a_catalog_in_place_of_a_target(tmp_path: Path) -> None:
    (tmp_path / "catalogs.toml").write_text("[web]\ntarget = 'web:7450'\n")
    environment = {"LAKELOG_CATALOGS": str(tmp_path / "catalogs.toml"), "LAKELOG_CATALOG": "web"}
    assert parse_compactor(["run"], environment).connect.target == "web:7450"
