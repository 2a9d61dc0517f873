"""A separate program that counts flights from their changes alone: `python -m lakelog.demo.subscriber`.

It stores no old rows: a change brings the row that it removes. One file holds the numbers and their snapshot. It is
replaced as a whole, so a kill at any moment neither loses a change nor counts one twice.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lakelog
from lakelog.errors import LakelogError

if TYPE_CHECKING:
    from lakelog.reads.streams.batch import StreamBatch

CONSUMER = "delays"


@dataclass
class Numbers:
    """The subscriber's numbers.

    Args:
        snapshot_id: The last snapshot that they include; 0: none yet.
        by_status: Flights of each status; `departed` are in the air.
        arrivals: Flights that arrived, by carrier.
        delay_minutes: Their delays in all, by carrier.
    """

    snapshot_id: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)
    delay_minutes: dict[str, int] = field(default_factory=dict)

    def add(self, changes: pa.RecordBatch) -> None:
        """Counts changes: `+I` and `+U` add, `-U` and `-D` subtract."""
        signs = np.where(pc.starts_with(changes.column("_row_kind"), "+").to_numpy(zero_copy_only=False), 1, -1)
        delay = changes.column("arr_delay")
        table = pa.table(
            {
                "status": changes.column("status"),
                "carrier": changes.column("carrier"),
                "flights": signs,
                "arrivals": signs * pc.is_valid(delay).to_numpy(zero_copy_only=False),
                "minutes": signs * delay.fill_null(0).to_numpy(),
            }
        )
        for numbers, key, value in (
            (self.by_status, "status", "flights"),
            (self.arrivals, "carrier", "arrivals"),
            (self.delay_minutes, "carrier", "minutes"),
        ):
            grouped = table.group_by(key).aggregate([(value, "sum")])
            for name, amount in zip(*(grouped.column(i).to_pylist() for i in (key, f"{value}_sum")), strict=True):
                numbers[name] = numbers.get(name, 0) + amount


def read_numbers(file: Path) -> Numbers:
    """The last saved numbers."""
    return Numbers(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else Numbers()


def write_numbers(numbers: Numbers, file: Path) -> None:
    """Replaces the file as a whole."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(asdict(numbers)), encoding="utf-8")
    os.replace(part, file)


def main(target: str, file: Path) -> int:
    """Follows the flights until it is killed."""
    numbers = read_numbers(file)
    table = lakelog.connect(target).table("nyc.flights")
    with table.subscribe(
        "from-snapshot",
        CONSUMER,
        auto_commit=False,
        columns=["carrier", "status", "arr_delay"],
        options={"scan.snapshot-id": numbers.snapshot_id + 1},
    ) as stream:
        waiting: list[StreamBatch] = []
        for batch in stream:
            # The snapshot is counted already if a kill came between the file and the position.
            if batch.snapshot_id > numbers.snapshot_id:
                waiting.append(batch)
            if not stream.is_whole:
                continue
            for each in waiting:
                numbers.add(each.data)
                numbers.snapshot_id = each.snapshot_id
            waiting = []
            write_numbers(numbers, file)
            stream.commit()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], Path(sys.argv[2])))
    except LakelogError as error:
        sys.stderr.write(f"{error.message}\n")
        sys.exit(1)
