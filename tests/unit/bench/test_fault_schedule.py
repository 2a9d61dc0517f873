"""What goes wrong in the fault lab is a function of the seed."""

from __future__ import annotations

from bench.faults.schedule import WEIGHTS, Fault, plan_round
from bench.faults.tables import make_batch


def test_a_seed_gives_the_same_round_again() -> None:
    assert plan_round(7, 1.5, 1.0) == plan_round(7, 1.5, 1.0)
    assert plan_round(7, 1.5, 1.0) != plan_round(8, 1.5, 1.0)


def test_each_fault_comes_within_the_rounds_of_ci_and_bench() -> None:
    orders = [order for seed in range(1, 9) for order in plan_round(seed, 1.5, 1.0)]
    assert {order.fault for order in orders} == set(WEIGHTS) == set(Fault)
    assert all(0 <= order.at_s <= 1.5 for order in orders)


def test_who_is_frozen_for_long_loses_the_lease() -> None:
    orders = [order for seed in range(100) for order in plan_round(seed, 1.5, 1.0)]
    assert min(order.lasts_s for order in orders if order.fault is Fault.FREEZE_PUBLISHER) > 1.0
    assert max(order.lasts_s for order in orders if order.fault is Fault.FREEZE_PUBLISHER_SHORTLY) < 1.0


def test_a_batch_is_the_same_no_matter_who_writes_it_and_its_values_are_its_own() -> None:
    assert make_batch(1, "w", 3, keyed=True).equals(make_batch(1, "w", 3, keyed=True))
    values = [v for number in range(50) for v in make_batch(1, "w", number, keyed=True)["v"].to_pylist()]
    assert len(values) == len(set(values))
    assert {"+I", "-D"} == {
        kind for number in range(50) for kind in make_batch(1, "w", number, keyed=True)["_row_kind"].to_pylist()
    }
