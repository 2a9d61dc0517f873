"""Many actors, one at a time: a seed decides who goes on, for how long one sleeps, and who dies.

Actors are threads that hold a baton: only the one that holds it runs, and it hands the baton on at each pause —
before each call to the metastore and to the object store. So real, blocking product code is run in every order that a
seed can think of, and the same seed gives the same history. Time is virtual and moves only when nobody can go on.
An actor that pauses picks the next one itself, because each switch of threads costs more than what most do in between.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field


class Killed(BaseException):
    """Raised inside an actor that the scheduler kills: as with kill -9, nothing of the product may handle it."""


def _make_baton() -> threading.Lock:
    """A lock that is held: `release` gives the baton, `acquire` waits for it. It costs half of a semaphore."""
    baton = threading.Lock()
    baton.acquire()
    return baton


@dataclass
class Actor:
    """A thread that runs only while it holds the baton."""

    name: str
    body: Callable[[], None]
    mortal: bool
    baton: threading.Lock = field(default_factory=_make_baton)
    wakes_at_s: float = 0.0
    killed: bool = False
    done: bool = False
    error: BaseException | None = None
    thread: threading.Thread | None = None


class Scheduler:
    """Runs actors to their ends.

    Args:
        seed: Decides everything.
        kill_rate: The chance, at each pause of a mortal actor, that it is killed there.
        freeze_rate: The chance, at each pause of a mortal actor, that it sleeps for long there (SIGSTOP) while others
            go on.
        on_death: Called with an actor that was killed or frozen, to start its successor.
    """

    def __init__(
        self, seed: int, *, kill_rate: float = 0.0, freeze_rate: float = 0.0, on_death: Callable[[Actor], None]
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self._kill_rate = kill_rate
        self._freeze_rate = freeze_rate
        self._on_death = on_death
        self._actors: list[Actor] = []
        self._back = _make_baton()
        self._current: Actor | None = None
        self._now_s = 0.0
        self.trace: list[str] = []
        self.kills = 0
        self.freezes = 0

    @property
    def now_s(self) -> float:
        """Virtual seconds since the beginning."""
        return self._now_s

    def start(self, name: str, body: Callable[[], None], *, mortal: bool = True) -> Actor:
        """Adds an actor; it runs when the scheduler picks it."""
        actor = Actor(name, body, mortal)
        actor.thread = threading.Thread(target=self._run_actor, args=(actor,), name=name, daemon=True)
        actor.thread.start()
        self._actors.append(actor)
        return actor

    def run(self) -> None:
        """Runs until every actor has ended; raises the first error that one ended with."""
        while (chosen := self._choose()) is not None:
            self._current = chosen
            chosen.baton.release()
            self._back.acquire()
            ended, self._current = self._current, None
            assert ended is not None, "who gives the baton back holds it"
            if ended.error is not None:
                raise ended.error
            if ended.killed:
                self._on_death(ended)

    def are_done(self, names: Collection[str]) -> bool:
        """Whether all actors of these names, and their successors, have ended."""
        return all(actor.done for actor in self._actors if actor.name.partition("#")[0] in names)

    def is_actor(self) -> bool:
        """Whether the calling thread is the actor that holds the baton."""
        return self._current is not None and self._current.thread is threading.current_thread()

    def is_killed(self) -> bool:
        """Whether the calling thread is an actor that was killed: what it still does, it does no more."""
        return self._current is not None and self.is_actor() and self._current.killed

    def pause(self, label: str) -> None:
        """Gives the baton back; returns when the actor is picked again. Does nothing outside actors (helper threads).

        Raises:
            Killed: The actor dies here.
        """
        actor = self._current
        if actor is None or not self.is_actor():
            return
        self.trace.append(f"{self._now_s:.3f} {actor.name} {label}")
        if actor.mortal and not actor.killed:
            dice = self.random.random()
            if dice < self._kill_rate:
                self.kills += 1
                self.trace.append(f"{self._now_s:.3f} {actor.name} is killed")
                actor.killed = True
                raise Killed
            if dice < self._kill_rate + self._freeze_rate:
                self.freezes += 1
                self.trace.append(f"{self._now_s:.3f} {actor.name} is frozen")
                actor.mortal = False
                actor.wakes_at_s = self._now_s + self.random.uniform(5, 50)
                self._on_death(actor)
        self._release(actor)

    def sleep(self, seconds: float) -> None:
        """Sleeps in virtual time."""
        actor = self._current
        assert actor is not None, "only actors sleep"
        assert self.is_actor(), "only actors sleep"
        actor.wakes_at_s = max(actor.wakes_at_s, self._now_s + seconds)
        self._release(actor)

    def _choose(self) -> Actor | None:
        """Who goes on, at a later time if none can now; None: all have ended."""
        while waiting := [actor for actor in self._actors if not actor.done]:
            if ready := [actor for actor in waiting if actor.wakes_at_s <= self._now_s]:
                return self.random.choice(ready)
            self._now_s = min(actor.wakes_at_s for actor in waiting)
        return None

    def _release(self, actor: Actor) -> None:
        """Hands the baton on, and returns when the actor has it again."""
        chosen = self._choose()
        assert chosen is not None, "who asks has not ended"
        if chosen is not actor:
            self._current = chosen
            chosen.baton.release()
            actor.baton.acquire()

    def _run_actor(self, actor: Actor) -> None:
        actor.baton.acquire()
        try:
            actor.body()
        except Killed:
            pass
        except BaseException as error:
            actor.error = error
        finally:
            actor.done = True
            self._back.release()
