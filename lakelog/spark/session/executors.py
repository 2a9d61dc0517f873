"""How many executors a session has: on a cluster they come after it, may all go, and may never come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakelog.clock import Clock

if TYPE_CHECKING:
    from pyspark import SparkContext

EXECUTORS_WITHIN_S: Final = 30.0
"""How long a service that starts waits for executors, to learn how many there are."""

_POLL_S: Final = 0.1
_SETTLED_S: Final = 1.0
"""Executors of a cluster with room for them come together; one that is so much later is not waited for."""

_SIZE_SETTINGS: Final = (("spark.executor.instances", "0"), ("spark.executor.cores", "1"))


def is_on_this_machine(master: str | None) -> bool:
    """Whether a master runs all tasks on the machine of its driver; None: that of a context without one. Pure."""
    return master is None or master.startswith("local")


def count_executors(context: SparkContext) -> int:
    """The executors that run tasks now; on one machine the driver is the only one. Blocks on Java."""
    if is_on_this_machine(context.master):
        return 1
    java: Any = context._jsc
    # The driver is among them.
    return int(java.sc().getExecutorMemoryStatus().size()) - 1


def find_parallelism(context: SparkContext) -> int:
    """The tasks that run at once when all executors have come, as far as settings say how many these are."""
    conf = context.getConf()
    known = int(context.defaultParallelism)
    if is_on_this_machine(context.master) or conf.contains("spark.default.parallelism"):
        return known
    # On Kubernetes they come one after the other, perhaps minutes later.
    count, cores = (conf.get(key) or default for key, default in _SIZE_SETTINGS)
    return max(known, int(count) * int(cores)) if count.isdecimal() and cores.isdecimal() else known


def wait_for_executors(context: SparkContext, clock: Clock, within_s: float) -> int:
    """Waits until executors are there and no more are coming; returns how many there are, 0 if none came in time.

    Before that Spark's `defaultParallelism` is 2, whatever the cluster has.
    """
    give_up_s = clock.monotonic_s() + within_s
    count, changed_s = count_executors(context), clock.monotonic_s()
    while not is_on_this_machine(context.master) and clock.monotonic_s() < give_up_s:
        if count and clock.monotonic_s() - changed_s >= _SETTLED_S:
            break
        clock.sleep(_POLL_S)
        now = count_executors(context)
        if now != count:
            count, changed_s = now, clock.monotonic_s()
    return count
