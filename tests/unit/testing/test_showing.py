"""What examples print: tables, and claims that must hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from lakelog.testing import check, show


def test_a_table_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(pa.table({"id": [1, None], "item": ["tea", "a longer one"]}), "Rows")
    assert capsys.readouterr().out == "\nRows:\n    id  item\n     1  tea\n  NULL  a longer one\n"


def test_other_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"a": "x"}])
    show(pa.RecordBatch.from_pylist([{"a": "y"}]))
    show(pa.table({"a": pa.array([], pa.string())}))
    assert capsys.readouterr().out == "  a\n  x\n  a\n  y\n  a\n"


def test_maps_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    show(pa.table({"properties": pa.array([[("version", "1.9")], []], pa.map_(pa.string(), pa.string()))}))
    assert capsys.readouterr().out == "  properties\n  {'version': '1.9'}\n  {}\n"


def test_only_the_first_rows(capsys: pytest.CaptureFixture[str]) -> None:
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            read.append(number)
            yield pa.RecordBatch.from_pydict({"a": range(number * 10, number * 10 + 10)})

    show(pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["  19", "... and more rows"]
    assert len(read) <= 4
    show(pa.table({"a": range(20)}))
    assert capsys.readouterr().out.splitlines()[-1] == "  19"


def test_no_value_reaches_the_terminal_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"bad\nname": "\x1b[2Jgone\nnew line"}])
    assert capsys.readouterr().out == "  bad�name\n  �[2Jgone�new line\n"


def test_a_notebook_shows_html(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[Any] = []
    display: Any = ModuleType("IPython.display")
    display.HTML, display.display = str, shown.append
    for name, module in (("ipykernel", ModuleType("ipykernel")), ("IPython", ModuleType("IPython"))):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    show([{"item": "<script>"}], "Rows & more")
    assert len(shown) == 1
    assert "&lt;script&gt;" in shown[0]
    assert "Rows &amp; more" in shown[0]
    assert capsys.readouterr().out == ""


def test_claims(capsys: pytest.CaptureFixture[str]) -> None:
    check("one is one", 1, 1)
    check("it is so", found=True)
    assert capsys.readouterr().out == "  ✓ one is one\n  ✓ it is so\n"
    with pytest.raises(
        AssertionError, match=r"Check that there are two rows: it is not so\.\n  found:    1\n  expected: 2"
    ):
        check("there are two rows", 1, 2)
    # What is merely truthy is another claim.
    with pytest.raises(AssertionError):
        check("it is so", [1])
    assert capsys.readouterr().out == ""
