"""What the service is told by its command line and its environment: the only place that reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from lakelog.client.connection.target import DEFAULT_PORT, Target
from lakelog.errors import InvalidArgument
from lakelog.log.secrets import SECRET_VARIABLE, SECRETS_FOLDER_VARIABLE, Secrets
from lakelog.options import KAFKA_SERVERS
from lakelog.serving.access import Access
from lakelog.serving.arguments import OneLineParser, Values, add_arguments, refusal, shown
from lakelog.serving.listening import ServerTls
from lakelog.serving.logging_setup import LEVELS
from lakelog.serving.server_arguments import read_access, read_listen, read_tls

from .postgres.store import Durability
from .server.startup import as_startup_failure, normalize_warehouse, to_libpq_url


@dataclass(frozen=True)
class ServeConfig:
    """All that `serve` and `check` need.

    Args:
        database_url: With its secrets: never shown or logged.
        warehouse: URI without a slash at its end.
        listen: Where the gRPC server listens; port 0 for a free one.
        metrics_port: Of /metrics and /healthz; None: none; 0 for a free one.
        insecure_dev: Plaintext on loopback.
        tls: Files of the server; None only with `insecure_dev`.
        access: How callers are recognized.
        wait_for_database_s: How long to wait for the database at start.
        database_connections: Largest number of connections to it.
        durability: Whether commits that were acknowledged may be lost.
        grace_s: How long running calls may take when the service ends.
        max_calls: Calls and streams that may be open at once.
        log_level: One of `LEVELS`.
        dropped_retention_s: For how long dropped tables can be restored.
        kafka_clusters: Brokers that tables may name, of each cluster; none: no table may have a log.
        secrets: What tables' options name.
    """

    database_url: str
    warehouse: str
    listen: Target
    metrics_port: int | None
    insecure_dev: bool
    tls: ServerTls | None
    access: Access
    wait_for_database_s: float
    database_connections: int
    durability: Durability
    grace_s: float
    max_calls: int
    log_level: str
    dropped_retention_s: float
    kafka_clusters: tuple[tuple[str, ...], ...]
    secrets: Secrets


@dataclass(frozen=True)
class MigrateConfig:
    """All that `migrate` needs."""

    database_url: str
    wait_for_database_s: float
    log_level: str


@dataclass(frozen=True)
class Command:
    """What to do: `serve` or `check` with a ServeConfig, `migrate` with a MigrateConfig."""

    name: str
    config: ServeConfig | MigrateConfig


def parse_command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Reads command line and environment. An argument wins over its variable.

    Raises:
        SystemExit: `--help` was asked for (0), or an argument is not known (2).
        StartupFailure: A value is missing or wrong.
    """
    given = _parser().parse_args(arguments)
    try:
        return _to_command(given, Values(vars(given), environment, _DATABASE | _SERVE), environment)
    except InvalidArgument as error:
        raise as_startup_failure(error) from error


def _to_command(given: argparse.Namespace, values: Values, environment: Mapping[str, str]) -> Command:
    url = to_libpq_url(values.required("database_url"))
    wait_s = values.number("wait_for_database", 0.0, 0)
    level = values.choice("log_level", "info", LEVELS)
    if given.command == "migrate":
        return Command("migrate", MigrateConfig(url, wait_s, level))
    insecure = values.flag("insecure_dev", _INSECURE[0])
    tls = read_tls(values, insecure)
    listen = read_listen(values, insecure, DEFAULT_PORT)
    metrics_port = values.text("metrics_port")
    return Command(
        given.command,
        ServeConfig(
            database_url=url,
            warehouse=normalize_warehouse(values.required("warehouse")),
            listen=listen,
            metrics_port=None if metrics_port is None else _port("metrics_port", metrics_port),
            insecure_dev=insecure,
            tls=tls,
            access=read_access(values, insecure, tls, certificate_use="callers with certificates"),
            wait_for_database_s=wait_s,
            database_connections=int(values.number("database_connections", 10, 2)),
            durability=_read_durability(values),
            grace_s=values.number("grace", 20.0, 0),
            max_calls=int(values.number("max_calls", 2000, 1)),
            log_level=level,
            dropped_retention_s=values.number("dropped_table_retention", 86_400, 0),
            kafka_clusters=_read_clusters(values.text("kafka_brokers") or ""),
            secrets=Secrets(environment, values.text("secrets_dir")),
        ),
    )


