"""The commit protocol as a model: writers that crash and repeat, a zombie, compactors, a collector and a poller.

Every protection is a flag, so that each can be switched off and must then be missed. Rows are what identifies work:
writer `w` commits identifier `i` exactly once, so the table must hold the row `(w, i)` exactly once when it has been
told so, and at most once ever. Writers that raise a counter read it first and guard what they read: none of their
commits is lost.

Bounds: two writers with one identifier each, one of them with a zombie of an older epoch, two compactors of two groups
each, one collector that dooms without any delay, replies that may be lost. Storage, database and actors are all part of
the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar

V = TypeVar("V")

Row = tuple[str, int]
"""Writer and identifier."""


@dataclass(frozen=True)
class Protections:
    """Which rules hold; all by default. Names are those of the rules they stand for."""

    idempotent: bool = True  # C2: same (writer, identifier) answers with the first result
    epochs: bool = True  # C3: a lower epoch is fenced in the same transaction
    staged: bool = True  # C4: a commit needs its attempt open, the collector dooms before it deletes
    live_inputs: bool = True  # C5: what is removed must be live
    dropped_recorded: bool = True  # C2: who repeats a compaction is told which groups were dropped when it was applied
    numbered_at_commit: bool = True  # C1: ids are latest + 1 under the lock, not taken at the start
    keep_on_unknown: bool = True  # C8: nothing is deleted when the outcome is unknown
    guarded: bool = True  # what was read must be unchanged (semantics 7.2)
    repeats_first: bool = True  # C2: who repeats an applied commit is answered before its guard is looked at


@dataclass(frozen=True)
class Writer:
    """A writer process: what it does and where it is.

    `phase`: idle, staged, written, lost (the reply was), told (knows that it is committed), refused.
    """

    name: str
    identifier: int
    epoch: int
    phase: str = "idle"
    attempt: str = ""
    tries: int = 0
    reserved: int = 0  # the id taken at the start, where ids are not numbered at the commit
    raises: bool = False  # reads a counter when it begins, and writes one more, guarded
    read: int = 0  # what the counter was


@dataclass(frozen=True)
class Compactor:
    """Reads the live files in two groups, writes a file in the place of each, commits, and deletes what was dropped.

    `phase`: idle, planned, written, lost (the reply was), done, refused.
    """

    name: str
    phase: str = "idle"
    groups: tuple[tuple[frozenset[str], tuple[Row, ...]], ...] = ()  # inputs, and the rows in them

    @property
    def files(self) -> tuple[str, ...]:
        """What it writes, by group."""
        return tuple(f"{self.name}/{number}" for number in range(len(self.groups)))


@dataclass(frozen=True)
class State:
    """The whole system."""

    writers: tuple[Writer, ...]
    compactors: tuple[Compactor, ...] = ()
    epochs: tuple[tuple[str, int], ...] = ()
    attempts: tuple[tuple[str, str], ...] = ()  # attempt -> open | committed | doomed
    results: frozenset[Row] = frozenset()
    counter: int = 0  # as the last commit left it; compactions leave it as it is
    raised: int = 0  # how many commits have raised it
    dropped: tuple[tuple[str, frozenset[int]], ...] = ()  # compactor -> its groups that did not stand
    live: tuple[tuple[str, tuple[Row, ...]], ...] = ()  # file -> rows in it
    stored: frozenset[str] = frozenset()
    snapshots: frozenset[int] = frozenset()
    next_reserved: int = 1
    polled: int = 0
    seen: frozenset[int] = frozenset()
    collects: int = 1


MAX_TRIES: Final = 2


def steps(state: State, rules: Protections) -> Iterator[tuple[str, State]]:
    """Every step that some actor can take now."""
    for index, writer in enumerate(state.writers):
        for label, next_writer, next_state in _writer_steps(state, writer, rules):
            writers = (*state.writers[:index], next_writer, *state.writers[index + 1 :])
            yield f"{writer.name}@{writer.epoch} {label}", replace(next_state, writers=writers)
    for index, compactor in enumerate(state.compactors):
        for label, next_compactor, next_state in _compactor_steps(state, compactor, rules):
            compactors = (*state.compactors[:index], next_compactor, *state.compactors[index + 1 :])
            yield f"{compactor.name} {label}", replace(next_state, compactors=compactors)
    yield from _collector_steps(state, rules)
    newest = max(state.snapshots, default=0)
    if newest > state.polled:
        found = frozenset(s for s in state.snapshots if s > state.polled)
        yield "poller reads on", replace(state, polled=newest, seen=state.seen | found)


def _writer_steps(state: State, w: Writer, rules: Protections) -> Iterator[tuple[str, Writer, State]]:
    if w.phase == "idle":
        attempt = f"{w.name}{w.epoch}.{w.tries}"
        yield (
            "stages",
            replace(
                w, phase="staged", attempt=attempt, tries=w.tries + 1, reserved=state.next_reserved, read=state.counter
            ),
            replace(
                state,
                attempts=_put(state.attempts, attempt, "open"),
                epochs=_put(state.epochs, w.name, max(w.epoch, dict(state.epochs).get(w.name, 0))),
                next_reserved=state.next_reserved + (0 if rules.numbered_at_commit else 1),
            ),
        )
    elif w.phase == "staged":
        yield "writes its file", replace(w, phase="written"), replace(state, stored=state.stored | {w.attempt})
    elif w.phase in ("written", "lost"):
        verdict, after = _commit(state, w, rules)
        yield f"commits: {verdict}", replace(w, phase=_phase_after(verdict)), _clean_up(after, w, verdict)
        if w.tries < MAX_TRIES or w.phase == "written":
            lost = after if rules.keep_on_unknown else replace(after, stored=after.stored - {w.attempt})
            yield f"commits: {verdict}, the reply is lost", replace(w, phase="lost"), lost
        if w.tries < MAX_TRIES:
            yield "crashes and starts again", replace(w, phase="idle"), state


def _phase_after(verdict: str) -> str:
    return "answered" if verdict in ("applied", "repeated") else "refused"


def _clean_up(state: State, w: Writer, verdict: str) -> State:
    """A refusal is certain: the writer deletes what it wrote, unless the attempt is the one that won."""
    if verdict == "applied" or dict(state.attempts).get(w.attempt) == "committed":
        return state
    return replace(state, stored=state.stored - {w.attempt})


def _commit(state: State, w: Writer, rules: Protections) -> tuple[str, State]:
    """The gate, one transaction."""
    row = (w.name, w.identifier)
    attempts = dict(state.attempts)
    if rules.epochs and w.epoch < dict(state.epochs).get(w.name, 0):
        return "fenced", state
    is_stale = rules.guarded and w.raises and state.counter != w.read
    if is_stale and not rules.repeats_first:
        return "refused by its guard", state
    if rules.idempotent and row in state.results:
        if attempts[w.attempt] == "open":
            state = replace(state, attempts=_put(state.attempts, w.attempt, "aborted"))
        return "repeated", state
    if rules.staged and attempts[w.attempt] != "open":
        return "aborted", state
    if is_stale:
        return "refused by its guard", state
    if w.attempt in dict(state.live):
        return "repeated", state  # a file has one entry, whatever the rules
    number = max(state.snapshots, default=0) + 1 if rules.numbered_at_commit else w.reserved
    return "applied", replace(
        state,
        attempts=_put(state.attempts, w.attempt, "committed"),
        results=state.results | {row},
        counter=w.read + 1 if w.raises else state.counter,
        raised=state.raised + (1 if w.raises else 0),
        live=_put(state.live, w.attempt, (row,)),
        snapshots=state.snapshots | {number},
    )


def _compactor_steps(state: State, c: Compactor, rules: Protections) -> Iterator[tuple[str, Compactor, State]]:
    if c.phase == "idle" and state.live:
        halves = [each for each in (state.live[:1], state.live[1:]) if each]
        groups = tuple((frozenset(file for file, _ in half), _rows_of(half)) for half in halves)
        yield "plans", replace(c, phase="planned", groups=groups), state
    elif c.phase == "planned":
        after = replace(state, stored=state.stored | set(c.files), attempts=_put(state.attempts, c.name, "open"))
        yield "writes its files", replace(c, phase="written"), after
    elif c.phase in ("written", "lost"):
        if rules.staged and dict(state.attempts)[c.name] == "aborted" and c.name not in dict(state.dropped):
            yield "was given up", replace(c, phase="refused"), replace(state, stored=state.stored - set(c.files))
            return
        dropped, after = _commit_groups(state, c, rules)
        useless = {c.files[number] for number in dropped}
        reported = replace(after, stored=after.stored - useless)
        yield f"commits, {len(dropped)} groups dropped", replace(c, phase="done"), reported
        if c.phase == "written":
            yield f"commits, {len(dropped)} groups dropped, the reply is lost", replace(c, phase="lost"), after


def _rows_of(files: tuple[tuple[str, tuple[Row, ...]], ...]) -> tuple[Row, ...]:
    return tuple(sorted(row for _, rows in files for row in rows))


def _commit_groups(state: State, c: Compactor, rules: Protections) -> tuple[frozenset[int], State]:
    """The gate, one transaction: the groups that are dropped."""
    known = dict(state.dropped).get(c.name)
    if known is not None and rules.dropped_recorded:
        return known, state
    live = dict(state.live)
    stands = [not rules.live_inputs or inputs <= set(live) for inputs, _ in c.groups]
    dropped = frozenset(number for number, stood in enumerate(stands) if not stood)
    kept = state.live
    for (inputs, rows), path, stood in zip(c.groups, c.files, stands, strict=True):
        if stood:
            kept = _put(tuple((file, held) for file, held in kept if file not in inputs), path, rows)
    number = max(state.snapshots, default=0) + 1
    return dropped, replace(
        state,
        live=kept,
        attempts=_put(state.attempts, c.name, "committed" if any(stands) else "aborted"),
        dropped=_put(state.dropped, c.name, dropped),
        snapshots=state.snapshots | ({number} if any(stands) else set()),
    )


def _collector_steps(state: State, rules: Protections) -> Iterator[tuple[str, State]]:
    """The collector has no patience at all: any attempt that is open may be taken for abandoned."""
    if rules.staged:
        for attempt, status in state.attempts:
            if status == "open" and state.collects:
                aborted = replace(state, attempts=_put(state.attempts, attempt, "aborted"), collects=state.collects - 1)
                yield f"collector dooms {attempt}", aborted
            files = {file for file in state.stored if file == attempt or file.startswith(f"{attempt}/")}
            if status == "aborted" and files:
                yield f"collector deletes {attempt}", replace(state, stored=state.stored - files)
    elif state.collects:
        for file in sorted(state.stored - set(dict(state.live))):
            yield (
                f"collector deletes {file}",
                replace(state, stored=state.stored - {file}, collects=state.collects - 1),
            )


def violation(state: State) -> str | None:
    """What is wrong with a state, or None."""
    live = dict(state.live)
    missing = sorted(set(live) - state.stored)
    if missing:
        return f"live files are not in the store: {missing}"
    rows = [row for file_rows in live.values() for row in file_rows]
    if len(rows) != len(set(rows)):
        return f"a row is there twice: {sorted(rows)}"
    for writer in state.writers:
        if writer.phase == "answered" and (writer.name, writer.identifier) not in rows:
            return f"a writer was told of a commit whose row is gone: {writer.name}"
    if state.counter != state.raised:
        return f"a counter that was raised {state.raised} times is {state.counter}"
    for writer in state.writers:
        if writer.raises and writer.phase == "refused" and (writer.name, writer.identifier) in state.results:
            return f"a writer was told that its guard refused what was applied: {writer.name}"
    lost = state.results - set(rows)
    if lost:
        return f"committed rows are gone: {sorted(lost)}"
    skipped = {s for s in state.snapshots if s <= state.polled} - state.seen
    if skipped:
        return f"the poller can never see snapshots {sorted(skipped)}"
    return None


def fenced_violation(state: State) -> str | None:
    """Like `violation`; and a zombie may not commit once its successor was told that nothing had been done."""
    wrong = violation(state)
    if wrong is not None:
        return wrong
    for writer in state.writers:
        newest = dict(state.epochs).get(writer.name, 0)
        committed = dict(state.attempts).get(writer.attempt) == "committed"
        if writer.phase == "answered" and committed and writer.epoch < newest and _successor_is_ahead(state, writer):
            return f"a zombie committed behind its successor: {writer.name}@{writer.epoch}"
    return None


def _successor_is_ahead(state: State, zombie: Writer) -> bool:
    """Whether the successor committed a later identifier before the zombie's own came in."""
    files = [file for file, _ in state.live]
    return any(
        w.name == zombie.name
        and w.epoch > zombie.epoch
        and w.attempt in files
        and zombie.attempt in files
        and files.index(w.attempt) < files.index(zombie.attempt)
        for w in state.writers
    )


def _put(pairs: tuple[tuple[str, V], ...], key: str, value: V) -> tuple[tuple[str, V], ...]:
    """Sets a key; new ones go to the end, so that `live` keeps the order of commits."""
    if any(k == key for k, _ in pairs):
        return tuple((k, value if k == key else v) for k, v in pairs)
    return (*pairs, (key, value))
