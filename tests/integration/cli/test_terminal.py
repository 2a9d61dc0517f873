"""Colours, pagers and progress, on a real terminal and in pipes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from rich.live import Live

from lakelog.progress import tracking
from lakelog.reads.scan import Scan
from tests.integration.cli.lake import Lake, open_lake
from tests.integration.cli.terminal import Shown, run_on_terminal

HEADING = ("PAGED", "with", "LESS=FRX")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


def run(lake: Lake, words: str, environment: Mapping[str, str] | None = None, **how: object) -> Shown:
    return run_on_terminal(["-t", lake.target, *words.split()], environment or {}, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environment", "on_terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": ""}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
    ],
)
def test_colours_follow_the_environment(
    lake: Lake, environment: dict[str, str], on_terminal: bool, coloured: bool
) -> None:
    shown = run(lake, "database list", environment, out_is_terminal=on_terminal)
    assert shown.code == 0
    text = shown.terminal if on_terminal else shown.out
    assert "shop" in text
    assert ("\x1b[" in text) is coloured


@pytest.mark.parametrize("output", ["json", "jsonl", "csv", "yaml"])
def test_programs_get_no_colours_even_if_they_are_forced(lake: Lake, output: str) -> None:
    shown = run(lake, f"database list -o {output}", {"FORCE_COLOR": "1"}, out_is_terminal=False)
    assert "\x1b" not in shown.out


@pytest.mark.parametrize("output", ["table", "json", "csv", "yaml"])
def test_a_hostile_text_does_not_reach_a_terminal(lake: Lake, output: str) -> None:
    shown = run(lake, f"scan shop.orders --columns item -o {output}", {"NO_COLOR": "1"})
    assert "item 1" in shown.terminal
    assert "\x1b[31m" not in shown.terminal
    assert "\u202e" not in shown.terminal


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that says that it was one."""
    script = tmp_path / "pager"
    script.write_text("#!/bin/sh\necho PAGED with LESS=$LESS\ncat\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("words", ["scan shop.orders --columns id --limit 0", "snapshots shop.orders", "table list"])
def test_output_that_is_longer_than_the_terminal_goes_through_the_pager(lake: Lake, pager: str, words: str) -> None:
    paged = run(lake, words, {"LAKELOG_PAGER": pager, "PAGER": "false", "NO_COLOR": "1"}, lines=5)
    assert "PAGED with LESS=FRX" in paged.terminal
    assert "PAGED" in run(lake, words, {"PAGER": f"{pager} --with arguments", "LESS": "X"}, lines=5).terminal
    for environment, more, lines in (
        ({"PAGER": pager}, "", 100),
        ({"PAGER": pager}, " --no-pager", 5),
        ({"PAGER": pager, "TERM": "dumb"}, "", 5),
        ({"PAGER": pager, "LAKELOG_PAGER": ""}, "", 5),
        ({"LAKELOG_PAGER": "cat", "PAGER": pager}, "", 5),
        ({"PAGER": "/no/such/pager"}, "", 5),
        ({"PAGER": "'"}, "", 5),
    ):
        direct = run(lake, words + more, {"NO_COLOR": "1", **environment}, lines=lines)
        assert direct.code == 0, direct
        assert "PAGED" not in direct.terminal
        assert direct.terminal.split() == [each for each in paged.terminal.split() if each not in HEADING]
    assert "PAGED" not in run(lake, words, {"PAGER": pager}, lines=5, out_is_terminal=False).out


def test_a_pager_that_is_left_early_ends_the_command_in_good_order(lake: Lake, tmp_path: Path) -> None:
    script = tmp_path / "pager"
    script.write_text("#!/bin/sh\nhead -n 1\n")
    script.chmod(0o755)
    with mock.patch("lakelog.cli.output.row_table.SAMPLE_ROWS", 1):
        left = run(lake, "scan shop.orders --limit 0", {"PAGER": str(script)}, lines=5)
    assert (left.code, "Traceback" in left.terminal, "Error" in left.terminal) == (0, False, False)


def test_notes_come_after_the_pager(lake: Lake, pager: str) -> None:
    shown = run(lake, "scan shop.orders --columns id", {"PAGER": pager}, lines=5).terminal
    assert shown.index("PAGED") < shown.index("there are more")
    assert "there are more" not in run(lake, "scan shop.orders --columns id --quiet", {"PAGER": pager}).terminal


@pytest.fixture
def is_shown(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Lets tables take a moment to read, or until progress is shown, which is set then."""
    event = threading.Event()
    read, start = Scan.to_batches, Live.start

    def read_slowly(scan: Scan) -> Iterator[pa.RecordBatch]:
        event.wait(0.3)
        yield from read(scan)

    def start_and_set(live: Live, refresh: bool = False) -> None:
        start(live, refresh=True)
        event.set()

    monkeypatch.setattr(tracking, "DELAY_S", 0)
    monkeypatch.setattr(Scan, "to_batches", read_slowly)
    monkeypatch.setattr(Live, "start", start_and_set)
    return event


def test_progress_is_shown_to_a_person_while_rows_go_to_a_file(lake: Lake, is_shown: threading.Event) -> None:
    shown = run(lake, "scan shop.visits -o csv", out_is_terminal=False)
    assert shown.out.startswith("day,path\n")
    assert is_shown.is_set()
    assert "reading shop.visits" in shown.terminal
    assert "of 2 rows" in shown.terminal


@pytest.mark.parametrize(
    ("more", "environment", "out_is_terminal", "err_is_terminal"),
    [
        (" --quiet", {}, False, True),
        ("", {"CI": "true"}, False, True),
        ("", {"TERM": "dumb"}, False, True),
        # The rows themselves are on the terminal.
        ("", {}, True, True),
        ("", {"FORCE_COLOR": "1"}, False, False),
    ],
)
def test_progress_stays_away(
    lake: Lake,
    is_shown: threading.Event,
    more: str,
    environment: dict[str, str],
    out_is_terminal: bool,
    err_is_terminal: bool,
) -> None:
    shown = run(
        lake,
        f"scan shop.visits -o csv{more}",
        environment,
        out_is_terminal=out_is_terminal,
        err_is_terminal=err_is_terminal,
    )
    assert shown.code == 0
    assert not is_shown.is_set()
    assert "\x1b[" not in shown.terminal
