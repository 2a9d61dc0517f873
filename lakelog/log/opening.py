"""Opening the log of a table for whoever reads or writes in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from lakelog.errors import InvalidArgument
from lakelog.extras import explain_missing
from lakelog.log.protocol import Log
from lakelog.log.secrets import read_secrets

LogOpener = Callable[[Mapping[str, str]], Log]
"""Opens the log of a table with these options."""


def open_table_log(options: Mapping[str, str]) -> Log:
    """The log with these options, by the brokers that they name, with the secrets of this process.

    Raises:
        InvalidArgument: A secret is not known to this process, or the client of the brokers is not installed.
    """
    try:
        from lakelog.log.kafka import open_kafka_log
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f"{explain_missing(error, 'A log', 'kafka')}. Or give 'streaming-read-mode' = 'file'.",
            reason="MISSING_EXTRA",
        ) from None
    return open_kafka_log(options, read_secrets(os.environ))
