"""Shows a work below the cell of a notebook, where IPython runs one; it needs no other package."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from lakelog.progress.work import Display, Work, describe_work

_PAUSE_S: Final = 0.5


def find_notebook() -> Display | None:
    """A display of the notebook that this program is; None: it is none, or another thread than that of its cells."""
    module = sys.modules.get("IPython")
    if module is None or threading.current_thread() is not threading.main_thread():
        return None
    shell = module.get_ipython()
    # IPython in a terminal is another class; kernels of notebooks have this one.
    return _begin if type(shell).__name__ == "ZMQInteractiveShell" else None


def _begin(work: Work) -> Callable[[], None]:
    handle: Any = sys.modules["IPython"].display.display({"text/plain": _line(work)}, raw=True, display_id=True)
    is_over = threading.Event()

    def renew() -> None:
        while not is_over.wait(_PAUSE_S):
            handle.update({"text/plain": _line(work)}, raw=True)

    thread = threading.Thread(target=renew, name="lakelog progress", daemon=True)
    thread.start()

    def end() -> None:
        is_over.set()
        thread.join()
        handle.update({"text/plain": ""}, raw=True)

    return end


def _line(work: Work) -> str:
    return describe_work(work, time.monotonic() - work.began_s)
