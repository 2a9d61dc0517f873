"""What the service is told by its command line and its environment: the only place that reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.config import ConnectSettings, read_connect_settings
from lakelog.format.tables.table import TableName
from lakelog.serving.arguments import Arguments, OneLineParser, Values, add_arguments, refusal
from lakelog.serving.logging_setup import LEVELS
from lakelog.serving.streams.stream_arguments import (
    add_spark_settings,
    read_spark_log,
    read_spark_master,
    read_spark_settings,
)


@dataclass(frozen=True)
class Config:
    """All that the service needs.

    Args:
        connect: Where the metastore is, who we are, and how files are reached.
        tables: Only these tables' jobs are done; empty: all.
        once: End when nothing is due.
        lease_s: How long a job holds without a heartbeat.
        max_unavailable_s: How long the metastore may be away.
        metrics_port: Of `/metrics` and `/healthz`; None: none.
        metrics_host: Where they listen.
        log_level: One of `LEVELS`.
        spark_master: Where tasks of large compactions run; empty: they are done in this process.
        spark_conf: Settings of Spark.
        spark_log_file: File for what Spark logs; `-`: standard error; None: one in the user's cache.
    """

    connect: ConnectSettings
    tables: tuple[TableName, ...]
    once: bool
    lease_s: float
    max_unavailable_s: float
    metrics_port: int | None
    metrics_host: str
    log_level: str
    spark_master: str
    spark_conf: Mapping[str, str]
    spark_log_file: str | None


_RUN: Final[Arguments] = {
    "target": ("LAKELOG_TARGET", "host:port of the metastore."),
    "tables": (
        "LAKELOG_COMPACTOR_TABLES",
        "Only jobs of these tables, as db.table apart by commas; default: of all tables. All must exist at the start; "
        "one that is dropped later is left out until one of its name is made.",
    ),
    "lease-seconds": (
        "LAKELOG_COMPACTOR_LEASE_SECONDS",
        "After how long without a word from this one another takes its job over; 1 to 3600, default 30.",
    ),
    "patience-seconds": (
        "LAKELOG_COMPACTOR_PATIENCE_SECONDS",
        "How long the metastore may be away before the service ends; default 300.",
    ),
    "metrics-port": (
        "LAKELOG_COMPACTOR_METRICS_PORT",
        "Port of /metrics for Prometheus and /healthz; default: none; 0: a free one.",
    ),
    "metrics-host": ("LAKELOG_COMPACTOR_METRICS_HOST", "Where they listen; default 127.0.0.1."),
    "spark-master": (
        "LAKELOG_COMPACTOR_SPARK_MASTER",
        "Where Spark runs tasks of large compactions, for instance local[4] or spark://host:7077; default: nowhere, "
        "this process does all.",
    ),
    "log-level": ("LAKELOG_LOG_LEVEL", f"One of {', '.join(LEVELS)}; default info."),
}

_EPILOG: Final = """\
exit codes:
  0  stopped by a signal behind the step in hand; --once: all that was due is done
  1  something unexpected; the log tells
  2  the command line does not fit, or the metastore refuses us: starting again cannot help
  7  the metastore was away for too long
  8  a table of --tables does not exist at the start: starting again helps once it is made

A job that fails does not end the service: `lakelog jobs` tells why it failed.
TLS and token: LAKELOG_TLS_CA, LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN, as for the SDK.
"""


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> Config:
    """Reads command line and environment. An argument wins over its variable.

    Raises:
        SystemExit: `--help` was asked for (0), or an argument is not known (2).
        InvalidArgument: A value is not possible.
    """
    given = _parser().parse_args(arguments)
    values = Values(vars(given), environment, _RUN)
    return Config(
        connect=read_connect_settings(
            environment,
            target=values.text("target"),
            tls=None,
            tls_ca=None,
            tls_cert=None,
            tls_key=None,
            token=None,
        ),
        tables=_to_tables(values.text("tables")),
        once=bool(given.once),
        lease_s=values.number("lease_seconds", 30.0, 1.0, 3600.0),
        max_unavailable_s=values.number("patience_seconds", 300.0, 0.0, 1e6),
        metrics_port=values.port("metrics_port"),
        metrics_host=values.text("metrics_host") or "127.0.0.1",
        log_level=values.choice("log_level", "info", LEVELS),
        spark_master=read_spark_master(values, ""),
        spark_conf=read_spark_settings(getattr(given, "spark_conf", None), environment),
        spark_log_file=read_spark_log(getattr(given, "spark_log_file", None), environment),
    )


def read_environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def _parser() -> OneLineParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(
        prog="lakelog compactor",
        description="Does what commits leave to be done.",
        epilog=_EPILOG,
        formatter_class=kind,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="run", parser_class=OneLineParser)
    run = commands.add_parser(
        "run",
        help="Take jobs and do them.",
        description="Takes jobs from the metastore and does them until SIGTERM. Any number of instances share them.",
        epilog=_EPILOG,
        formatter_class=kind,
    )
    add_arguments(run, _RUN)
    add_spark_settings(run)
    run.add_argument("--once", action="store_true", help="End when nothing is due, instead of waiting for more.")
    return parser


def _to_tables(text: str | None) -> tuple[TableName, ...]:
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        # Not all tables: that is what an empty variable of a script would become.
        raise refusal(f"--tables={text!r} names no table: name some as database.table, or leave it out for all tables.")
    found = []
    for name in names:
        database, dot, table = name.partition(".")
        if not (database and dot and table) or "." in table:
            raise refusal(f"--tables {name}: name a table as database.table.")
        found.append(TableName(database, table))
    return tuple(dict.fromkeys(found))
