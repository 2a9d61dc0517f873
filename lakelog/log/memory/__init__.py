"""The log in memory: transactions, fencing, aborted records, lost answers and late ends, as a test scripts them."""

from lakelog.log.memory.cluster import MemoryCluster
from lakelog.log.memory.faults import Fault, Step
from lakelog.log.memory.log import MemoryLog

__all__ = ["Fault", "MemoryCluster", "MemoryLog", "Step"]
