"""Wall clocks of single processes that step forward or back while the processes run.

Linux has one wall clock for all processes, so a small library, which is built here, stands between a process and the C
library. It is loaded by the variables of `SteppedClock.environment`.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Final

import pytest

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

_SOURCE: Final = Path(__file__).with_name("clock_steps.c")


class SteppedClock:
    """The wall clock of the processes that have its environment."""

    def __init__(self) -> None:
        # Below a folder that every user can enter, as Postgres does not run as root; TMPDIR can be private.
        folder = Path(tempfile.mkdtemp(prefix="ll-clock-", dir="/tmp"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._library = folder / "clock_steps.so"
        self._step = folder / "step"
        self._build()
        self._step.write_bytes(struct.pack("q", 0))
        for path in (folder, self._library, self._step):
            path.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """For processes whose clock this is."""
        return {"LD_PRELOAD": str(self._library), "STEPPED_CLOCK": str(self._step)}

    def step(self, seconds: int) -> None:
        """Steps the clock to so many seconds after the true time, or before it; at once, in all its processes."""
        with self._step.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def _build(self) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            if os.environ.get("CI"):
                pytest.fail("no C compiler (cc): clocks cannot be stepped")
            pytest.skip("a C compiler (cc) is needed to step the clock of a process")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE), "-ldl", "-pthread"]
        subprocess.run(command, check=True)
