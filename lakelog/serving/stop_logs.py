"""Keeping a stop that was asked for out of the log, where Python's bridge to Java would tell of it as of a failure.

A batch that shall not begin is refused by an error (`batch_gate.Stop`): the only way in which Spark does not take it
for done. The bridge logs that error with all its traces; what Spark does, see `lakelog/spark/engine_log.py`.
"""

from __future__ import annotations

import logging
from typing import Final

from lakelog.serving.batch_gate import Stop

_BRIDGE: Final = "py4j.clientserver"
"""Logs whatever a function raises that Java calls."""


def hold_back_stops() -> None:
    """Has the log of the bridge leave out batches that were refused because of a stop, and nothing else."""
    logging.getLogger(_BRIDGE).addFilter(_is_failure)


def _is_failure(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], Stop))
