"""The SDK for asyncio: the names and arguments of the blocking one, and an event loop that never waits.

Begin with `connect`. All else is made by the catalog. Errors are those of `lakelog.errors`.
"""

from lakelog.aio.connecting import connect
from lakelog.aio.outcome import Effects, Outcome, find_outcome
from lakelog.aio.scans import Scan, SystemScan
from lakelog.aio.sdk.catalog import Catalog
from lakelog.aio.sdk.system_table import SystemTable
from lakelog.aio.sdk.table import Table
from lakelog.aio.sdk.transaction import Transaction
from lakelog.aio.sdk.transaction_table import TransactionTable
from lakelog.aio.subscription import Subscription

__all__ = [
    "Catalog",
    "Effects",
    "Outcome",
    "Scan",
    "Subscription",
    "SystemScan",
    "SystemTable",
    "Table",
    "Transaction",
    "TransactionTable",
    "connect",
    "find_outcome",
]
