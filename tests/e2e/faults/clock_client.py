"""A client as a process of its own: for each number on its input it writes a row, sees it come back, and compacts.

Run as `python -m tests.e2e.faults.clock_client <metastore> <reader> <table>`; it prints each number that is done. All
rows that its subscription showed are printed in the end, after the word `seen`.
"""

from __future__ import annotations

import json
import queue
import sys
import threading

import pyarrow as pa

import lakelog

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
WITHIN_S = 60.0


def main(target: str, reader: str, name: str) -> None:
    seen: list[int] = []
    arrived: queue.SimpleQueue[int] = queue.SimpleQueue()
    with lakelog.connect(target, reader=reader) as catalog:
        table = catalog.table(name)
        subscription = table.subscribe()

        def follow() -> None:
            for batch in subscription:
                for value in batch.data.column("v").to_pylist():
                    arrived.put(value)

        threading.Thread(target=follow, daemon=True).start()
        for line in sys.stdin:
            number = int(line)
            table.upsert(pa.table({"k": [number], "v": [number]}, schema=SCHEMA), writer="w", identifier=number)
            while not seen or seen[-1] != number:
                seen.append(arrived.get(timeout=WITHIN_S))
            table.compact(full=True, timeout=WITHIN_S)
            say(str(number))
        subscription.close()
    say(f"seen {json.dumps(seen)}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
