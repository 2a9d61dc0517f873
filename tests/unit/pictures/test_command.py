"""`lakelog plot` over a real table."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from lakelog.cli.failures import ExitCode
from lakelog.sdk.catalog import Catalog
from tests.support.command import Command

KINDS = ("files", "levels", "lag", "freshness", "timeline", "path", "amplification")
SCHEMA = pa.schema([pa.field("dt", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def command(
    catalog: Catalog, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKELOG_OUTPUT", raising=False)
    table = catalog.create_table(
        "shop.orders", SCHEMA, primary_key=["dt", "id"], partition_by=["dt"], options={"bucket": "2"}
    )
    for day in ("2024-05-01", "2024-05-02"):
        table.upsert(pa.table({"dt": [day] * 9, "id": range(9)}, schema=SCHEMA))
    return Command(catalog, capsys)


@pytest.mark.parametrize("kind", KINDS)
def test_each_picture_is_a_file_the_standard_output_or_data(command: Command, tmp_path: Path, kind: str) -> None:
    code, out, err = command("plot", kind, "shop.orders", "-o", "a picture.svg")
    assert (code, err) == (ExitCode.FINE, "")
    assert "Drawn into a picture.svg." in out
    drawn = ElementTree.parse(tmp_path / "a picture.svg").getroot()
    assert drawn.get("width") == "760"

    code, out, _ = command("plot", kind, "shop.orders", "-o", "-", "--width", "400")
    assert code == ExitCode.FINE
    assert ElementTree.fromstring(out).get("width") == "400"

    code, out, _ = command("plot", kind, "shop.orders", "--output", "json")
    assert code == ExitCode.FINE
    assert json.loads(out)["table"] == "shop.orders"


def test_without_a_name_it_is_named_like_table_and_picture(command: Command, tmp_path: Path) -> None:
    assert command("plot", "path", "shop.orders")[0] == ExitCode.FINE
    assert (tmp_path / "shop.orders-path.svg").exists()


def test_levels_of_a_partition_and_a_bucket(command: Command) -> None:
    chosen = ("--partition", "dt=2024-05-02", "--bucket", "1", "--output", "json")
    code, out, _ = command("plot", "levels", "shop.orders", *chosen)
    assert code == ExitCode.FINE
    found = json.loads(out)
    assert (found["partition"], found["bucket"], found["snapshot_id"]) == ("dt=2024-05-02", 1, 2)
    assert command("plot", "levels", "shop.orders", "--bucket", "7")[0] == ExitCode.NOT_FOUND


def test_a_file_with_its_record_for_programs(command: Command) -> None:
    code, out, _ = command("plot", "lag", "shop.orders", "-o", "lag.svg", "--output", "json")
    assert code == ExitCode.FINE
    assert json.loads(out)["file"] == "lag.svg"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-o", "json"), ExitCode.USAGE, "The format is --output"),
        (("-o", "-", "--output", "json"), ExitCode.USAGE, "both want the standard output"),
        (("--width", "20"), ExitCode.USAGE, "--width"),
        (("-o", "gone/x.svg"), ExitCode.FAILED, "gone/x.svg"),
    ],
)
def test_bad_use_is_refused(command: Command, arguments: tuple[str, ...], code: int, words: str) -> None:
    found, out, err = command("plot", "path", "shop.orders", *arguments)
    assert (found, out) == (code, "")
    assert words in err


def test_a_table_that_is_not_there(command: Command, tmp_path: Path) -> None:
    code, _, err = command("plot", "files", "shop.gone", "-o", "x.svg")
    assert code == ExitCode.NOT_FOUND
    assert "shop.gone" in err
    assert not (tmp_path / "x.svg").exists()
