"""What long calls note, and what a terminal and a notebook show of it."""

from __future__ import annotations

import io
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from lakelog.progress import notebook, tracking
from lakelog.progress.terminal import show_on
from lakelog.progress.tracking import current_work, shown_by, track
from lakelog.progress.work import BYTES, Work, describe_work


class Watcher:
    """A display that remembers what it showed."""

    def __init__(self) -> None:
        self.began: list[Work] = []
        self.ended = 0
        self.is_shown = threading.Event()

    def __call__(self, shown: Work) -> Callable[[], None]:
        self.began.append(shown)
        self.is_shown.set()
        return self._end

    def _end(self) -> None:
        self.ended += 1


@pytest.mark.parametrize(
    ("done", "total", "unit", "line"),
    [
        (0, None, "", "w  5 s"),
        (0, None, "rows", "w  0 rows"),
        (50, None, "rows", "w  50 rows, 10/s"),
        (50, 200, "rows", "w  █████░░░░░░░░░░░░░░░  25 %  50 of 200 rows, 10/s, 15 s left"),
        (200, 200, "rows", f"w  {'█' * 20} 100 %  200 of 200 rows, 40/s, 0 s left"),
        (1, 1000, "buckets", f"w  {'░' * 20}   0 %  1 of 1,000 buckets, 0.20/s, 1 h 23 min left"),
        (5 * 1024, 10 * 1024, BYTES, "w  ██████████░░░░░░░░░░  50 %  5.0 KiB of 10.0 KiB, 1.0 KiB/s, 5 s left"),
        # A total that was wrong is none.
        (201, 200, "rows", "w  201 rows, 40/s"),
        (3, 0, "rows", "w  3 rows, 0.60/s"),
    ],
)
def test_a_line_says_share_amount_rate_and_time_left(done: int, total: int | None, unit: str, line: str) -> None:
    assert describe_work(Work("w", unit, total, done), 5.0) == line


def test_no_share_is_above_one_hundred_whatever_the_total() -> None:
    for done in range(0, 50, 7):
        for total in (None, 0, 1, 3, 21, 48, 49, 10**12):
            for elapsed_s in (0.0, 0.001, 1e9):
                line = describe_work(Work("w", "rows", total, done), elapsed_s)
                shares = [int(word) for word, sign in zip(line.split(), line.split()[1:], strict=False) if sign == "%"]
                assert all(share <= 100 for share in shares), line


def test_only_what_lasts_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher()
    monkeypatch.setattr(tracking, "DELAY_S", 60)
    with shown_by(watcher), track("short"):
        pass
    assert not watcher.began
    monkeypatch.setattr(tracking, "DELAY_S", 0)
    with shown_by(watcher), track("long", "rows", 3) as noted:
        assert watcher.is_shown.wait(20)
        noted.advance(2)
    assert [(each.title, each.done, each.total) for each in watcher.began] == [("long", 2, 3)]
    assert watcher.ended == 1


def test_what_ends_while_its_timer_runs_out_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[Callable[[], None]] = []

    class LateTimer:
        """Cannot be cancelled any more."""

        def __init__(self, _: float, begin: Callable[[], None]) -> None:
            began.append(begin)

        def start(self) -> None: ...

        def cancel(self) -> None: ...

    monkeypatch.setattr(threading, "Timer", LateTimer)
    watcher = Watcher()
    with shown_by(watcher), track("over"):
        pass
    began[0]()
    assert not watcher.began, "no one would end it"


def test_inside_another_work_none_is_shown_and_the_end_comes_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher()
    monkeypatch.setattr(tracking, "DELAY_S", 0)

    def fail() -> None:
        with shown_by(watcher), track("outer"):
            assert watcher.is_shown.wait(20)
            with track("inner", "rows") as inner:
                assert current_work() is inner
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert [each.title for each in watcher.began] == ["outer"]
    assert (watcher.ended, current_work()) == (1, None)


def test_a_terminal_shows_a_line_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "DELAY_S", 0)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=60)
    is_shown = threading.Event()
    display = show_on(console)

    def begin(shown: Work) -> Callable[[], None]:
        end = display(shown)
        is_shown.set()
        return end

    with shown_by(begin), track("reading " + "x" * 100, "rows", 10):
        assert is_shown.wait(20)
    text = out.getvalue()
    assert "reading xxx" in text
    assert "…" in text
    # The last thing is that the line is erased, and the cursor is back.
    assert text.index("\x1b[2K") > text.index("reading")
    assert "\x1b[?25h" in text


class Handle:
    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        self.shown.append(data["text/plain"])


def as_notebook(monkeypatch: pytest.MonkeyPatch, shell: str, shown: list[str]) -> None:
    """Stands in for IPython with a shell of this class."""
    module = types.ModuleType("IPython")

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        shown.append(data["text/plain"])
        return Handle(shown)

    fields: dict[str, Any] = {"get_ipython": type(shell, (), {}), "display": types.SimpleNamespace(display=display)}
    vars(module).update(fields)
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_a_notebook_shows_a_line_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    as_notebook(monkeypatch, "ZMQInteractiveShell", shown)
    monkeypatch.setattr(tracking, "DELAY_S", 0)
    monkeypatch.setattr(notebook, "_PAUSE_S", 0.01)
    with track("reading shop.orders", "rows") as noted:
        while not shown:
            threading.Event().wait(0.01)
        noted.advance(7)
        while "7 rows" not in shown[-1]:
            threading.Event().wait(0.01)
    assert shown[-1] == ""


def test_other_programs_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notebook.find_notebook() is None
    as_notebook(monkeypatch, "TerminalInteractiveShell", [])
    assert notebook.find_notebook() is None
    as_notebook(monkeypatch, "ZMQInteractiveShell", [])
    assert notebook.find_notebook() is not None
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(notebook.find_notebook()))
    thread.start()
    thread.join()
    assert found == [None]
