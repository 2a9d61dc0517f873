"""Settings of `lakelog publisher run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.config import ConnectSettings
from lakelog.format.tables.table import TableName
from lakelog.serving.settings import (
    add_settings,
    connect_settings,
    log_level,
    make_parser,
    number,
    read_settings,
    tables,
)
from lakelog.serving.streams.stream_arguments import (
    lease_setting,
    max_unavailable_setting,
    metrics_host_setting,
    metrics_port_setting,
)

_PREFIX: Final = "LAKELOG_PUBLISHER"


@dataclass(frozen=True)
class PublishConfig:
    """The settings of the publisher. Without tables it publishes all that have a log."""

    connect: ConnectSettings = connect_settings()
    tables: tuple[TableName, ...] = tables(
        f"{_PREFIX}_TABLES", "Publish only these tables, as db.a,db.b; default: all that have a log."
    )
    lease_s: float = lease_setting(
        _PREFIX,
        "How long after its last renewal another publisher takes its tables over; 1 to 3600, default 3.",
        3.0,
    )
    max_unavailable_s: float = max_unavailable_setting(_PREFIX, "the publisher")
    stuck_s: float = number(
        "stuck-seconds",
        f"{_PREFIX}_STUCK_SECONDS",
        "The process ends if brokers or files do not answer for so long; 10 to 3600, default 300.",
        300.0,
        10.0,
        3600.0,
    )
    metrics_port: int | None = metrics_port_setting(_PREFIX)
    metrics_host: str = metrics_host_setting(_PREFIX)
    log_level: str = log_level()


_EPILOG: Final = """\
exit codes:
  0  stopped by a signal after the current transactions
  1  an unexpected error; see the log
  2  the command line does not fit, or the metastore refuses the caller: starting again cannot help
  7  the metastore was away for too long
  9  brokers or files did not answer for too long; start it again

A table that cannot be published does not end the service: `lakelog log status` says why.
Secrets that tables name as secret:NAME: LAKELOG_SECRET_<NAME>, or a file NAME in the folder LAKELOG_SECRETS_DIR.
"""


def parse_publish_config(arguments: Sequence[str], environment: Mapping[str, str]) -> PublishConfig:
    """Reads the command line and the environment; raises the errors of `writer.config.parse_config`."""
    parser = make_parser(
        "lakelog publisher run",
        "Sends the commits of tables with a log to their topics, each snapshot once and after its commit, "
        "until SIGTERM. Any number of instances share the tables.",
        _EPILOG,
    )
    add_settings(parser, PublishConfig)
    return read_settings(PublishConfig, parser.parse_args(arguments), environment)
