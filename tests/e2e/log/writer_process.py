"""`python -m tests.e2e.log.writer_process TARGET TABLE NAME COUNT`: appends rows, and freezes where it is told.

`LAB_FREEZE_AT` names a point and the how manieth time it is reached: `sent 1` when brokers have the first rows,
before any commit. It exists for tests alone.
"""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa

import lakelog
from lakelog.log.kafka.sending.uncommitted import KafkaUncommittedSender
from tests.e2e.log.publisher_process import reach


def add_points() -> None:
    send = KafkaUncommittedSender.send

    def send_with_point(self: KafkaUncommittedSender, records: Any, attempt_id: str) -> None:
        send(self, records, attempt_id)
        # They wait for more to go with them, and would never leave a process that freezes now.
        assert self._client is not None
        assert self._client.flush(30) == 0
        reach("sent")

    KafkaUncommittedSender.send = send_with_point  # type: ignore[method-assign]


def main(target: str, table: str, name: str, count: int) -> None:
    with lakelog.connect(target) as catalog, catalog.transaction() as tx:
        for number in range(count):
            # Each is a piece of its own for whoever sends.
            tx.table(table).append(pa.table({"k": [number], "v": [f"{name}.{number}"]}))


if __name__ == "__main__":
    add_points()
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
