"""Opens the log of a table for readers and writers in this process."""

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
    """The log with these options, at the brokers that they name, with this process's secrets.

    Raises:
        InvalidArgument: This process does not know a secret, or the brokers' client library is not installed.
    """
    try:
        from lakelog.log.kafka import open_kafka_log
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f"{explain_missing(error, 'A log', 'kafka')}. Or give 'streaming-read-mode' = 'file'.",
            reason="MISSING_EXTRA",
        ) from None
    return open_kafka_log(options, read_secrets(os.environ))
