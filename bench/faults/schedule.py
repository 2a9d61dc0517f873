"""What goes wrong in a round of the fault lab, and when: a function of its seed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from random import Random
from typing import Final


class Fault(enum.Enum):
    """What somebody does to the lab. Those that freeze last longer than a lease."""

    KILL_PUBLISHER = "a publisher is killed"
    FREEZE_PUBLISHER = "a publisher is frozen for longer than its lease"
    FREEZE_PUBLISHER_SHORTLY = "a publisher is frozen for less than its lease"
    KILL_METASTORE = "the metastore is killed"
    KILL_BROKER = "the broker is killed"
    KILL_WRITER = "a writer is killed"
    FREEZE_WRITER = "a writer is frozen"
    CUT = "connections to the broker are cut"
    HOLD_END = "the end of a transaction comes late, and has been sent again by then"
    LOSE_END_ANSWER = "the answer to the end of a transaction is lost"
    DELAY_ENDS = "ends of transactions take long"


WEIGHTS: Final = {
    Fault.KILL_PUBLISHER: 4,
    Fault.FREEZE_PUBLISHER: 4,
    Fault.FREEZE_PUBLISHER_SHORTLY: 2,
    Fault.KILL_METASTORE: 2,
    Fault.KILL_BROKER: 1,
    Fault.KILL_WRITER: 2,
    Fault.FREEZE_WRITER: 1,
    Fault.CUT: 3,
    Fault.HOLD_END: 6,
    Fault.LOSE_END_ANSWER: 4,
    Fault.DELAY_ENDS: 2,
}


@dataclass(frozen=True)
class Order:
    """A fault and its moment.

    Args:
        at_s: From the beginning of the round.
        fault: What.
        whom: Of several the one with this number, modulo their count.
        lasts_s: How long, where it lasts.
    """

    at_s: float
    fault: Fault
    whom: int
    lasts_s: float


def plan_round(seed: int, seconds: float, lease_s: float) -> list[Order]:
    """Three to five faults, in the order of their moments. Pure.

    Args:
        seed: Decides everything.
        seconds: How long the round is.
        lease_s: For how long a publisher's lease holds.
    """
    dice = Random(seed)
    kinds, weights = zip(*WEIGHTS.items(), strict=True)
    orders = []
    for fault in dice.choices(kinds, weights, k=dice.randint(3, 5)):
        lasts_s = {
            Fault.FREEZE_PUBLISHER: lease_s * dice.uniform(1.2, 2.0),
            Fault.FREEZE_PUBLISHER_SHORTLY: lease_s * dice.uniform(0.1, 0.8),
            Fault.FREEZE_WRITER: dice.uniform(0.1, 1.0),
            Fault.HOLD_END: dice.choice([0.0, 0.02, 0.1, 0.5]) * dice.random(),
            Fault.DELAY_ENDS: dice.uniform(0.1, 0.5),
        }.get(fault, 0.0)
        orders.append(Order(dice.uniform(0.0, seconds), fault, dice.randrange(1 << 16), lasts_s))
    return sorted(orders, key=lambda order: order.at_s)
