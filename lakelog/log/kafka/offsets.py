"""The offsets of the records of snapshots, as the broker has answered."""

from __future__ import annotations

import threading
from typing import Final

from confluent_kafka import KafkaError, Message

from lakelog.errors import InternalError
from lakelog.log.kafka.sending.producing import Delivered

_WAIT_S: Final = 5.0


class DeliveredOffsets:
    """The offset after the last record, by owner and partition, of all records sent while this is used."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._offsets: dict[tuple[int, int], int] = {}
        self._waiting = 0

    def expect(self, owner: int, partition: int) -> Delivered:
        """The callback for the last record of one batch."""
        with self._changed:
            self._waiting += 1

        def note(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            with self._changed:
                self._waiting -= 1
                if error is None and offset is not None:
                    before = self._offsets.get((owner, partition), 0)
                    self._offsets[owner, partition] = max(before, offset + 1)
                self._changed.notify_all()

        return note

    def wait(self) -> dict[int, dict[int, int]]:
        """The offsets by owner and partition, once all that was sent has been answered."""
        with self._changed:
            # The broker has answered the caller; callbacks of the other thread may still be on their way.
            if not self._changed.wait_for(lambda: not self._waiting, _WAIT_S):
                raise InternalError(f"{self._waiting} records were committed, but their offsets were never reported.")
            offsets: dict[int, dict[int, int]] = {}
            for (owner, partition), offset in sorted(self._offsets.items()):
                offsets.setdefault(owner, {})[partition] = offset
            return offsets
