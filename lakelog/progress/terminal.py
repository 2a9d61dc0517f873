"""Shows a work on a terminal: one line that is renewed, and gone at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lakelog.progress.work import Display, Work, describe_work

_RENEWED_A_SECOND: Final = 4


def show_on(console: Console) -> Display:
    """A display on the console of a terminal."""

    def begin(work: Work) -> Callable[[], None]:
        def render() -> Text:
            return Text(describe_work(work, time.monotonic() - work.began_s), no_wrap=True, overflow="ellipsis")

        live = Live(
            get_renderable=render,
            console=console,
            refresh_per_second=_RENEWED_A_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live.stop

    return begin
