"""`python -m tests.e2e.log.publisher_process publish ...`: the writer service, which dies or freezes where it is told.

`LAB_KILL_AT` and `LAB_FREEZE_AT` name a point and the how manieth time it is reached, as `committed 2`; `LAB_OFF` a
protection that is left out. They exist for these tests alone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from lakelog.log.kafka.sending.producer import KafkaProducer
from writer.__main__ import main
from writer.publishing import publisher
from writer.publishing.recovery import find_resume

_passed: Counter[str] = Counter()


def reach(point: str) -> None:
    _passed[point] += 1
    here = f"{point} {_passed[point]}"
    if here == os.environ.get("LAB_KILL_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
    if here == os.environ.get("LAB_FREEZE_AT"):
        os.kill(os.getpid(), signal.SIGSTOP)
        # SUBTLE: another thread may take the signal, and this one runs on until the stop reaches it.
        time.sleep(0.3)


def add_points() -> None:
    commit = KafkaProducer.commit

    def commit_with_points(self: KafkaProducer, position: Any) -> Any:
        reach("commit")
        result = commit(self, position)
        reach("committed")
        return result

    KafkaProducer.commit = commit_with_points  # type: ignore[method-assign]


def leave_out(protection: str) -> None:
    names = vars(publisher)
    if protection == "one_id":
        names["to_transactional_id"] = lambda info: f"lakelog-{info.table_uuid}-{os.getpid()}"
    elif protection == "position_of_the_log":
        names["find_resume"] = lambda info, known, history: find_resume(
            info, replace(known, position=None, tail=()), history
        )
    else:
        assert not protection, f"there is no {protection}"


if __name__ == "__main__":
    add_points()
    leave_out(os.environ.get("LAB_OFF", ""))
    sys.exit(main(sys.argv[1:]))
