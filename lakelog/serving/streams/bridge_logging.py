"""Keeps failed batches out of the log of Python's bridge to Java, which would repeat them with traces.

`leased_stream.py` keeps the error of a batch and logs it in one line. A batch that must not begin is refused with an
error (`batch_gate.Stop`), which is no failure at all. The bridge logs both with all traces of Python and Java. For
Spark's own log see `lakelog/spark/session/engine_logging.py`.
"""

from __future__ import annotations

import logging
from typing import Final

_BRIDGE: Final = "py4j.clientserver"
"""This logger gets every error of a function that Java calls; in services that is a batch."""


def hold_back_traces() -> None:
    """Removes the errors of batches from the bridge's log, and nothing else."""
    logging.getLogger(_BRIDGE).addFilter(_is_own)


def _is_own(record: logging.LogRecord) -> bool:
    return not record.exc_info
