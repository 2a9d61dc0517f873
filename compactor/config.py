"""Settings of the service: the only place that reads its command line and its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.config import ConnectSettings
from lakelog.format.tables.table import TableName
from lakelog.serving.settings import (
    add_command,
    add_settings,
    connect_settings,
    log_level,
    make_parser,
    read_settings,
    switch,
    tables,
)
from lakelog.serving.streams.stream_arguments import (
    lease_setting,
    max_unavailable_setting,
    metrics_host_setting,
    metrics_port_setting,
    spark_conf_setting,
    spark_log_setting,
    spark_master_setting,
)

_PREFIX: Final = "LAKELOG_COMPACTOR"


@dataclass(frozen=True)
class Config:
    """The settings of the service. With an empty Spark master, large compactions are done in this process."""

    connect: ConnectSettings = connect_settings()
    tables: tuple[TableName, ...] = tables(
        f"{_PREFIX}_TABLES",
        "Only jobs of these tables, as db.a,db.b; default: of all tables. All must exist at the start. A table that is "
        "dropped later is left out until its name is used again.",
    )
    lease_s: float = lease_setting(
        _PREFIX, "How long after its last renewal another compactor takes its job over; 1 to 3600, default 30."
    )
    max_unavailable_s: float = max_unavailable_setting(_PREFIX, "the service")
    metrics_port: int | None = metrics_port_setting(_PREFIX)
    metrics_host: str = metrics_host_setting(_PREFIX)
    spark_master: str = spark_master_setting(
        f"{_PREFIX}_SPARK_MASTER",
        "Where Spark runs tasks of large compactions, for instance local[4] or spark://host:7077; default: without "
        "Spark, in this process.",
        "",
    )
    log_level: str = log_level()
    spark_conf: Mapping[str, str] = spark_conf_setting()
    spark_log_file: str | None = spark_log_setting()
    once: bool = switch("once", "End when nothing is due, instead of waiting for more.")


_EPILOG: Final = """\
exit codes:
  0  stopped by a signal after the current step; --once: all that was due is done
  1  an unexpected error; see the log
  2  the command line does not fit, or the metastore refuses the caller: starting again cannot help
  7  the metastore was away for too long
  8  a table of --tables does not exist at the start: starting again helps once it is made

A job that fails does not end the service: `lakelog jobs` shows why it failed.
TLS and token: LAKELOG_TLS_CA, LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN or LAKELOG_TOKEN_FILE, as
for the SDK.
"""


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> Config:
    """Reads the command line and the environment. An argument takes precedence over its variable.

    Raises:
        SystemExit: `--help` was given (0), or an argument is not known (2).
        InvalidArgument: A value is not valid.
    """
    parser = make_parser("lakelog compactor", "Does the jobs that commits leave.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="run")
    run = add_command(
        commands,
        "run",
        "Take jobs and do them.",
        "Takes jobs from the metastore and does them until SIGTERM. Any number of instances share them.",
        _EPILOG,
    )
    add_settings(run, Config)
    return read_settings(Config, parser.parse_args(arguments), environment)


def read_environment() -> Mapping[str, str]:
    """The environment variables of this process."""
    return os.environ
