"""Keeping failed batches out of the log where Python's bridge to Java would tell of them a second time, with traces.

Whatever a batch raises is kept and told by `leased_stream.py` in one line. A batch that shall not begin is refused by
an error (`batch_gate.Stop`), which is no failure at all. The bridge logs both with all traces of Python and Java; what
Spark does, see `lakelog/spark/session/engine_logging.py`.
"""

from __future__ import annotations

import logging
from typing import Final

_BRIDGE: Final = "py4j.clientserver"
"""Logs whatever a function raises that Java calls; in services that is a batch."""


def hold_back_traces() -> None:
    """Has the log of the bridge leave out what batches raised, and nothing else."""
    logging.getLogger(_BRIDGE).addFilter(_is_own)


def _is_own(record: logging.LogRecord) -> bool:
    return not record.exc_info
