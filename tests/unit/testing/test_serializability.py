"""The checker of serializability, on histories that are known to be good or bad."""

from __future__ import annotations

import dataclasses
import random

import pytest

from lakelog.testing.serializability import Kind, Outcome, Transaction, find_anomalies, trace_registers


def kinds(transactions: list[Transaction], final: dict[str, tuple[str, ...]]) -> set[Kind]:
    return {finding.kind for finding in find_anomalies(transactions, final)}


def test_one_after_the_other_is_fine() -> None:
    history = [
        Transaction("t1", {"x": ()}, {"x": "1"}, "committed", 0, 1),
        Transaction("t2", {"x": ("1",)}, {"x": "2", "y": "3"}, "committed", 2, 3),
        Transaction("t3", {"x": ("1", "2"), "y": ("3",)}, {}, "committed", 4, 5),
    ]
    assert find_anomalies(history, {"x": ("1", "2"), "y": ("3",)}) == []


def test_what_was_never_answered_may_have_happened_or_not() -> None:
    history = [
        Transaction("t1", {}, {"x": "1"}, "unknown", 0),
        Transaction("t2", {}, {"x": "2"}, "unknown", 0),
        Transaction("t3", {"x": ("1",)}, {}, "committed", 5, 6),
    ]
    assert find_anomalies(history, {"x": ("1",)}) == []


def test_an_unanswered_one_that_was_seen_counts_whole() -> None:
    # t1 missed t2's append and t2 missed t1's; only its value says that t2 happened.
    history = [
        Transaction("t1", {"y": ()}, {"x": "1"}, "committed", 0, 9),
        Transaction("t2", {"x": ()}, {"y": "2"}, "unknown", 0),
    ]
    assert kinds(history, {"x": ("1",), "y": ("2",)}) == {Kind.WRITE_SKEW}


