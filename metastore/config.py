"""What the service is told by its command line and its environment: the only place that reads either."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

from lakelog.client.target import Target, parse_target
from lakelog.errors import InvalidArgument
from lakelog.serving.access import Access, parse_token_file
from lakelog.serving.listening import ServerTls

from .postgres.store import Durability
from .server.logs import LEVELS
from .server.startup import StartupFailure, as_startup_failure, normalize_warehouse, to_libpq_url

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("", "0", "false", "no", "off")


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


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # Without the usage, which would hide the one line that matters.
        print(f"{self.prog}: {message} (see --help)", file=sys.stderr)  # noqa: T201
        raise SystemExit(2)


def parse_command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    """Reads command line and environment. An argument wins over its variable.

    Raises:
        SystemExit: `--help` was asked for (0), or an argument is not known (2).
        StartupFailure: A value is missing or wrong.
    """
    given = _parser().parse_args(arguments)
    values = _Values(vars(given), environment)
    url = to_libpq_url(values.required("database_url"))
    wait_s = values.number("wait_for_database", 0.0, smallest=0)
    level = values.choice("log_level", "info", LEVELS)
    if given.command == "migrate":
        return Command("migrate", MigrateConfig(url, wait_s, level))
    insecure = values.flag("insecure_dev")
    tls = _read_tls(values, insecure)
    listen = _read_listen(values, insecure)
    metrics_port = values.optional("metrics_port")
    return Command(
        given.command,
        ServeConfig(
            database_url=url,
            warehouse=normalize_warehouse(values.required("warehouse")),
            listen=listen,
            metrics_port=None if metrics_port is None else _port("metrics_port", metrics_port),
            insecure_dev=insecure,
            tls=tls,
            access=_read_access(values, insecure, tls),
            wait_for_database_s=wait_s,
            database_connections=int(values.number("database_connections", 10, smallest=2)),
            durability=_read_durability(values),
            grace_s=values.number("grace", 20.0, smallest=0),
            max_calls=int(values.number("max_calls", 2000, smallest=1)),
            log_level=level,
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
    "listen": ("LAKELOG_LISTEN", "host:port of the gRPC server; default 127.0.0.1:7450; port 0: a free one."),
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
    "max-calls": ("LAKELOG_MAX_CALLS", "Calls and streams that may be open at once; default 2000."),
}
_INSECURE: Final = (
    "LAKELOG_INSECURE_DEV",
    "For development: plaintext, on a loopback address only; without --token-file everyone on this machine may do "
    "everything.",
)
_VARIABLES: Final[dict[str, str]] = {
    name.replace("-", "_"): variable for name, (variable, _) in (_DATABASE | _SERVE).items()
} | {"insecure_dev": _INSECURE[0]}


def _parser() -> _OneLineParser:
    parser = _OneLineParser(prog="python -m metastore", description="The metastore service of lakelog.")
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
        _add(command, _DATABASE)
    for command in (serve, check):
        _add(command, _SERVE)
        command.add_argument(
            "--insecure-dev", action="store_true", default=None, help=f"{_INSECURE[1]} [{_INSECURE[0]}]"
        )
    return parser


def _add(parser: argparse.ArgumentParser, options: Mapping[str, tuple[str, str]]) -> None:
    for name, (variable, text) in options.items():
        parser.add_argument(f"--{name}", metavar="X", help=f"{text} [{variable}]")


class _Values:
    """Values by argument or variable."""

    def __init__(self, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environment = environment

    def optional(self, name: str) -> str | None:
        value = self._arguments.get(name)
        return value if value is not None else (self._environment.get(_VARIABLES[name]) or None)

    def required(self, name: str) -> str:
        value = self.optional(name)
        if not value:
            raise StartupFailure(f"{_shown(name)} is missing: give it or set {_VARIABLES[name]}.")
        return value

    def flag(self, name: str) -> bool:
        if self._arguments.get(name):
            return True
        text = self._environment.get(_VARIABLES[name], "").lower()
        if text not in _TRUE + _FALSE:
            raise StartupFailure(f"{_VARIABLES[name]}={text} is neither true nor false: set 1 or 0.")
        return text in _TRUE

    def number(self, name: str, default: float, *, smallest: float) -> float:
        text = self.optional(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not smallest <= value < 1e9:
            raise StartupFailure(f"{_shown(name)}={text} must be a number of at least {smallest:g}.")
        return value

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        value = self.optional(name) or default
        if value not in choices:
            raise StartupFailure(f"{_shown(name)}={value} must be one of {', '.join(choices)}.")
        return value


def _read_listen(values: _Values, insecure: bool) -> Target:
    text = values.optional("listen") or "127.0.0.1:7450"
    free_port = text.endswith(":0")
    try:
        target = parse_target(text[:-1] + "1" if free_port else text)
    except InvalidArgument as error:
        raise StartupFailure(f"--listen: {error.message}") from error
    if insecure and not target.is_loopback:
        raise StartupFailure(
            f"--insecure-dev listens on loopback only, not on {target.host}: use 127.0.0.1, or give --tls-cert and "
            "--tls-key instead."
        )
    return Target(target.host, 0) if free_port else target


def _read_tls(values: _Values, insecure: bool) -> ServerTls | None:
    certificate, key, client_ca = (values.optional(name) for name in ("tls_cert", "tls_key", "tls_client_ca"))
    if insecure:
        if certificate or key or client_ca:
            raise StartupFailure("--insecure-dev and TLS files exclude each other: leave one of them out.")
        return None
    if not certificate or not key:
        raise StartupFailure(
            "TLS is required: give --tls-cert and --tls-key, or --insecure-dev for plaintext on this machine only."
        )
    tls = ServerTls(Path(certificate), Path(key), None if client_ca is None else Path(client_ca))
    try:
        tls.load_credentials()
    except InvalidArgument as error:
        raise as_startup_failure(error) from error
    return tls


def _read_access(values: _Values, insecure: bool, tls: ServerTls | None) -> Access:
    path = values.optional("token_file")
    if path is None:
        if insecure:
            return Access(open=True)
        if tls is not None and tls.client_ca is not None:
            return Access(any_certificate=True)
        raise StartupFailure(
            "Nobody could be recognized: give --token-file, or --tls-client-ca for callers with certificates."
        )
    try:
        tokens, certificates = parse_token_file(Path(path).read_text(encoding="utf-8"), path)
    except InvalidArgument as error:
        raise as_startup_failure(error) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StartupFailure(f"The token file {path} cannot be read: {reason} (--token-file).") from error
    if certificates and (tls is None or tls.client_ca is None):
        raise StartupFailure(f"The token file {path} has entries for certificates, which need --tls-client-ca.")
    return Access(tokens=tokens, certificates=certificates)


def _read_durability(values: _Values) -> Durability:
    chosen = values.choice("durability", "on", get_args(Durability))
    return "on" if chosen == "on" else "off_may_lose_acknowledged_commits"


def _port(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) < 65536):
        raise StartupFailure(f"{_shown(name)}={text} must be a port: 0 to 65535.")
    return int(text)


def _shown(name: str) -> str:
    return "--" + name.replace("_", "-")


def read_environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ
