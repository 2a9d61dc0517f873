"""The publisher as a model (reliability 2): processes that crash and come back as zombies, a broker, a metastore.

Every protection is a flag, so that each can be switched off and must then be missed. There are no leases: any number of
publishers may think that it is their turn, since leases only schedule. What a consumer of committed records sees is the
list of committed transactions: a transactional id has one open transaction at a time, so that those of one id never
interleave in a partition.

Bounds: two publishers that start two or three times, up to three snapshots of two rows in two partitions, and as many
crashes, broken connections, restored metastores, forgotten offsets, cut topics and logs begun anew as a state allows. A
cut topic breaks the producers that are open then: what is shown is that a fresh start notices it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.publisher_world import (
    ROWS,
    START,
    Coordinator,
    Position,
    Protections,
    Publisher,
    Record,
    State,
    Step,
    apply_end,
    broker_steps,
    coordinator,
    metastore_steps,
    put,
    records,
    tail,
)

Move = tuple[str, Publisher, State]


def steps(s: State, rules: Protections) -> Iterator[Step]:
    """Every step that some actor can take now."""
    for at, publisher in enumerate(s.publishers):
        for label, moved, after in _publisher_moves(s, publisher, rules):
            publishers = (*after.publishers[:at], moved, *after.publishers[at + 1 :])
            yield f"{publisher.name} {label}", after._replace(publishers=publishers)
    yield from broker_steps(s, rules)
    yield from metastore_steps(s, rules)


# The publisher


def _publisher_moves(s: State, p: Publisher, rules: Protections) -> Iterator[Move]:
    if p.phase not in ("down", "diverged", "stuck") and s.crashes:
        yield "is killed", _to_down(p), s._replace(crashes=s.crashes - 1)
    if p.phase == "down":
        if p.starts < s.starts:
            p = p._replace(starts=p.starts + 1, generation=s.generation)
            if s.may_restart:
                yield "looks the log up", p._replace(phase="looked"), s
            elif rules.init_before_position:
                yield _init(s, p, rules, "started")
            elif _is_stable(s):
                yield "reads the position", p._replace(phase="positioned", position=_find_position(s, rules)), s
    elif p.phase == "looked":
        yield _init(s, p, rules, "started")
    elif p.phase == "positioned":
        yield _init(s, p, rules, "read")
    elif p.phase == "started":
        if p.generation != s.generation and rules.generation_checked:
            yield "finds the log begun anew", _to_down(p), s
        elif _is_stable(s):
            found = _find_position(s, rules) if p.generation == s.generation else s.former or START
            yield "reads the position", p._replace(phase="read", position=found), s
    elif p.phase == "read":
        yield _check_position(s, p, rules)
    elif p.phase == "ready":
        yield from _plan(s, p, rules)
    elif p.phase == "planned":
        yield _send(s, p, rules)
    elif p.phase == "sent":
        yield from _end(s, p, rules)
    elif p.phase == "unknown":
        yield _resume(p, rules, s)
    elif p.phase == "committed":
        done = p._replace(position=_to_position(p.plan[-1]), plan=(), sent=0)
        if p.generation != s.generation:
            yield "finds the log begun anew", _to_down(p), s
            return
        reported, after = _report(s, done.position, rules)
        fresh = p.broken and rules.reinit_after_break
        after_all = done._replace(phase="ready") if not fresh else _to_down(p)
        yield (
            f"reports{'' if reported else ' what is not there any more'}",
            after_all if reported else _to_diverged(p),
            after,
        )


def _init(s: State, p: Publisher, rules: Protections, phase: str) -> Move:
    """A new epoch; what was open under the old one is given up."""
    name = _to_id(p, rules)
    epoch = coordinator(s, name).epoch + 1
    return "starts", p._replace(phase=phase, epoch=epoch), put(s, name, Coordinator(epoch))


def _is_stable(s: State) -> bool:
    """The offsets of an open transaction are waited for."""
    return all(each.position is None for _, each in s.coordinators)


def _find_position(s: State, rules: Protections) -> Position:
    if not rules.position_in_transaction:
        return s.mirror
    if s.offsets is not None:
        return s.offsets
    return max(s.mirror, tail(s)) if rules.tail_replaces_offsets else s.mirror


def _check_position(s: State, p: Publisher, rules: Protections) -> Move:
    if p.generation != s.generation:
        # It has nothing to tell, so that nobody refuses it.
        return "takes the log back", p._replace(phase="ready"), s
    if s.generation > 1 and s.offsets is None and rules.beginning_reported:
        s = s._replace(begins=_find_beginning(s))
    at, end = p.position, tail(s)
    if rules.tail_checked and (at.number, at.rows) > (end.number, end.rows):
        return "finds the topic cut", _to_diverged(p), s
    reported, after = _report(s, at, rules)
    if not reported:
        return "finds another history", _to_diverged(p), s
    return "checks the position", p._replace(phase="ready"), after


def _find_beginning(s: State) -> int:
    """Behind what the generation before had in hand."""
    there = records(s)
    own = (place for place in range(s.begins, len(there)) if there[place].number > s.starts_after.number)
    return next(own, len(there))


def _report(s: State, at: Position, rules: Protections) -> tuple[bool, State]:
    """Tells the metastore, which never goes back; False: it knows no such snapshot."""
    if rules.uuid and at.number > s.expired:
        known = next((each.uuid for each in s.snapshots if each.number == at.number), None)
        if known != at.uuid:
            return False, s
    return True, s._replace(mirror=max(s.mirror, at))


def _plan(s: State, p: Publisher, rules: Protections) -> Iterator[Move]:
    """What comes next: all small snapshots that are there, or one row of a large one."""
    there = s.snapshots if rules.committed_only or s.staged is None else (*s.snapshots, s.staged)
    plan: list[Record] = []
    uuid, rows = p.position.uuid, p.position.rows % ROWS
    first = p.position.number + (0 if rows else 1)
    for snapshot in there[first - 1 :]:
        if snapshot.number <= s.expired:
            yield "finds that a snapshot has expired", p._replace(phase="stuck"), s
            return
        if rules.uuid and (snapshot.uuid if rows else snapshot.parent) != uuid:
            yield "finds another history", _to_diverged(p), s
            return
        pieces = snapshot.number in s.chunked or not rules.whole
        if pieces and plan:
            break
        end = rows + 1 if pieces else ROWS
        plan += [Record(snapshot.number, snapshot.uuid, index) for index in range(rows, end)]
        uuid, rows = snapshot.uuid, 0
        if pieces:
            break
    if plan:
        planned = p._replace(phase="planned", plan=tuple(plan), sent=0)
        if not rules.report_after_commit:
            s = _report(s, _to_position(plan[-1]), rules)[1]
        yield f"plans {len(plan)} rows to {plan[-1].uuid}", planned, s


def _send(s: State, p: Publisher, rules: Protections) -> Move:
    """One record, the first of which begins the transaction; behind the last one the position."""
    name = _to_id(p, rules)
    c = coordinator(s, name)
    if c.epoch != p.epoch and rules.broker_fences:
        return _fenced(s, p, rules)
    if p.sent == 0:
        if c.records is not None and rules.broker_fences:
            return "is refused, a transaction is open", _to_down(p), s
        c = c._replace(records=(), position=None)
    elif c.records is None:
        known = {record.place for record in p.plan[: p.sent]}
        if p.sent < len(p.plan) and p.plan[p.sent].place in known:
            return "is refused, no transaction is open", _to_down(p), s
        # SUBTLE: what is new to the transaction, a partition or the offsets, begins another one, and nobody is told.
        c = c._replace(records=(), position=None)
    assert c.records is not None
    if p.sent < len(p.plan):
        c = c._replace(records=(*c.records, p.plan[p.sent]))
        return f"sends row {p.sent}", p._replace(sent=p.sent + 1), put(s, name, c)
    if rules.position_in_transaction:
        end = _to_position(p.plan[-1])
        c = c._replace(generation=p.generation)
        c = c._replace(position=end if rules.position_has_rows or end.rows == ROWS else p.position)
    return "sends the position", p._replace(phase="sent"), put(s, name, c)


def _end(s: State, p: Publisher, rules: Protections) -> Iterator[Move]:
    name = _to_id(p, rules)
    if coordinator(s, name).epoch != p.epoch and rules.broker_fences:
        yield _fenced(s, p, rules)
        return
    ended = apply_end(s, name, p.epoch, rules)
    yield "commits", p._replace(phase="committed"), ended
    if s.breaks:
        sent = (*s.late, (name, p.epoch))
        broken = p._replace(phase="committed", broken=True)
        lost = p._replace(phase="unknown", broken=True)
        yield "commits, and sent it twice", broken, ended._replace(late=sent, breaks=s.breaks - 1)
        yield "commits, and the answer is lost", lost, ended._replace(breaks=s.breaks - 1)
        yield "commits, and it is on its way", lost, s._replace(late=sent, breaks=s.breaks - 1)


def _resume(p: Publisher, rules: Protections, s: State) -> Move:
    if not rules.unknown_is_open:
        done = p._replace(phase="ready", position=_to_position(p.plan[-1]), plan=(), sent=0)
        return "takes it for done and goes on", done, s
    if not rules.reinit_after_unknown:
        return "tries it again", p._replace(phase="planned", sent=0), s
    return "gives the producer up", _to_down(p), s


def _fenced(s: State, p: Publisher, rules: Protections) -> Move:
    if rules.reread_when_fenced or p.starts >= s.starts:
        return "is fenced", _to_down(p), s
    _, p, s = _init(s, p._replace(starts=p.starts + 1), rules, "ready")
    return "is fenced, takes the id back and goes on", p._replace(plan=(), sent=0), s


def _to_position(last: Record) -> Position:
    return Position(last.number, last.uuid, last.place + 1)


def _to_id(p: Publisher, rules: Protections) -> str:
    return "shard" if rules.fixed_id else f"{p.name}{p.starts}"


def _to_down(p: Publisher) -> Publisher:
    return Publisher(p.name, starts=p.starts, generation=p.generation)


def _to_diverged(p: Publisher) -> Publisher:
    return Publisher(p.name, "diverged", starts=p.starts)


# What must hold


def violation(s: State) -> str | None:
    """What is wrong with a state, or None."""
    return _log_violation(s) or _belief_violation(s)


def _log_violation(s: State) -> str | None:
    """What a plain consumer sees that it must not."""
    if s.generation > 1 and s.offsets is None:
        # Nobody reads it before something of it is published.
        return None
    parents = {each.uuid: each.parent for each in s.born}
    seen: set[Record] = set()
    at, passed = s.starts_after, s.begins
    for transaction in s.log:
        own, passed = transaction[passed:], max(0, passed - len(transaction))
        for record in own:
            if record.uuid not in parents:
                return f"a row is visible before its snapshot: {record}"
            if record in seen:
                return f"a row is there twice: {record}"
            seen.add(record)
            expected = (at.number, at.rows) if at.rows < ROWS else (at.number + 1, 0)
            if (record.number, record.place) > expected:
                return f"rows before it are lost: {record}"
            if (record.number, record.place) < expected:
                return f"a row is out of order: {record}"
            if at.uuid != (parents[record.uuid] if record.place == 0 else record.uuid):
                return f"rows of two histories are there: {record}"
            at = Position(record.number, record.uuid, record.place + 1)
        for uuid in {record.uuid for record in own}:
            number = next(record.number for record in own if record.uuid == uuid)
            if number not in s.chunked and sum(record.uuid == uuid for record in own) != ROWS:
                return f"a small snapshot is torn: {uuid}"
    return None


def _belief_violation(s: State) -> str | None:
    """What somebody takes for granted that is not so."""
    end = tail(s)
    may_diverge = s.was_cut or s.histories > 1
    for p in s.publishers:
        if p.phase == "diverged" and not may_diverge:
            return f"{p.name} stopped for a history that is as it was"
        # A zombie that waits will be fenced before it can do anything about what it believes.
        is_fenced = p.generation != s.generation or all(each.epoch != p.epoch for _, each in s.coordinators)
        head = Position(len(s.snapshots), s.snapshots[-1].uuid) if s.snapshots else START
        if p.phase == "ready" and p.position == head != end and not is_fenced and not s.was_cut:
            return f"{p.name} thinks that all is published, and rows are lost: the log ends with {end}"
    if not s.was_cut and s.histories == 1:
        if (s.mirror.number, s.mirror.rows) > (end.number, end.rows):
            return f"the metastore was told of what is not in the log: {s.mirror}"
        if s.expired > end.number:
            return f"a snapshot expired before it was published: {s.expired}"
    return None
