"""What the model of the publisher stands in: its state, the broker, and the metastore with its writers.

The broker is as measured of Kafka 4.3 with librdkafka 2.16: an id's epoch rises with each `init_transactions` and stays
the same from transaction to transaction; an EndTxn that was sent twice may arrive for a second time at any later moment
and then ends whatever transaction of its epoch is open. Records behind that are refused where their partition was in
it, and begin another transaction where it was not. A row's place in its snapshot is also its partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

ROWS: Final = 2
"""Of each snapshot."""


@dataclass(frozen=True)
class Protections:
    """Which rules hold; all by default. Names are those of the rules they stand for."""

    fixed_id: bool = True  # R1: one transactional id for a table's shard, not one for each process
    init_before_position: bool = True  # R2: fence whoever was there, then read the position
    reread_when_fenced: bool = True  # R2, R6: fenced means read again, not: take the id back and go on
    reinit_after_break: bool = True  # R2: whatever was sent twice may come late, and only a new epoch keeps it out
    reinit_after_unknown: bool = True  # R6: an unknown end is found out by a fresh start, not by trying again
    unknown_is_open: bool = True  # R6: an unknown end is not taken for done
    position_in_transaction: bool = True  # R3: not in Postgres alone
    position_has_rows: bool = True  # R3: how much of a chunked snapshot is there
    tail_replaces_offsets: bool = True  # R3: where the offsets were forgotten, the mirror alone may be behind
    uuid: bool = True  # C9: (id, uuid, parent uuid), not the id alone
    whole: bool = True  # R4: a small snapshot is one transaction
    report_after_commit: bool = True  # what the metastore is told is in the log
    expiry_waits: bool = True  # R8: nothing expires that was not published
    tail_checked: bool = True  # R10: a position ahead of the log's tail
    committed_only: bool = True  # what is staged is nobody's business
    broker_fences: bool = True  # look-alikes of Kafka do not
    generation_checked: bool = True  # R2: behind init, whether the log is still the one that was looked up
    beginning_reported: bool = True  # where a generation begins is found behind its first init, not when it is begun


class Snapshot(NamedTuple):
    number: int
    uuid: str
    parent: str


class Record(NamedTuple):
    number: int
    uuid: str
    place: int


class Position(NamedTuple):
    """All rows before `rows` of this snapshot, and all snapshots before it."""

    number: int
    uuid: str
    rows: int = ROWS


START: Final = Position(0, "")


class Coordinator(NamedTuple):
    """A transactional id at the broker; `records` None: no transaction is open."""

    epoch: int = 0
    records: tuple[Record, ...] | None = None
    position: Position | None = None
    generation: int = 1  # of the position


class Publisher(NamedTuple):
    """`phase`: down, looked (where logs are begun anew), positioned (read before init, where that is allowed), started,
    read, ready, planned, sent, ended, committed, unknown, diverged, stuck."""

    name: str
    phase: str = "down"
    starts: int = 0
    generation: int = 1
    epoch: int = 0
    position: Position = START
    plan: tuple[Record, ...] = ()
    sent: int = 0
    broken: bool = False


class State(NamedTuple):
    """The whole system, and how much may still happen to it."""

    publishers: tuple[Publisher, ...]
    snapshots: tuple[Snapshot, ...] = ()
    born: frozenset[Snapshot] = frozenset()
    staged: Snapshot | None = None
    expired: int = 0
    mirror: Position = START
    coordinators: tuple[tuple[str, Coordinator], ...] = ()
    late: tuple[tuple[str, int], ...] = ()  # EndTxn on their way: id and epoch
    log: tuple[tuple[Record, ...], ...] = ()  # committed transactions
    offsets: Position | None = None
    was_cut: bool = False
    histories: int = 1
    generation: int = 1
    starts_after: Position = START
    begins: int = 0  # by records
    former: Position | None = None  # of the generation before
    # Bounds.
    chunked: frozenset[int] = frozenset()  # snapshots that take a transaction a row
    starts: int = 2
    commits: int = 2
    stages: bool = False
    expires: bool = False
    crashes: int = 0
    breaks: int = 0
    restores: int = 0
    forgets: int = 0
    cuts: int = 0
    restarts: int = 0
    may_restart: bool = False


Step = tuple[str, State]


# The broker


def tail(s: State) -> Position:
    """What the last record's headers tell, if it is of the log's generation."""
    if not s.log or s.log[-1][-1].number <= s.starts_after.number:
        return s.starts_after
    last = s.log[-1][-1]
    return Position(last.number, last.uuid, last.place + 1)


def records(s: State) -> list[Record]:
    """All that stand in the log."""
    return [record for transaction in s.log for record in transaction]


def broker_steps(s: State, rules: Protections) -> Iterator[Step]:
    for at, (name, epoch) in enumerate(s.late):
        after = s._replace(late=(*s.late[:at], *s.late[at + 1 :]))
        yield "an EndTxn comes late", apply_end(after, name, epoch, rules)
    if s.breaks:
        for name, c in s.coordinators:
            if c.records is not None:
                after = s._replace(breaks=s.breaks - 1)
                yield "the broker ends a transaction that took too long", put(after, name, Coordinator(c.epoch + 1))
    if s.forgets and s.offsets is not None:
        yield "the offsets are forgotten", s._replace(offsets=None, forgets=s.forgets - 1)
    if s.cuts and s.log:
        # Whoever is in the middle of something sees errors, and starts afresh.
        publishers = tuple(
            p if p.phase in ("down", "diverged", "stuck") else Publisher(p.name, starts=p.starts) for p in s.publishers
        )
        broken = tuple((name, Coordinator(c.epoch + 1)) for name, c in s.coordinators)
        for kept in range(len(s.log)):
            after = s._replace(log=s.log[:kept], was_cut=True, cuts=s.cuts - 1)
            yield f"the topic is cut to {kept}", after._replace(publishers=publishers, coordinators=broken)


def apply_end(s: State, name: str, epoch: int, rules: Protections) -> State:
    """An EndTxn with `commit`; nothing where no transaction is open, or of another epoch."""
    c = coordinator(s, name)
    if c.records is None or (c.epoch != epoch and rules.broker_fences):
        return s
    if c.generation == s.generation:
        s = s._replace(offsets=c.position or s.offsets)
    else:
        s = s._replace(former=c.position or s.former)
    return put(s._replace(log=(*s.log, c.records) if c.records else s.log), name, Coordinator(c.epoch))


def coordinator(s: State, name: str) -> Coordinator:
    return next((each for known, each in s.coordinators if known == name), Coordinator())


def put(s: State, name: str, c: Coordinator) -> State:
    others = tuple(pair for pair in s.coordinators if pair[0] != name)
    return s._replace(coordinators=tuple(sorted((*others, (name, c)), key=lambda pair: pair[0])))


# The metastore and its writers


def metastore_steps(s: State, rules: Protections) -> Iterator[Step]:
    if s.staged is not None:
        after = s._replace(staged=None)
        yield f"{s.staged.uuid} is committed", _commit(after, s.staged)
        yield f"{s.staged.uuid} is given up", after
    elif s.commits:
        number = len(s.snapshots) + 1
        parent = s.snapshots[-1].uuid if s.snapshots else ""
        following = Snapshot(number, f"{number}{'abc'[s.histories - 1]}", parent)
        after = s._replace(commits=s.commits - 1)
        if s.stages:
            yield f"{following.uuid} is staged", after._replace(staged=following)
        else:
            yield f"{following.uuid} is committed", _commit(after, following)
    if s.restores:
        for kept in range(len(s.snapshots)):
            after = s._replace(snapshots=s.snapshots[:kept], restores=s.restores - 1, histories=s.histories + 1)
            uuid = after.snapshots[-1].uuid if kept else ""
            yield f"the metastore is restored to {kept}", after._replace(mirror=min(s.mirror, Position(kept, uuid)))
    if s.restarts and s.snapshots:
        behind = Position(len(s.snapshots), s.snapshots[-1].uuid)
        after = s._replace(generation=s.generation + 1, starts_after=behind, mirror=behind, restarts=s.restarts - 1)
        yield "the log is begun anew", after._replace(begins=len(records(s)), former=s.offsets, offsets=None)
    may_expire = not rules.expiry_waits or (s.mirror.number, s.mirror.rows) >= (s.expired + 1, ROWS)
    if s.expires and may_expire and s.expired + 1 < len(s.snapshots):
        yield f"{s.expired + 1} expires", s._replace(expired=s.expired + 1)


def _commit(s: State, snapshot: Snapshot) -> State:
    return s._replace(snapshots=(*s.snapshots, snapshot), born=s.born | {snapshot})
