"""A program that reads twice from S3 that does not answer: `python -m ... ENDPOINT KEY SECRET`.

First it handles Ctrl-C as Python does, then as the command `lakelog` does.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from typing import Final

import pyarrow as pa

from lakelog.cli.interrupts import leave, silent_interrupts
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.store import S3Settings
from tests.integration.s3.tables import open_catalog
from tests.support.s3.faults import Rule, Silent
from tests.support.s3.proxy import S3Proxy

TIMEOUT_S: Final = 3.0


def main(endpoint: str, key: str, secret: str) -> int:
    """Returns 130 after the second Ctrl-C."""
    proxy = S3Proxy(endpoint)
    settings = S3Settings(proxy.endpoint, "us-east-1", key, secret, timeout_s=TIMEOUT_S)
    with open_catalog(settings, f"s3://lake/{uuid.uuid4().hex}/") as catalog:
        table = catalog.create_table("shop.t", pa.schema([("id", pa.int64())]))
        for number in range(4):
            table.append(pa.table({"id": [number]}))
        proxy.strike(Rule(Silent(), "GET"))
        _scan(table, "plain")
        with silent_interrupts():
            pass
        _scan(table, "handled")
    return 130


def _scan(table: Table, mode: str) -> None:
    threading.Timer(0.5, _say, args=("waits",)).start()
    began_s = time.monotonic()
    try:
        table.scan().to_arrow()
    except KeyboardInterrupt:
        passed = time.monotonic() - began_s >= TIMEOUT_S
        _say(f"{mode}: the calls {'had ended' if passed else 'run on'}")


def _say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    leave(main(*sys.argv[1:]))
