"""Epochs as a model: instances of one name, a database that is set back to a backup, and a clock that may be too.

Each instance takes the name once and tries to commit whenever it likes. The database knows the epoch that it gave last;
which instance got it is known to the model alone. Both go back with the database. Only that instance may commit.

Bounds: three instances, one backup, two restores, a clock of three moments that is set back once. Random bits are
numbers that never come twice: what is left to chance in the product is not part of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

_DRAWS: Final = 8
"""More than there are instances: the room for random bits below a moment of the clock."""

_LAST_MOMENT: Final = 2


@dataclass(frozen=True)
class Rules:
    """Which protections are on."""

    by_clock: bool = True  # an epoch is at least the time; else it is the last one plus one
    random: bool = True  # no two epochs have the same low bits
    exact: bool = True  # any other epoch is refused; else only lower ones


@dataclass(frozen=True)
class Database:
    """What a restore brings back: the last epoch, and the instance that got it; -1: none."""

    epoch: int = 0
    owner: int = -1


@dataclass(frozen=True)
class State:
    """The whole system; `epochs` are those of the instances, 0 before they have one."""

    epochs: tuple[int, ...] = (0, 0, 0)
    database: Database = Database()
    backup: Database | None = None
    restores: int = 2
    time: int = 0
    clock_steps: int = 1
    draws: int = 0
    wrong: str = ""


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Every step that can come next."""
    for index, epoch in enumerate(state.epochs):
        if not epoch:
            yield f"{index} takes the name", _take(state, index, rules)
        elif _is_accepted(epoch, state.database.epoch, rules):
            wrong = "" if index == state.database.owner else f"{index} commits although it does not have the name"
            yield f"{index} commits", replace(state, wrong=wrong)
    if state.backup is None:
        yield "a backup is taken", replace(state, backup=state.database)
    elif state.restores:
        yield "the database is set back", replace(state, database=state.backup, restores=state.restores - 1)
    if state.time < _LAST_MOMENT:
        yield "time passes", replace(state, time=state.time + 1)
    if state.clock_steps and state.time:
        yield "the clock is set back", replace(state, time=0, clock_steps=state.clock_steps - 1)


def _take(state: State, index: int, rules: Rules) -> State:
    epoch = _make_epoch(state, rules)
    epochs = (*state.epochs[:index], epoch, *state.epochs[index + 1 :])
    wrong = f"epoch {epoch} is given twice" if epoch in state.epochs else ""
    return replace(state, epochs=epochs, database=Database(epoch, index), draws=state.draws + 1, wrong=wrong)


def _make_epoch(state: State, rules: Rules) -> int:
    last = state.database.epoch
    if not rules.by_clock:
        return last + 1
    return max(last // _DRAWS + 1, state.time) * _DRAWS + (state.draws if rules.random else 0)


def _is_accepted(epoch: int, current: int, rules: Rules) -> bool:
    return epoch == current if rules.exact else epoch >= current


def violation(state: State) -> str | None:
    """What is wrong with a state, or None."""
    return state.wrong or None
