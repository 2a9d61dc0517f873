"""Settings of the service: the only place that reads its command line and its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from lakelog.client.connection.target import DEFAULT_PORT, Target
from lakelog.errors import InvalidArgument
from lakelog.log.secrets import SECRET_VARIABLE, SECRETS_FOLDER_VARIABLE, Secrets
from lakelog.options.declared.kafka import KAFKA_SERVERS
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.arguments import Argument, OneLineParser, Values, refusal
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
    add_settings,
    choice,
    log_level,
    number,
    port,
    read_settings,
    setting,
    switch,
    text,
    whole,
)

from .logs.owner_rules import read_patterns
from .postgres.store import Durability
from .server.startup import as_startup_failure, normalize_warehouse, to_libpq_url


def _read_metrics_port(values: Values) -> int | None:
    text = values.text("metrics-port")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text[:6]) < 65536):
        raise refusal(f"--metrics-port={text} must be a port: 0 to 65535.")
    return int(text)


def _read_clusters(values: Values) -> tuple[tuple[str, ...], ...]:
    text = values.text("kafka-brokers") or ""
    try:
        return tuple(KAFKA_SERVERS.type.parse(cluster) for cluster in text.split(";") if cluster.strip())
    except ValueError as error:
        raise refusal(f"--kafka-brokers={text:.200} is not possible. {error}; clusters are separated by ';'.") from None


@dataclass(frozen=True)
class DatabaseConfig:
    """The settings that all commands need. The URL contains secrets and is never shown or logged."""

    database_url: str = setting(
        lambda values: to_libpq_url(values.required("database-url")),
        Argument(
            "database-url",
            "LAKELOG_DATABASE_URL",
            "Postgres: postgresql://user:password@host:port/database. Prefer the variable: other users of the "
            "machine can see arguments.",
        ),
        is_secret=True,
    )
    wait_for_database_s: float = number(
        "wait-for-database",
        "LAKELOG_WAIT_FOR_DATABASE",
        "Seconds to wait for the database at start; default 0.",
        0.0,
        0,
    )
    log_level: str = log_level("; debug also logs reads")


@dataclass(frozen=True)
class CheckConfig(DatabaseConfig):
    """The settings that `check` needs."""

    warehouse: str = setting(
        lambda values: normalize_warehouse(values.required("warehouse")),
        Argument(
            "warehouse",
            "LAKELOG_WAREHOUSE",
            "Where tables are stored: an absolute path, file:///path or s3://bucket/prefix.",
        ),
    )
    listen: Target = listen_setting("LAKELOG_LISTEN", DEFAULT_PORT)
    metrics_port: int | None = setting(
        _read_metrics_port, Argument("metrics-port", "LAKELOG_METRICS_PORT", METRICS_PORT_HELP)
    )
    health_port: int | None = port("health-port", "LAKELOG_HEALTH_PORT", HEALTH_PORT_HELP)
    tls: ServerTls | None = tls_setting(
        "Clients must show a certificate signed by one of these, PEM. Without --token-file each such certificate is an "
        "admin's."
    )
    access: AccessSettings = access_setting(
        "Who may call: lines `<name> user|reader|writer|admin <token>`; in place of the token, `cert` stands for the "
        "client certificate with that common name, `signed` for signed tokens with that name.",
        certificate_use="callers with certificates",
    )
    database_connections: int = whole(
        "database-connections",
        "LAKELOG_DATABASE_CONNECTIONS",
        "The most connections to the database, without those for listening and health; default 10.",
        10,
        2,
    )
    database_silence_s: float = number(
        "database-silence",
        "LAKELOG_DATABASE_SILENCE",
        "Seconds without an answer after which the metastore asks the database, on a new connection, whether it still "
        "works on a statement; if not, the connection is given up. Default 10.",
        10.0,
        0.1,
    )
    database_idle_s: float = number(
        "database-idle",
        "LAKELOG_DATABASE_IDLE",
        "Seconds after which the database ends a transaction in which this metastore sends nothing, for instance "
        "because it is frozen; then others get its locks. At most 25, default 20.",
        20.0,
        0.1,
        25.0,
    )
    durability: Durability = choice(
        "durability",
        "LAKELOG_DURABILITY",
        "on (default): commits that were acknowledged survive any crash of the database. "
        "off_may_lose_acknowledged_commits: a crash loses those of the last half second.",
        "on",
        get_args(Durability),
    )
    grace_s: float = number(
        "grace", "LAKELOG_GRACE", "Seconds that running calls may take after SIGTERM; default 20.", 20.0, 0
    )
    dropped_retention_s: float = number(
        "dropped-table-retention",
        "LAKELOG_DROPPED_TABLE_RETENTION",
        "Seconds for which a dropped table can be restored, before a compactor deletes its files; default 86400, a "
        "day; 0: not at all.",
        86_400,
        0,
    )
    kafka_clusters: tuple[tuple[str, ...], ...] = setting(
        _read_clusters,
        Argument(
            "kafka-brokers",
            "LAKELOG_KAFKA_BROKERS",
            "Brokers that tables may name for their logs: host:port,host:port of one cluster; several clusters are "
            "separated by semicolons. With a single cluster tables need not name it. Default: none, and no table has a "
            "log.",
        ),
    )
    owner_topics: tuple[str, ...] = setting(
        lambda values: read_patterns(values.text("owner-topics") or "", "owner-topics"),
        Argument(
            "owner-topics",
            "LAKELOG_OWNER_TOPICS",
            "Topics that owners without the role admin may give tables (kafka.topic): patterns separated by commas, in "
            "which {database} stands for the table's database and * at the end for any rest. Default: none, and their "
            "tables have topics that lakelog names.",
        ),
    )
    owner_secrets: tuple[str, ...] = setting(
        lambda values: read_patterns(values.text("owner-secrets") or "", "owner-secrets"),
        Argument(
            "owner-secrets",
            "LAKELOG_OWNER_SECRETS",
            "Names of secrets that such owners may name in options (secret:NAME), in the same form. Default: none.",
        ),
    )
    secrets: Secrets = setting(
        lambda values: Secrets(values.environment, values.text("secrets-dir")),
        Argument(
            "secrets-dir",
            SECRETS_FOLDER_VARIABLE,
            "Folder with a file for each secret that options of tables name as secret:NAME. A variable "
            f"{SECRET_VARIABLE}NAME wins over the file.",
        ),
    )
    max_calls: int = whole(
        "max-calls",
        "LAKELOG_MAX_CALLS",
        "Calls that may be open at once, without streams; default 2000.",
        2000,
        1,
    )
    max_streams: int = whole(
        "max-streams",
        "LAKELOG_MAX_STREAMS",
        "Watches, streams of commits and waits for jobs that may be open at once; default 10000.",
        10_000,
        1,
    )
    caller_share: float = number(
        "caller-share",
        "LAKELOG_CALLER_SHARE",
        "The part of --max-calls and --max-streams that one caller (a name with a token or certificate) can have; "
        "default 0.25.",
        0.25,
        0,
        1,
    )
    connection_share: float = number(
        "connection-share",
        "LAKELOG_CONNECTION_SHARE",
        "The part of both that one connection can have; default 0.125.",
        0.125,
        0,
        1,
    )
    commit_reserve: float = number(
        "commit-reserve",
        "LAKELOG_COMMIT_RESERVE",
        "The part of each of these limits that only commits, and the calls that they need, can use; default 0.1.",
        0.1,
        0,
        1,
    )
    call_rate: float = number(
        "call-rate",
        "LAKELOG_CALL_RATE",
        "Calls a second of one caller, with a burst of two seconds; default 1000. Its commits, and the calls that they "
        "need, have a rate of their own, four times as high.",
        1000,
        1,
        1_000_000,
    )
    max_connections: int = whole(
        "max-connections",
        "LAKELOG_MAX_CONNECTIONS",
        "Connections that may be open at once; default 4000. Each needs an open file.",
        4000,
        1,
    )
    max_connection_age_s: float = number(
        "max-connection-age",
        "LAKELOG_MAX_CONNECTION_AGE",
        "Seconds after which a client is asked to open a new connection, so that clients find metastores that were "
        "added; calls that are open go on. Default 0: never.",
        0.0,
        0,
        1_000_000,
    )
    large_request_bytes: int = whole(
        "large-request-bytes",
        "LAKELOG_LARGE_REQUEST_BYTES",
        "Bytes of requests above 8 KiB that are processed at once; further ones wait. Default 33554432, 32 MiB. They "
        "take about eight times as much memory.",
        32 << 20,
        1,
    )
    plan_cache_bytes: int = whole(
        "plan-cache-bytes",
        "LAKELOG_PLAN_CACHE_BYTES",
        "Bytes of packed file entries that are held for plans; default 268435456, 256 MiB.",
        256 << 20,
        0,
    )
    vend_role: str | None = text(
        "vend-role",
        "LAKELOG_VEND_ROLE",
        "The ARN of a role of the store. Callers get its keys for the files of one table, as far as their grants "
        "reach. Default: none, and callers need keys of their own.",
    )
    vend_endpoint: str | None = text(
        "vend-endpoint",
        "LAKELOG_VEND_ENDPOINT",
        "The store's token service (STS), https://host:port. Default: the S3 endpoint or, without one, Amazon's.",
    )
    vend_duration_s: int = whole(
        "vend-duration",
        "LAKELOG_VEND_DURATION",
        "Seconds for which such keys can be used, 900 to 3600; default 3600. A caller whose grant was taken back can "
        "use its keys for that long.",
        3600,
        900,
        3600,
    )
    insecure_dev: bool = insecure_setting("do everything")


@dataclass(frozen=True)
class ServeConfig(CheckConfig):
    """The settings that `serve` needs."""

    migrate: bool = switch(
        "migrate",
        "Bring the database's tables up to date first, as the command migrate does; for a database with one metastore.",
        "LAKELOG_MIGRATE",
    )


@dataclass(frozen=True)
class MigrateConfig(DatabaseConfig):
    """The settings that `migrate` needs."""


@dataclass(frozen=True)
class Command:
    """The command to run, with the settings that it needs."""

    name: str
    config: ServeConfig | CheckConfig | MigrateConfig


_COMMANDS: Final = (
    ("serve", ServeConfig, "Run the service.", "Runs the service until SIGTERM."),
    ("check", CheckConfig, "Check configuration, database and warehouse.", "Makes the checks of `serve` and ends."),
    ("migrate", MigrateConfig, "Bring the database's tables up to date.", "Brings the database up to date."),
)
"""Name and settings of each command, and its description in the help texts of the program and of the command."""


def parse_command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Reads the command line and the environment. An argument takes precedence over its variable.

    Raises:
        SystemExit: `--help` was given (0), or an argument is not known (2).
        StartupFailure: A value is missing or wrong.
    """
    parser = OneLineParser(prog="lakelog metastore", description="The metastore service of lakelog.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve | migrate | check")
    kinds: dict[str, type[ServeConfig | CheckConfig | MigrateConfig]] = {}
    for name, kind, what, description in _COMMANDS:
        kinds[name] = kind
        add_settings(commands.add_parser(name, help=what, description=description), kind)
    given = parser.parse_args(arguments)
    try:
        return Command(given.command, read_settings(kinds[given.command], given, environment))
    except InvalidArgument as error:
        raise as_startup_failure(error) from error


def read_environment() -> Mapping[str, str]:
    """The environment variables of this process."""
    return os.environ
