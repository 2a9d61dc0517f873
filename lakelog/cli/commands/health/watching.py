"""`lakelog status --watch`: looks at lakelog again and again, on a full screen, or in lines where there is none."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from lakelog.cli.commands.health.serving import check_serving
from lakelog.cli.commands.health.status_record import load_status
from lakelog.cli.commands.health.view import View, draw, find_rate, sum_up
from lakelog.cli.failures import ExitCode
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.terminal import is_dumb
from lakelog.cli.output.text import format_time
from lakelog.errors import LakelogError
from lakelog.health.health import Health, load_health

EVERY_S: Final = 2.0
_KEY_S: Final = 0.25
"""How soon a key counts, and a new size of the terminal."""

_LEAVING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)

_END_OF_INPUT: Final = "\x04"

_ENDS: Final = ("q", "Q", "\x1b", "\x03", _END_OF_INPUT)


class Watcher:
    """Looks at lakelog. What was known of a metastore that is away stays until it is back.

    Args:
        invocation: Leads to the metastore.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._known: Health | None = None
        self._seen_ms = 0

    def look(self) -> View:
        """One look; blocks for as long as a metastore that is away takes to be one. Raises for wrong usage only."""
        invocation, rate = self._invocation, None
        serving = check_serving(invocation.address, invocation.tls, invocation.sign_in)
        found = load_health(invocation.catalog) if serving.is_serving else None
        now_ms = time.time_ns() // 1_000_000
        if found is not None and found.overview is not None:
            rate = find_rate(None if self._known is None else self._known.overview, found.overview)
            self._known, self._seen_ms = found, now_ms
        elif found is not None:
            # It says that it serves, but refuses us.
            return View(invocation.address, serving, found, None, self._seen_ms, now_ms)
        return View(invocation.address, serving, self._known, rate, self._seen_ms, now_ms)


def watch_status(invocation: Invocation) -> ExitCode:
    """Shows status until q or Ctrl-C."""
    printer = invocation.printer
    with contextlib.suppress(KeyboardInterrupt):
        if printer.for_programs or is_dumb(os.environ) or not (printer.is_terminal and sys.stdin.isatty()):
            _watch_in_lines(invocation)
        else:
            _watch_on_screen(Watcher(invocation), Console(highlight=False, markup=False, emoji=False))
    return ExitCode.FINE


def _watch_in_lines(invocation: Invocation) -> None:
    watcher = Watcher(invocation)
    while True:
        began_s = time.monotonic()
        if invocation.printer.for_programs:
            invocation.printer.element(load_status(invocation).record)
        else:
            view = watcher.look()
            invocation.printer.raw(f"{format_time(view.now_ms)}  {sum_up(view)}\n")
        time.sleep(max(0.0, began_s + EVERY_S - time.monotonic()))


class _Screen:
    """The newest view, drawn anew for each size of the terminal."""

    def __init__(self) -> None:
        self.view: View | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.view is None:
            yield Text("Looking …")
            return
        for line in draw(self.view, console.size.height - 1):
            text = Text(no_wrap=True, overflow="ellipsis")
            for cell in line:
                text.append(cell.text, cell.style or None)
            yield text


def _watch_on_screen(watcher: Watcher, console: Console) -> None:
    screen, is_over = _Screen(), threading.Event()
    failed: list[LakelogError] = []

    def look_again() -> None:
        # A metastore that is away must not keep a key from ending it.
        while not is_over.is_set():
            try:
                screen.view = watcher.look()
            except LakelogError as error:
                failed.append(error)
                return
            is_over.wait(EVERY_S)

    threading.Thread(target=look_again, name="status", daemon=True).start()
    received: list[int] = []
    with _signals(received):
        while _show(screen, console, lambda: bool(failed or received)) and received == [signal.SIGTSTP]:
            received.clear()
            # The terminal is as it was before, and the shell takes over until it lets this go on.
            os.kill(os.getpid(), signal.SIGSTOP)
    is_over.set()
    if failed:
        raise failed[0]
    if received:
        sys.exit(128 + received[0])


def _show(screen: _Screen, console: Console, is_over: Callable[[], bool]) -> bool:
    """Shows the screen until it is over, or the user ends it, which returns False. The terminal is restored."""
    live = Live(screen, console=console, screen=True, auto_refresh=False)
    with _keys() as read_key, live:
        while not is_over():
            if read_key() in _ENDS:
                return False
            live.refresh()
    return True


@contextlib.contextmanager
def _signals(received: list[int]) -> Iterator[None]:
    """Collects the signals that would leave the terminal without a cursor and an echo; the screen ends with one."""
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in _LEAVING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """A function that waits a moment for a key, and returns it, or nothing."""
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)

    def read_key() -> str:
        ready, _, _ = select.select([handle], [], [], _KEY_S)
        if not ready:
            return ""
        # Arrows send several characters, the first of which is Escape. An input that has ended is as good as a key.
        return os.read(handle, 64).decode(errors="replace") or _END_OF_INPUT

    try:
        tty.setcbreak(handle)
        yield read_key
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
