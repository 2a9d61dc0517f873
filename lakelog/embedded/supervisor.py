"""Several components in order: started one after the other, restarted when they die, stopped in reverse order.

Each restart has its own thread, so that a component waits only for the start of those that it needs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from lakelog.clock import Clock, SystemClock
from lakelog.embedded.exits import Exits
from lakelog.errors import LakelogError

_log = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0
_STEADY_AFTER_S = 60.0
"""A component that ran for so long is healthy: after its next death the first delay applies again."""
LOOK_EVERY_S = 5.0
"""The longest pause between two steps: ends of components and of restarts wake the supervisor, all else can wait."""
_STARTS_END_WITHIN_S = 5.0
"""How long a stop waits for running starts, which take a second or two; started components can end in order."""
_ENDED_AGAIN_EVERY_S = 0.1


class Component(Protocol):
    """What a supervisor can run."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def pid(self) -> int | None:
        """The id of its process, whose end is its end; None before the first start."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        ...

    @property
    def final_words(self) -> str | None:
        """Why only a person can bring it back, after it ended by itself; None: another start may help."""
        ...

    @property
    def waiting_words(self) -> str | None:
        """What someone must do before another start helps, after it ended by itself; None: nothing is known."""
        ...

    @property
    def exit_reason(self) -> str:
        """How it ended, for instance `ended with exit code 1`."""
        ...

    def start(self) -> None:
        """Blocks until it is ready, or raises a `LakelogError`; does nothing if it runs."""
        ...

    def stop(self) -> None:
        """Blocks until nothing of it runs; idempotent."""
        ...

    def kill(self) -> None:
        """Kills what runs of it at once; also while another thread waits in `start`, which then raises."""
        ...


@dataclass
class _Watch:
    component: Component
    needs: frozenset[str] = frozenset()
    # A thread that starts the component holds this, so that there are never two starts at once.
    starting: threading.Lock = field(default_factory=threading.Lock)
    restart: threading.Thread | None = None
    is_restarted: bool = False
    started_s: float = 0.0
    deaths_in_a_row: int = 0
    restart_at_s: float | None = None
    is_given_up: bool = False
    waits_for: str | None = None


class Supervisor:
    """Keeps components alive.

    Only one thread at a time may call its methods, except `holding`.

    Args:
        components: The components in the order of their start; later ones may need earlier ones.
        needs: By a component's name, those that must run before it is restarted.
        clock: Gives the time; for tests.
    """

    def __init__(
        self,
        components: Sequence[Component],
        *,
        needs: Mapping[str, Collection[str]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        needs = needs or {}
        self._watches = [_Watch(one, frozenset(needs.get(one.name, ()))) for one in components]
        self._is_stopping = threading.Event()
        self._exits = Exits()

    def add(self, component: Component, needs: Collection[str] = ()) -> None:
        """Starts one more component, after the others; raises as its `start`."""
        watch = _Watch(component, frozenset(needs))
        self._start(watch)
        self._watches.append(watch)

    def start(self) -> None:
        """Starts all in order. If one fails, the running ones are stopped and its error is raised."""
        self._is_stopping.clear()
        with ExitStack() as undo:
            undo.callback(self.stop)
            for watch in self._watches:
                self._start(watch)
            undo.pop_all()

    def stop(self) -> None:
        """Stops all in reverse order, each even if another stop failed; raises the last failure.

        A running start gets some seconds to end; then the component is killed.
        """
        self._is_stopping.set()
        if not self.settle(_STARTS_END_WITHIN_S):
            for watch in reversed(self._watches):
                self._end_restart(watch)
        with ExitStack() as all_of_them:
            for watch in self._watches:
                all_of_them.callback(watch.component.stop)

    def step(self) -> None:
        """Checks each component once, and begins to restart dead ones that have waited long enough.

        A failed restart counts as one more death. The delay doubles with each death, up to a bound: a component that
        dies at once would otherwise fill the log and the processor. A component waits for those that it needs if they
        do not run or will soon be restarted. If another start cannot help, the supervisor leaves it alone until a
        person starts it. If someone must act first, it is tried like the others, but reported once.
        """
        for watch in self._watches:
            if _is_starting(watch):
                continue
            if watch.component.is_running:
                self._see_running(watch)
            elif not watch.is_given_up:
                self._see_ended(watch)

    def wait(self) -> None:
        """Blocks until there is something for `step` to do; not for longer than `LOOK_EVERY_S`."""
        now_s = self._clock.monotonic_s()
        pids, left_s = [], LOOK_EVERY_S
        for watch in self._watches:
            if _is_starting(watch) or watch.is_given_up:
                continue
            if watch.component.is_running:
                pids.append(watch.component.pid)
            elif watch.restart_at_s is None:
                # It has ended since the last step.
                return
            elif not self._lacks(watch):
                # One that lacks another waits for that one's restart, whose end ends this wait.
                left_s = min(left_s, watch.restart_at_s - now_s)
        self._exits.wait([pid for pid in pids if pid is not None], max(left_s, 0.0))

    def settle(self, within_s: float | None = None) -> bool:
        """Blocks until no restart runs, for at most so many seconds; None: without a limit.

        Returns:
            Whether no restart runs.
        """
        until_s = None if within_s is None else time.monotonic() + within_s
        for watch in self._watches:
            # A thread that was made but not started, for instance because of Ctrl-C, cannot be joined.
            if watch.restart is not None and _is_starting(watch):
                watch.restart.join(None if until_s is None else max(0.0, until_s - time.monotonic()))
        return not any(_is_starting(watch) for watch in self._watches)

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """Keeps others from starting a component while the context lasts; waits for a running start."""
        with ExitStack() as held:
            for watch in self._watches:
                if watch.component.name == name:
                    held.enter_context(watch.starting)
            yield

    def _see_running(self, watch: _Watch) -> None:
        watch.restart_at_s, watch.is_given_up = None, False
        if watch.waits_for is not None and self._clock.monotonic_s() - watch.started_s >= _STEADY_AFTER_S:
            watch.waits_for = None
            _log.warning("%s runs", watch.component.name)

    def _see_ended(self, watch: _Watch) -> None:
        name = watch.component.name
        now_s = self._clock.monotonic_s()
        if watch.restart_at_s is None:
            words = watch.component.final_words
            if words is not None:
                watch.is_given_up = True
                _log.warning("%s ended and is not started again: %s", name, words, extra={"ended": name})
                return
            delay_s = _delay_after_death_s(watch, now_s)
            watch.restart_at_s = now_s + delay_s
            self._report_ended(watch, delay_s)
        elif now_s >= watch.restart_at_s and not self._lacks(watch):
            watch.restart_at_s, watch.is_restarted = None, False
            watch.restart = threading.Thread(target=self._restart, args=(watch,), name=f"start-{name}", daemon=True)
            watch.restart.start()

    def _lacks(self, watch: _Watch) -> bool:
        """Whether a component that it needs does not run, or is just starting."""
        return any(
            other.component.name in watch.needs and (_is_starting(other) or not other.component.is_running)
            for other in self._watches
        )

    def _restart(self, watch: _Watch) -> None:
        name = watch.component.name
        try:
            if self._is_stopping.is_set():
                return
            self._start(watch)
        except Exception as error:
            if not self._is_stopping.is_set():
                # An error that is not ours explains nothing without its traceback.
                trace = None if isinstance(error, LakelogError) else error
                _log.error("%s could not be started again: %s", name, error, exc_info=trace)
        else:
            if watch.waits_for is None:
                # Not "runs again": it has only just started.
                _log.warning("%s was started again", name)
        finally:
            # Its thread lives for another moment, and the thread that is woken must not mistake that for a start.
            watch.is_restarted = True
            self._exits.wake()

    def _end_restart(self, watch: _Watch) -> None:
        # Repeatedly: the process of the start may not have existed yet.
        while _is_starting(watch) and watch.restart is not None:
            with suppress(LakelogError):
                # Its stop, which comes last, reports what cannot be ended.
                watch.component.kill()
            watch.restart.join(_ENDED_AGAIN_EVERY_S)

    def _report_ended(self, watch: _Watch, delay_s: float) -> None:
        component = watch.component
        before, watch.waits_for = watch.waits_for, component.waiting_words
        if watch.waits_for is None:
            message = "%s %s; it is started again in %.1f s"
            _log.warning(message, component.name, component.exit_reason, delay_s, extra={"ended": component.name})
        elif watch.waits_for != before:
            message = "%s ended and is tried again now and then: %s"
            _log.warning(message, component.name, watch.waits_for, extra={"ended": component.name})

    def run(self, stop: threading.Event) -> None:
        """Steps until the event is set, then stops all."""

        def wake() -> None:
            stop.wait()
            self._exits.wake()

        threading.Thread(target=wake, name="supervisor-stop", daemon=True).start()
        try:
            while not stop.is_set():
                self.step()
                self.wait()
        finally:
            self.stop()

    def _start(self, watch: _Watch) -> None:
        with watch.starting:
            watch.started_s = self._clock.monotonic_s()
            watch.component.start()


def _is_starting(watch: _Watch) -> bool:
    return watch.restart is not None and watch.restart.is_alive() and not watch.is_restarted


def _delay_after_death_s(watch: _Watch, now_s: float) -> float:
    if now_s - watch.started_s >= _STEADY_AFTER_S:
        watch.deaths_in_a_row = 0
    delay_s = min(_FIRST_DELAY_S * 2.0**watch.deaths_in_a_row, _LONGEST_DELAY_S)
    watch.deaths_in_a_row += 1
    return delay_s