# Argument -> (its variable, what it is for). Shown by --help.
_DATABASE: Final = {
    "database-url": (
        "LAKELOG_DATABASE_URL",
        "Postgres: postgresql://user:password@host:port/database. Best given by its variable, which other users of the "
        "machine cannot read.",
    ),
    "wait-for-database": ("LAKELOG_WAIT_FOR_DATABASE", "Seconds to wait for the database at start; default 0."),
    "log-level": ("LAKELOG_LOG_LEVEL", f"One of {', '.join(LEVELS)}; default info; debug also logs reads."),
}
_SERVE: Final = {
    "warehouse": ("LAKELOG_WAREHOUSE", "Where tables are kept: an absolute path, file:///path or s3://bucket/prefix."),
    "listen": (
        "LAKELOG_LISTEN",
        f"host:port of the gRPC server; default 127.0.0.1:{DEFAULT_PORT}; port 0: a free one.",
    ),
    "metrics-port": (
        "LAKELOG_METRICS_PORT",
        "Port of /metrics and /healthz over HTTP, on the host of --listen; default: none; 0: a free one.",
    ),
    "tls-cert": ("LAKELOG_SERVER_TLS_CERT", "The server's certificate with its chain, PEM."),
    "tls-key": ("LAKELOG_SERVER_TLS_KEY", "The private key of --tls-cert, PEM."),
    "tls-client-ca": (
        "LAKELOG_SERVER_TLS_CLIENT_CA",
        "Clients must show a certificate signed by one of these, PEM. Without --token-file each such certificate is an "
        "admin's.",
    ),
    "token-file": (
        "LAKELOG_TOKEN_FILE",
        "Who may call: a line `<name> reader|writer|admin <token>` each, or `cert` instead of the token for the client "
        "certificate with that common name.",
    ),
    "database-connections": ("LAKELOG_DATABASE_CONNECTIONS", "Most connections to the database; default 10."),
    "durability": (
        "LAKELOG_DURABILITY",
        "on (default): commits that were acknowledged survive any crash of the database. "
        "off_may_lose_acknowledged_commits: a crash loses those of the last half second.",
    ),
    "grace": ("LAKELOG_GRACE", "Seconds that running calls may take after SIGTERM; default 20."),
    "dropped-table-retention": (
        "LAKELOG_DROPPED_TABLE_RETENTION",
        "Seconds for which a dropped table can be restored, before a compactor deletes its files; default 86400, a "
        "day; 0: not at all.",
    ),
    "kafka-brokers": (
        "LAKELOG_KAFKA_BROKERS",
        "Brokers that tables may name for their logs: host:port,host:port of one cluster; several clusters are "
        "separated by semicolons. Of a single one tables need not name any. Default: none, and no table has a log.",
    ),
    "secrets-dir": (
        SECRETS_FOLDER_VARIABLE,
        "Folder with a file for each secret that options of tables name as secret:NAME; those that are variables "
        f"({SECRET_VARIABLE}NAME) go before.",
    ),
    "max-calls": ("LAKELOG_MAX_CALLS", "Calls and streams that may be open at once; default 2000."),
}
_INSECURE: Final = (
    "LAKELOG_INSECURE_DEV",
    "For development: plaintext, on a loopback address only; without --token-file everyone on this machine may do "
    "everything.",
)


def _parser() -> OneLineParser:
    parser = OneLineParser(prog="lakelog metastore", description="The metastore service of lakelog.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve | migrate | check")
    serve = commands.add_parser("serve", help="Run the service.", description="Runs the service until SIGTERM.")
    check = commands.add_parser(
        "check",
        help="Check configuration, database and warehouse.",
        description="Makes the checks of `serve` and ends.",
    )
    migrate = commands.add_parser(
        "migrate", help="Bring the database's tables up to date.", description="Brings the database up to date."
    )
    for command in (serve, check, migrate):
        add_arguments(command, _DATABASE)
    for command in (serve, check):
        add_arguments(command, _SERVE)
        command.add_argument(
            "--insecure-dev", action="store_true", default=None, help=f"{_INSECURE[1]} [{_INSECURE[0]}]"
        )
    return parser


def _read_durability(values: Values) -> Durability:
    chosen = values.choice("durability", "on", get_args(Durability))
    return "on" if chosen == "on" else "off_may_lose_acknowledged_commits"


def _read_clusters(text: str) -> tuple[tuple[str, ...], ...]:
    try:
        return tuple(KAFKA_SERVERS.type.parse(cluster) for cluster in text.split(";") if cluster.strip())
    except ValueError as error:
        raise refusal(f"--kafka-brokers={text:.200} is not possible. {error}; clusters are separated by ';'.") from None


def _port(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) < 65536):
        raise refusal(f"{shown(name)}={text} must be a port: 0 to 65535.")
    return int(text)


def read_environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ
