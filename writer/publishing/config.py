"""What `lakelog publisher run` is told by its command line and its environment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakelog.config import ConnectSettings, read_connect_settings
from lakelog.format.tables.table import TableName
from lakelog.serving.arguments import Arguments, Values, add_arguments, refusal
from lakelog.serving.logging_setup import LEVELS


@dataclass(frozen=True)
class PublishConfig:
    """All that the publisher needs.

    Args:
        connect: Where the metastore is, who we are, and how files are reached.
        tables: Only these tables are published; empty: all that have a log.
        lease_s: How long a table is ours without a word.
        max_unavailable_s: How long the metastore may be away.
        stuck_s: After how long a step that does not come back ends the process.
        metrics_port: Of `/metrics` and `/healthz`; None: none.
        metrics_host: Where they listen.
        log_level: One of `LEVELS`.
    """

    connect: ConnectSettings
    tables: frozenset[TableName]
    lease_s: float
    max_unavailable_s: float
    stuck_s: float
    metrics_port: int | None
    metrics_host: str
    log_level: str


_PUBLISH: Final[Arguments] = {
    "target": ("LAKELOG_TARGET", "host:port of the metastore."),
    "tables": (
        "LAKELOG_PUBLISHER_TABLES",
        "Publish only these tables, as db.table apart by commas; default: all that have a log.",
    ),
    "lease-seconds": (
        "LAKELOG_PUBLISHER_LEASE_SECONDS",
        "After how long without a word from this one another takes its tables over; 1 to 3600, default 3.",
    ),
    "patience-seconds": (
        "LAKELOG_PUBLISHER_PATIENCE_SECONDS",
        "How long the metastore may be away before the publisher ends; default 300.",
    ),
    "stuck-seconds": (
        "LAKELOG_PUBLISHER_STUCK_SECONDS",
        "The process ends where brokers or files do not answer for so long; 10 to 3600, default 300.",
    ),
    "metrics-port": (
        "LAKELOG_PUBLISHER_METRICS_PORT",
        "Port of /metrics for Prometheus and /healthz; default: none; 0: a free one.",
    ),
    "metrics-host": ("LAKELOG_PUBLISHER_METRICS_HOST", "Where they listen; default 127.0.0.1."),
    "log-level": ("LAKELOG_LOG_LEVEL", f"One of {', '.join(LEVELS)}; default info."),
}

EPILOG: Final = """\
exit codes:
  0  stopped by a signal behind the transactions in hand
  1  something unexpected; the log tells
  2  the command line does not fit, or the metastore refuses us: starting again cannot help
  7  the metastore was away for too long
  9  brokers or files did not answer for too long; start it again

A table that cannot be published does not end it: `lakelog log status` tells why it stands still.
Secrets that tables refer to as secret:NAME: LAKELOG_SECRET_<NAME>, or a file NAME in the folder LAKELOG_SECRETS_DIR.
"""


def add_publish_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what `publish` takes."""
    add_arguments(parser, _PUBLISH)


def read_publish_config(given: Mapping[str, Any], environment: Mapping[str, str]) -> PublishConfig:
    """Reads what was given; InvalidArgument: a value is not possible."""
    values = Values(given, environment, _PUBLISH)
    return PublishConfig(
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
        lease_s=values.number("lease_seconds", 3.0, 1.0, 3600.0),
        max_unavailable_s=values.number("patience_seconds", 300.0, 0.0, 1e6),
        stuck_s=values.number("stuck_seconds", 300.0, 10.0, 3600.0),
        metrics_port=values.port("metrics_port"),
        metrics_host=values.text("metrics_host") or "127.0.0.1",
        log_level=values.choice("log_level", "info", LEVELS),
    )


def _to_tables(text: str | None) -> frozenset[TableName]:
    if text is None:
        return frozenset()
    found = set()
    for name in filter(None, (part.strip() for part in text.split(","))):
        database, dot, table = name.partition(".")
        if not (database and dot and table) or "." in table:
            raise refusal(f"--tables {name}: name a table as database.table.")
        found.add(TableName(database, table))
    if not found:
        # Not all tables: that is what an empty variable of a script would become.
        raise refusal(f"--tables={text!r} names no table: name some as database.table, or leave it out for all tables.")
    return frozenset(found)
