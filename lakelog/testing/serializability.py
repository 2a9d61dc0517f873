"""Finds anomalies in histories of transactions, after the list-append and register tests of Elle. Pure.

Each key holds a list. A transaction reads lists and appends values, each of which is unique in the whole history. So a
list that was read shows which transactions came before, in which order, and that order must be one that transactions
one after the other could have had. Edges between transactions say who came first:

- *ww*: one appended to a key right before the other did;
- *wr*: the other read what the one appended;
- *rw*: one read a list before the other appended to it;
- *time*: one was answered before the other began. With these edges the order is that of a strict serializability.

A register holds one value instead. Each transaction that writes it has read it before, so what its values replaced is
known, and `trace_registers` turns it into a list.

A cycle of edges is an anomaly, and its kind says what users would see (Adya's names). Source: Kingsbury and Alvaro,
"Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 14 (2020).
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal, TypeAlias

Key: TypeAlias = str
Outcome = Literal["committed", "refused", "unknown"]
Edge = Literal["ww", "wr", "rw", "time"]


@dataclass(frozen=True)
class Transaction:
    """What a client did.

    Args:
        name: Unique in the history.
        reads: The lists that it read, by key, before it appended anything.
        appends: The value that it appended, by key; unique in the history.
        outcome: The last answer; `refused` means that certainly nothing happened.
        began_s: When it began, on a clock that all clients share.
        ended_s: When its answer came; None: never.
    """

    name: str
    reads: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    appends: Mapping[Key, str] = field(default_factory=dict)
    outcome: Outcome = "committed"
    began_s: float = 0.0
    ended_s: float | None = None


class Kind(enum.Enum):
    """What can be wrong with a history."""

    PHANTOM = "a value is there that no transaction appended"
    ABORTED_READ = "a value is there whose transaction was refused (G1a)"
    DUPLICATE = "a value is in a list twice"
    LOST_APPEND = "an acknowledged value is not in the final list"
    INCOMPATIBLE_ORDER = "two lists of a key are not one the beginning of the other"
    WRITE_CYCLE = "transactions overwrote each other in a circle (G0)"
    INFORMATION_CYCLE = "transactions saw each other in a circle (G1c)"
    READ_SKEW = "a transaction missed another one, and saw what came after it (G-single; a lost update is one)"
    WRITE_SKEW = "transactions missed each other in a circle (G2)"
    STALE = "a transaction missed another one that was answered before it began"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.kind.value}: {self.detail}"


def find_anomalies(transactions: Sequence[Transaction], final: Mapping[Key, tuple[str, ...]]) -> list[Finding]:
    """Finds anomalies of a history of list-append transactions.

    Args:
        transactions: All that were ever begun, in any order; of a repeated one its last answer.
        final: The list of each key at the end, when no transaction was open.

    Returns:
        The anomalies; of cycles one of each kind, the worst first. Empty: the history is strictly serializable.
    """
    appended = {(key, value): each for each in transactions for key, value in each.appends.items()}
    findings = list(_check_values(transactions, final, appended))
    orders, broken = _find_orders(transactions, final)
    findings += broken
    # What was not answered took effect if its value is there.
    visible = {name for key, order in orders.items() for value in order if (name := _writer(appended, key, value))}
    counted = [each for each in transactions if each.outcome == "committed" or each.name in visible]
    return findings + _find_cycles(_connect(counted, orders, appended), counted)


def trace_registers(
    transactions: Sequence[Transaction], final: Mapping[Key, tuple[str, ...]], registers: Collection[Key]
) -> tuple[list[Transaction], dict[Key, tuple[str, ...]]]:
    """Turns registers into lists: each value is appended to those that its transaction replaced.

    Args:
        transactions: All; a register that was read has one value or none, and `appends` are the values that replace it.
        final: The value or list of each key at the end.
        registers: The keys that are registers; each transaction that writes one has read it.

    Returns:
        The same transactions and the same end, for `find_anomalies`.
    """
    replaced = {
        (key, value): each.reads[key]
        for each in transactions
        for key, value in each.appends.items()
        if key in registers
    }

    def trace(key: Key, values: tuple[str, ...]) -> tuple[str, ...]:
        if key not in registers:
            return values
        found: list[str] = []
        seen: set[str] = set()
        while values:
            found += values
            # A value that replaced itself, by way of others, is shown twice.
            before = () if values[-1] in seen else replaced.get((key, values[-1]), ())
            seen.update(values)
            values = before
        return tuple(reversed(found))

    def trace_all(lists: Mapping[Key, tuple[str, ...]]) -> dict[Key, tuple[str, ...]]:
        return {key: trace(key, values) for key, values in lists.items()}

    return [replace(each, reads=trace_all(each.reads)) for each in transactions], trace_all(final)


def _writer(appended: Mapping[tuple[Key, str], Transaction], key: Key, value: str) -> str | None:
    transaction = appended.get((key, value))
    return None if transaction is None else transaction.name


def _all_lists(
    transactions: Sequence[Transaction], final: Mapping[Key, tuple[str, ...]]
) -> Iterator[tuple[Key, tuple[str, ...], str]]:
    for key, values in final.items():
        yield key, values, "the end"
    for transaction in transactions:
        for key, values in transaction.reads.items():
            yield key, values, transaction.name


def _check_values(
    transactions: Sequence[Transaction],
    final: Mapping[Key, tuple[str, ...]],
    appended: Mapping[tuple[Key, str], Transaction],
) -> Iterator[Finding]:
    reported = set()
    for key, values, reader in _all_lists(transactions, final):
        for value, times in Counter(values).items():
            writer = appended.get((key, value))
            kind = None
            if writer is None:
                kind = Kind.PHANTOM
            elif writer.outcome == "refused":
                kind = Kind.ABORTED_READ
            elif times > 1:
                kind = Kind.DUPLICATE
            if kind and (kind, key, value) not in reported:
                reported.add((kind, key, value))
                yield Finding(kind, f"{value} in {key}, as read by {reader}")
    for (key, value), writer in appended.items():
        if writer.outcome == "committed" and value not in final.get(key, ()):
            yield Finding(Kind.LOST_APPEND, f"{value} in {key}, of {writer.name}")


def _find_orders(
    transactions: Sequence[Transaction], final: Mapping[Key, tuple[str, ...]]
) -> tuple[dict[Key, tuple[str, ...]], list[Finding]]:
    """The longest list of each key, and where others are not its beginning."""
    longest: dict[Key, tuple[tuple[str, ...], str]] = {}
    for key, values, reader in _all_lists(transactions, final):
        if len(values) > len(longest.get(key, ((), ""))[0]) or key not in longest:
            longest[key] = values, reader
    findings = []
    for key, values, reader in _all_lists(transactions, final):
        order, by = longest[key]
        if order[: len(values)] != values:
            findings.append(
                Finding(Kind.INCOMPATIBLE_ORDER, f"{key}: {reader} read {list(values)}, {by} {list(order)}")
            )
    return {key: order for key, (order, _) in longest.items()}, findings


_Graph: TypeAlias = dict[tuple[str, str], set[Edge]]


def _connect(
    transactions: Sequence[Transaction],
    orders: Mapping[Key, tuple[str, ...]],
    appended: Mapping[tuple[Key, str], Transaction],
) -> _Graph:
    """All edges but those of time: from the earlier transaction to the later one."""
    graph: _Graph = defaultdict(set)
    writers = {key: [_writer(appended, key, value) for value in order] for key, order in orders.items()}

    def add(before: str | None, after: str | None, edge: Edge) -> None:
        if before and after and before != after:
            graph[before, after].add(edge)

    for each in writers.values():
        for before, after in itertools.pairwise(each):
            add(before, after, "ww")
    for transaction in transactions:
        for key, values in transaction.reads.items():
            if orders[key][: len(values)] != values:
                continue
            if values:
                add(writers[key][len(values) - 1], transaction.name, "wr")
            if len(values) < len(orders[key]):
                add(transaction.name, writers[key][len(values)], "rw")
    return graph


def _find_cycles(graph: _Graph, transactions: Sequence[Transaction]) -> list[Finding]:
    """The worst cycle, if there is one."""
    informed = [pair for pair, edges in graph.items() if edges & {"ww", "wr"}]
    for kind, pairs in (
        (Kind.WRITE_CYCLE, [pair for pair, edges in graph.items() if "ww" in edges]),
        (Kind.INFORMATION_CYCLE, informed),
    ):
        if cycle := _find_cycle(pairs):
            return [Finding(kind, _show(cycle, graph))]
    if cycle := _find_cycle(graph):
        if skew := _find_read_skew(informed, graph):
            return [Finding(Kind.READ_SKEW, _show(skew, graph))]
        return [Finding(Kind.WRITE_SKEW, _show(cycle, graph))]
    if cycle := _find_cycle(graph, transactions):
        return [Finding(Kind.STALE, _show([name for name in cycle if not name.startswith(_INSTANT)], graph))]
    return []


def _show(cycle: Sequence[str], graph: _Graph) -> str:
    steps = itertools.pairwise(cycle)
    return cycle[0] + "".join(f" -{min(graph.get(step) or {'time'})}-> {step[1]}" for step in steps)


def _find_read_skew(informed: Collection[tuple[str, str]], graph: _Graph) -> list[str]:
    """A cycle with a single edge *rw*, the first one."""
    following: dict[str, list[str]] = defaultdict(list)
    for before, after in informed:
        following[before].append(after)
    for missing, missed in graph:
        came_from = {missed: missing}
        waiting = [missed]
        while waiting and missing not in came_from:
            name = waiting.pop()
            for after in following[name]:
                if after not in came_from:
                    came_from[after] = name
                    waiting.append(after)
        if missing in came_from:
            path = [missing]
            while path[-1] != missed:
                path.append(came_from[path[-1]])
            return [missing, *path[::-1]]
    return []


_INSTANT = "\0"
"""What names of instants begin with."""


def _find_cycle(pairs: Collection[tuple[str, str]], timed: Sequence[Transaction] = ()) -> list[str]:
    """A cycle as names, the first one again at the end; empty: there is none.

    Edges of time would be as many as pairs of transactions. So instants stand in between: each answer leads to the
    next instant, each instant to the one after it, and to what begins then.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for before, after in pairs:
        sorter.add(after, before)
    # At the same moment what begins comes first: it may have been before the answer.
    events = sorted(
        [(each.began_s, 0, each.name) for each in timed]
        + [(each.ended_s, 1, each.name) for each in timed if each.ended_s is not None and each.outcome == "committed"]
    )
    last = ""
    for number, (_, ends, name) in enumerate(events):
        if ends:
            instant = f"{_INSTANT}{number}"
            sorter.add(instant, name, *([last] if last else []))
            last = instant
        elif last:
            sorter.add(name, last)
    try:
        sorter.prepare()
    except CycleError as error:
        # In Python's order: each is a predecessor of the next one.
        return list(error.args[1])
    return []