@pytest.mark.parametrize(
    ("kind", "history", "final"),
    [
        (Kind.PHANTOM, [Transaction("t1", {"x": ("9",)})], {"x": ("9",)}),
        (
            Kind.ABORTED_READ,
            [Transaction("t1", {}, {"x": "1"}, "refused"), Transaction("t2", {"x": ("1",)})],
            {"x": ("1",)},
        ),
        (Kind.DUPLICATE, [Transaction("t1", {}, {"x": "1"})], {"x": ("1", "1")}),
        (Kind.LOST_APPEND, [Transaction("t1", {}, {"x": "1"})], {"x": ()}),
        (
            Kind.INCOMPATIBLE_ORDER,
            [
                Transaction("t1", {}, {"x": "1"}),
                Transaction("t2", {}, {"x": "2"}),
                Transaction("t3", {"x": ("2", "1")}),
            ],
            {"x": ("1", "2")},
        ),
        (
            Kind.WRITE_CYCLE,
            [Transaction("t1", {}, {"x": "1", "y": "3"}), Transaction("t2", {}, {"x": "2", "y": "4"})],
            {"x": ("1", "2"), "y": ("4", "3")},
        ),
        (
            Kind.INFORMATION_CYCLE,
            [Transaction("t1", {"y": ("2",)}, {"x": "1"}), Transaction("t2", {"x": ("1",)}, {"y": "2"})],
            {"x": ("1",), "y": ("2",)},
        ),
        (
            # A lost update: both read the empty list, and both appended.
            Kind.READ_SKEW,
            [
                Transaction("t1", {"x": ()}, {"x": "1"}, "committed", 0, 9),
                Transaction("t2", {"x": ()}, {"x": "2"}, "committed", 0, 9),
            ],
            {"x": ("1", "2")},
        ),
        (
            # A torn read of two keys that were committed together.
            Kind.READ_SKEW,
            [Transaction("t1", {}, {"x": "1", "y": "2"}), Transaction("t2", {"x": (), "y": ("2",)})],
            {"x": ("1",), "y": ("2",)},
        ),
        (
            Kind.WRITE_SKEW,
            [Transaction("t1", {"y": ()}, {"x": "1"}), Transaction("t2", {"x": ()}, {"y": "2"})],
            {"x": ("1",), "y": ("2",)},
        ),
        (
            Kind.STALE,
            [Transaction("t1", {}, {"x": "1"}, "committed", 0, 1), Transaction("t2", {"x": ()}, {}, "committed", 2, 3)],
            {"x": ("1",)},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_each_anomaly_is_found(kind: Kind, history: list[Transaction], final: dict[str, tuple[str, ...]]) -> None:
    assert kind in kinds(history, final)


def simulate(seed: int, *, snapshots_per_key: bool = False) -> tuple[list[Transaction], dict[str, tuple[str, ...]]]:
    """Transactions one after the other, some of which overlap in time; with `snapshots_per_key` reads are older."""
    rng = random.Random(seed)
    state: dict[str, tuple[str, ...]] = dict.fromkeys("abc", ())
    history = []
    for number in range(60):
        keys = rng.sample("abc", rng.randint(1, 3))
        reads = {key: state[key] for key in keys}
        if snapshots_per_key:
            reads = {key: values[: rng.randint(max(0, len(values) - 2), len(values))] for key, values in reads.items()}
        appends = {key: f"{number}{key}" for key in keys if rng.random() < 0.7}
        outcome: Outcome = rng.choice(("committed", "committed", "unknown"))
        ended_s = None if outcome == "unknown" else number + rng.random() * 3
        history.append(Transaction(f"t{number}", reads, appends, outcome, number - rng.random() * 3, ended_s))
        state |= {key: (*state[key], value) for key, value in appends.items()}
    rng.shuffle(history)
    return history, state


@pytest.mark.parametrize("seed", range(20))
def test_random_serial_histories_are_fine(seed: int) -> None:
    assert find_anomalies(*simulate(seed)) == []


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_with_old_reads_are_not(seed: int) -> None:
    assert kinds(*simulate(seed, snapshots_per_key=True)) & {Kind.READ_SKEW, Kind.WRITE_SKEW, Kind.INFORMATION_CYCLE}


def as_registers(
    history: list[Transaction], final: dict[str, tuple[str, ...]]
) -> tuple[list[Transaction], dict[str, tuple[str, ...]]]:
    """The same transactions on registers, which hold the last value of each list."""
    return [
        dataclasses.replace(each, reads={key: values[-1:] for key, values in each.reads.items()}) for each in history
    ], {key: values[-1:] for key, values in final.items()}


@pytest.mark.parametrize("seed", range(20))
def test_registers_are_traced_to_the_lists_of_what_they_held(seed: int) -> None:
    history, final = simulate(seed)
    assert trace_registers(*as_registers(history, final), "abc") == (history, final)
    old = trace_registers(*as_registers(*simulate(seed, snapshots_per_key=True)), "abc")
    assert kinds(*old) & {Kind.READ_SKEW, Kind.WRITE_SKEW, Kind.INFORMATION_CYCLE, Kind.LOST_APPEND}


def test_a_register_whose_value_was_overwritten_unseen_is_a_lost_update() -> None:
    history = [
        Transaction("t1", {"x": (), "y": ()}, {"x": "1", "y": "a"}),
        Transaction("t2", {"x": ()}, {"x": "2"}),
    ]
    lists, final = trace_registers(history, {"x": ("2",), "y": ("a",)}, {"x"})
    assert (lists, final) == (history, {"x": ("2",), "y": ("a",)})
    assert kinds(lists, final) == {Kind.LOST_APPEND}
    # Values in a circle do not make it go on for ever.
    circle = [Transaction("t1", {"x": ("2",)}, {"x": "1"}), Transaction("t2", {"x": ("1",)}, {"x": "2"})]
    assert Kind.DUPLICATE in kinds(*trace_registers(circle, {"x": ("2",)}, {"x"}))


@pytest.mark.timeout(20)
def test_long_histories_of_a_register_take_no_longer_than_their_lists() -> None:
    """Searched from one end to the other for each value, this took minutes."""
    count = 2500
    values = [str(number) for number in range(count)]
    history = [
        Transaction(f"t{n}", {"x": tuple(values[n - 1 : n]) if n else ()}, {"x": values[n]}) for n in range(count)
    ]
    lists, final = trace_registers(history, {"x": (values[-1],)}, {"x"})
    assert (lists[-1].reads["x"], final["x"]) == (tuple(values[:-1]), tuple(values))
