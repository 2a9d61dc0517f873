"""The options of a table's external log (SEMANTICS.md 4)."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option
from lakelog.options.value_types import Choice

KAFKA: Final = "kafka"
"""The value of `log.system` with which a topic receives a table's changes."""

CHANGELOG: Final = "changelog"
"""The value of `log.content` with which the log holds old and new rows."""

LOG_SYSTEM: Final = Option[str](
    "log.system",
    Choice(("none", KAFKA)),
    "none",
    "The external log that also receives what is written to a table; `none`: there is no such log.",
    fixed_because="the log would lack what was written before; make a new table and copy the rows",
)
LOG_CONTENT: Final = Option[str](
    "log.content",
    Choice(("input", CHANGELOG)),
    "input",
    "What the log holds. `input`: each row as it was written. `changelog`: the changelog by `lookup`, with old and new "
    "rows.",
    fixed_because="whoever reads the log could not tell which of its rows were meant how",
)
