"""A child process with a log file: started until it is ready, stopped until nothing is left, or crashed on purpose."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from lakelog.clock import Clock, SystemClock
from lakelog.embedded.spawn import RunAs, spawn_child
from lakelog.errors import Unavailable

_POLL_S = 0.02
"""The pause between polls of a state: far shorter than the start of any of our processes."""

_LOG_TAIL_BYTES = 64 * 1024
_WORDS = 20
"""The lines of a log that a message shows."""


class Child(Protocol):
    """A started program, as `subprocess.Popen` describes it."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def poll(self) -> int | None:
        """Its exit code; None: it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Blocks until it has ended, and returns its exit code; raises TimeoutExpired."""

    def send_signal(self, sig: int, /) -> None:
        """Does nothing if it has ended."""


class ManagedProcess:
    """One program on this machine that dies at the latest when this process does.

    It leads its own process group. Kill, pause and resume apply to the whole group, so that a service's JVM shares its
    fate. A stop signals only the program, which ends its own children in the order that it needs. Not thread-safe, but
    `kill`, `pause` and `resume` may be called while another thread waits in `start`.

    Args:
        name: Its name in messages.
        command: The program and its arguments.
        log: The file for its output, which is appended; its folder is made.
        is_ready: Called while the process runs, until it returns True; None: a running process is ready. It must answer
            within about a second, and return False, not raise, while the service is not there yet.
        ready_within_s: The limit for that.
        stop_within_s: The limit for a stop; then it becomes a kill.
        stop_signal: The signal that makes the program end.
        death_signal: The signal from the kernel when this process dies.
        environment: All of its environment variables; None: ours.
        working_directory: The folder it starts in; None: ours.
        run_as: The user it runs as; None: ours.
        final_codes: Exit codes after which another start cannot help, each with the reason, for messages.
        waiting_codes: Exit codes after which someone must do something first, each with what, for messages.
        clock: Gives the time; for tests.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        is_ready: Callable[[], bool] | None = None,
        ready_within_s: float = 60.0,
        stop_within_s: float = 20.0,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
        environment: Mapping[str, str] | None = None,
        working_directory: Path | None = None,
        run_as: RunAs | None = None,
        final_codes: Mapping[int, str] | None = None,
        waiting_codes: Mapping[int, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._is_ready = is_ready
        self._ready_within_s = ready_within_s
        self._stop_within_s = stop_within_s
        self._stop_signal = stop_signal
        self._death_signal = death_signal
        self._environment = environment
        self._working_directory = working_directory
        self._run_as = run_as
        self._final_codes = dict(final_codes or {})
        self._waiting_codes = dict(waiting_codes or {})
        self._clock = clock or SystemClock()
        self._child: Child | None = None
        self._log_start = 0

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running else f"exit code {self.exit_code}"
        return f"ManagedProcess({self.name!r}, {state})"

    @property
    def pid(self) -> int | None:
        """Its process id, also after its end; None before the first start."""
        return self._child.pid if self._child else None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended; a paused one runs."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs or before the first start."""
        return self._child.poll() if self._child else None

    @property
    def final_words(self) -> str | None:
        """Why another start cannot help, by its exit code; None: it may help, or the process runs."""
        code = self.exit_code
        return None if code is None else self._final_codes.get(code)

    @property
    def waiting_words(self) -> str | None:
        """What someone must do before another start helps, by its exit code; None: nothing is known, or it runs."""
        code = self.exit_code
        return None if code is None else self._waiting_codes.get(code)

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it."""
        code = self.exit_code
        return code is not None and code < 0

    @property
    def exit_reason(self) -> str:
        """How it ended, for messages, as `was killed by signal 9 (SIGKILL)`."""
        code = self.exit_code
        if code is None:
            return "has not ended"
        return describe_signal(-code) if code < 0 else f"ended with exit code {code}"

    def start(self) -> None:
        """Starts it and blocks until it is ready; does nothing if it runs.

        Raises:
            Unavailable: It ended or was not ready in time (then it is killed); the message has the exit code and the
                last lines of its log.
        """
        if self.is_running:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._child = self._spawn(log)
        deadline_s = self._clock.monotonic_s() + self._ready_within_s
        while self._is_ready is not None:
            if not self.is_running:
                raise self.failure(f"{self.exit_reason} before it was ready")
            if self._is_ready():
                return
            if self._clock.monotonic_s() > deadline_s:
                self.kill()
                raise self.failure(f"was not ready within {self._ready_within_s:g} s and was killed")
            self._clock.sleep(_POLL_S)

    def stop(self) -> None:
        """Signals it to end, kills it after the grace period, and blocks until nothing of it runs; idempotent."""
        if self._child is not None and self._child.poll() is None:
            # Not the group: a service cannot finish its current work if its JVM must end as well.
            self._child.send_signal(self._stop_signal)
            # A paused process would get the signal only after it is resumed.
            self._signal(signal.SIGCONT)
            self._wait(self._stop_within_s)
        self.kill()

    def kill(self) -> None:
        """Kills it and its children at once by SIGKILL, as a crash would, and blocks until it is gone; idempotent."""
        if self._child is None:
            return
        # Also after the leader's end: children that it left are still in its group.
        self._signal(signal.SIGKILL)
        self._child.wait()

    def pause(self) -> None:
        """Freezes it by SIGSTOP: it keeps its connections and locks but does nothing, like a machine that hangs."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a paused process go on."""
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stops it, if it runs, and starts it again; raises as `start`."""
        self.stop()
        self.start()

    def wait(self, within_s: float) -> int:
        """Blocks until it ends by itself.

        Returns:
            Its exit code.

        Raises:
            Unavailable: It still ran after `within_s` seconds; it goes on running.
        """
        self._wait(within_s)
        code = self.exit_code
        if code is None:
            raise self.failure(f"did not end within {within_s:g} s")
        return code

    def last_log_lines(self, count: int = _WORDS) -> list[str]:
        """The last lines of its log, oldest first; fewer if the log has fewer."""
        return self._last_lines(count, 0)

    def failure(self, what: str) -> Unavailable:
        """An error about this process, with the last lines of its log."""
        # Lines of earlier starts would hide why this one failed.
        words = "\n".join(f"    {line}" for line in self._last_lines(_WORDS, self._log_start)) or "    (nothing)"
        return Unavailable(
            f"{self.name} {what}. Its last words in {self.log}:\n{words}",
            reason="PROCESS_FAILED",
            metadata={"process": self.name, "log": str(self.log), "exit_code": str(self.exit_code)},
        )

    def _spawn(self, log: IO[bytes]) -> Child:
        """Starts the program as the leader of a group of its own, with its output in an open file."""
        return spawn_child(
            self.command,
            log=log,
            environment=self._environment,
            working_directory=self._working_directory,
            death_signal=self._death_signal,
            run_as=self._run_as,
        )

    def _last_lines(self, count: int, start: int) -> list[str]:
        if not self.log.exists():
            return []
        with self.log.open("rb") as log:
            size = self.log.stat().st_size
            # If the log is shorter than it was, it was rotated since: all its lines are newer.
            log.seek(max(start if start <= size else 0, size - _LOG_TAIL_BYTES))
            return log.read().decode(errors="replace").splitlines()[-count:]

    def _wait(self, within_s: float) -> None:
        if self._child is not None:
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(within_s)

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            # The group is gone once its last member is.
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)


def describe_signal(number: int) -> str:
    """The effect of a signal on a process, for messages. Pure."""
    try:
        return f"was killed by signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"was killed by signal {number}"
