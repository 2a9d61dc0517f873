"""What full compactions tell as a model (semantics 3.6): compactors that tell, at once and late, and who is beside.

There is one key of one bucket, so that whoever compacts takes everything that he knows of: keys do not concern each
other. A reader knows the changelog alone, and applies each change to what it says was there. Beside the compactors a
writer upserts and deletes, somebody overwrites, somebody rolls back, one compacts and tells nothing, and what is not
needed any more is deleted at once.

Every protection is a flag, so that each can be switched off and must then be missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Protections:
    """Which rules hold; all by default."""

    judged_by_baseline: bool = (
        True  # a group stands only where what it names is told still, and all told ones are named
    )
    live_inputs: bool = True  # C5: what is replaced must be live
    gone_are_named: bool = True  # what was told and is live no more is part of the next difference
    baseline_is_kept: bool = True  # C7: expiry keeps what is told, live or not


@dataclass(frozen=True)
class File:
    """An entry of a file: `value` of the key, 0: it was deleted. Places decide between rows."""

    file_id: int
    path: int
    place: int
    value: int


@dataclass(frozen=True)
class Compactor:
    """Plans what is live and told, reads it, commits. `phase`: idle, planned, written, done."""

    name: str
    emits_changelog: bool
    rounds: int
    phase: str = "idle"
    inputs: frozenset[File] = frozenset()
    baseline: frozenset[File] = frozenset()


FIRST = frozenset({File(1, 1, 1, 1)})


@dataclass(frozen=True)
class State:
    """Everything there is: the first snapshot shows one file, which was told."""

    compactors: tuple[Compactor, ...]
    commits: tuple[int, ...]
    """Values that the writer is still to commit; 0: a delete."""
    overwrites: tuple[int, ...]
    """Values that the table is still to be overwritten with; 0: with nothing."""
    rollbacks: int = 1
    live: frozenset[File] = FIRST
    baseline: frozenset[File] = FIRST
    known: int = 1
    """What the reader knows of the key."""
    first_is_kept: bool = True
    stored: frozenset[int] = frozenset({1})
    next_id: int = 2
    wrong: str = ""


def merge(files: Collection[File]) -> int:
    """The value of the key; 0: there is none."""
    return max(files, key=lambda file: (file.place, file.file_id)).value if files else 0


def violation(state: State) -> str | None:
    """What is wrong with a state."""
    if state.wrong:
        return state.wrong
    if not {file.path for file in state.baseline} <= state.stored:
        return "a file that is told is not in the store"
    if state.known != merge(state.baseline):
        return "what is told is not what the changelog has led to"
    return None


def steps(state: State, rules: Protections) -> Iterator[tuple[str, State]]:
    """Each step that may come next."""
    if state.commits:
        value, *rest = state.commits
        yield f"commits {value}", _add(replace(state, commits=tuple(rest)), state.live, value)
    if state.overwrites:
        value, *rest = state.overwrites
        yield f"overwrites by {value}", _add(replace(state, overwrites=tuple(rest)), frozenset(), value)
    if state.rollbacks and state.first_is_kept:
        # What is live still stays; what is not comes back as another entry of its file, at its old place.
        back = frozenset(
            file if file in state.live else replace(file, file_id=state.next_id + number)
            for number, file in enumerate(sorted(FIRST, key=lambda file: file.file_id))
        )
        yield "rolls back", replace(state, rollbacks=0, live=back, next_id=state.next_id + len(FIRST))
    if state.first_is_kept:
        yield "the first snapshot expires", replace(state, first_is_kept=False)
    else:
        needed = {file.path for file in (*state.live, *(state.baseline if rules.baseline_is_kept else ()))}
        if not state.stored <= needed:
            yield "deletes what is not needed", replace(state, stored=state.stored & needed)
    for index, compactor in enumerate(state.compactors):
        for label, next_compactor, next_state in _compactor_steps(state, compactor, rules):
            compactors = (*state.compactors[:index], next_compactor, *state.compactors[index + 1 :])
            yield f"{compactor.name} {label}", replace(next_state, compactors=compactors)


def _add(state: State, kept: frozenset[File], value: int, place: int = 0) -> State:
    """Enters a file; one without rows is none, and a delete is a row only where there is something to hide."""
    if not (value or kept):
        return replace(state, live=kept)
    file = File(state.next_id, state.next_id, place or state.next_id, value)
    return replace(state, live=kept | {file}, stored=state.stored | {file.path}, next_id=state.next_id + 1)


def _compactor_steps(state: State, c: Compactor, rules: Protections) -> Iterator[tuple[str, Compactor, State]]:
    if c.phase == "idle" and c.rounds:
        baseline = frozenset[File]()
        if c.emits_changelog:
            baseline = state.baseline if rules.gone_are_named else state.baseline & state.live
        planned = replace(c, phase="planned", rounds=c.rounds - 1, inputs=state.live, baseline=baseline)
        if planned.inputs or planned.baseline:
            yield "plans", planned, state
    elif c.phase == "planned":
        # Where what it wants to read is gone, it has come too late, and gives up.
        found = {file.path for file in (*c.inputs, *c.baseline)} <= state.stored
        yield ("reads", replace(c, phase="written"), state) if found else ("gives up", _again(c), state)
    elif c.phase == "written":
        verdict = _judge(state, c, rules)
        if verdict:
            yield f"is dropped: {verdict}", _again(c), state
        else:
            yield "commits", _again(c), _commit(state, c)


def _again(c: Compactor) -> Compactor:
    return replace(c, phase="idle", inputs=frozenset(), baseline=frozenset())


def _judge(state: State, c: Compactor, rules: Protections) -> str:
    """Why a group does not stand; empty: it does."""
    if rules.live_inputs and not c.inputs <= state.live:
        return "an input is gone"
    rest = state.live - c.inputs
    if c.inputs and rest and min(file.place for file in rest) < max(file.place for file in c.inputs):
        return "rows would pass others"
    if not rules.judged_by_baseline:
        return ""
    own = c.inputs & state.baseline
    if c.emits_changelog:
        return "" if c.baseline <= state.baseline and own <= c.baseline else "others have told"
    return "" if not own or own == c.inputs else "it mixes what was told with what was not"


def _commit(state: State, c: Compactor) -> State:
    new = merge(c.inputs)
    rest = state.live - c.inputs
    place = max((file.place for file in c.inputs), default=0)
    after = replace(state, live=rest)
    if new:
        after = _add(after, rest, new, place)
    written = after.live - rest
    if not c.emits_changelog:
        # No row has changed: what it writes was told where all of its inputs were.
        carried = bool(c.inputs) and c.inputs <= state.baseline
        return replace(after, baseline=(state.baseline - c.inputs) | written) if carried else after
    old = merge(c.baseline)
    wrong = "" if old == state.known else f"{old} is taken away, but {state.known} is there"
    return replace(after, baseline=(state.baseline - c.baseline) | written, known=new, wrong=wrong)
