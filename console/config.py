"""Settings of the service: the only place that reads its command line and its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakelog.client.connection.target import Target
from lakelog.config import ConnectSettings
from lakelog.serving.arguments import Argument, OneLineParser, Values, refusal
from lakelog.serving.listening import ServerTls
from lakelog.serving.server_arguments import METRICS_PORT_HELP, listen_setting
from lakelog.serving.settings import (
    add_settings,
    connect_settings,
    log_level,
    make_parser,
    number,
    port,
    read_settings,
    setting,
    switch,
    whole,
)

DEFAULT_PORT: Final = 7480
_PREFIX: Final = "LAKELOG_CONSOLE"
_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")


def _read_tls(values: Values) -> ServerTls | None:
    certificate, key = values.text("tls-cert"), values.text("tls-key")
    plain = [name for name in ("insecure-dev", "tls-by-proxy") if values.switch(name)]
    if plain:
        if certificate or key or len(plain) == 2:
            other = "--insecure-dev" if len(plain) == 2 else "TLS files"
            raise refusal(f"--{plain[-1]} and {other} exclude each other: leave one of them out.")
        return None
    if not certificate or not key:
        raise refusal(
            "TLS is required: give --tls-cert and --tls-key; or --tls-by-proxy if a proxy in front ends TLS; or "
            "--insecure-dev for plaintext on this machine only."
        )
    tls = ServerTls(Path(certificate), Path(key))
    tls.load_credentials()
    return tls


def _read_hosts(values: Values) -> tuple[str, ...]:
    given = values.text("hosts")
    if given is not None:
        hosts = tuple(name.strip().lower() for name in given.split(",") if name.strip())
        bad = next((name for name in hosts if "/" in name or " " in name), None)
        if not hosts or bad is not None:
            raise refusal(f"--hosts={given:.200}: name hosts without scheme and path, as console.example.org.")
        return hosts
    text = values.text("listen") or f"127.0.0.1:{DEFAULT_PORT}"
    host = text.rpartition(":")[0].lower()
    if host.strip("[]") in ("0.0.0.0", "::", ""):
        raise refusal("--listen names every address of this machine: give --hosts, the names that browsers use.")
    return tuple(dict.fromkeys((host, *_LOOPBACK_HOSTS))) if _is_loopback(host) else (host,)


def _is_loopback(host: str) -> bool:
    return Target(host.strip("[]"), 1).is_loopback


def _hosts_setting() -> Any:
    what = (
        "Names in the address bar of browsers, separated by commas; default: the host of --listen, and localhost if "
        "that is a loopback address. Requests under another name are refused, so that no foreign page reads this one."
    )
    return setting(_read_hosts, Argument("hosts", f"{_PREFIX}_HOSTS", what))


def _tls_setting() -> Any:
    return setting(
        _read_tls,
        Argument("tls-cert", "LAKELOG_SERVER_TLS_CERT", "The server's certificate with its chain, PEM."),
        Argument("tls-key", "LAKELOG_SERVER_TLS_KEY", "The private key of --tls-cert, PEM."),
    )


@dataclass(frozen=True)
class Config:
    """The settings of the service. TLS files and the token for the metastore use the SDK's own variables.

    Args:
        connect: How the metastore and the files are reached.
        listen: Where the pages are served.
        tls: Its certificate; None: plaintext.
        hosts: Values of the header Host that are accepted, without ports.
        tls_by_proxy: Browsers use https, which a proxy ends.
        insecure_dev: Plaintext on loopback.
        actions: Whether pages offer actions that change something.
        shares_own_token: Callers without a token of their own use the console's.
        metrics_port: The port of the metrics; None: none.
        max_live_pages: Pages that are kept up to date at once.
        max_query_rows: Rows that the query page shows.
        query_seconds: How long a query may take.
        grace_s: How long open requests may take at the end.
        log_level: The level of the log.
    """

    connect: ConnectSettings = connect_settings()
    listen: Target = listen_setting(f"{_PREFIX}_LISTEN", DEFAULT_PORT, "the pages")
    tls: ServerTls | None = _tls_setting()
    hosts: tuple[str, ...] = _hosts_setting()
    tls_by_proxy: bool = switch(
        "tls-by-proxy",
        "Plaintext here, because a proxy or ingress in front ends TLS: cookies are sent over https only.",
        f"{_PREFIX}_TLS_BY_PROXY",
    )
    insecure_dev: bool = switch(
        "insecure-dev", "For development: plaintext, on a loopback address only.", "LAKELOG_INSECURE_DEV"
    )
    actions: bool = switch(
        "actions",
        "Offer actions (compact, tag, roll back, ...) to callers whose token may do them; default: pages only show.",
        f"{_PREFIX}_ACTIONS",
    )
    shares_own_token: bool = switch(
        "share-own-token",
        "Show what the console's own token may see to everyone who reaches the console without a token of their own.",
        f"{_PREFIX}_SHARE_OWN_TOKEN",
    )
    metrics_port: int | None = port("metrics-port", f"{_PREFIX}_METRICS_PORT", METRICS_PORT_HELP)
    max_live_pages: int = whole(
        "max-live-pages",
        f"{_PREFIX}_MAX_LIVE_PAGES",
        "Open pages that update themselves at once; further ones do not; 0 to 10000, default 200.",
        200,
        0,
        10_000,
    )
    max_query_rows: int = whole(
        "max-query-rows", f"{_PREFIX}_MAX_QUERY_ROWS", "Rows that the query page shows; default 1000.", 1000, 1, 100_000
    )
    query_seconds: float = number(
        "query-seconds", f"{_PREFIX}_QUERY_SECONDS", "Seconds that a query may take; default 30.", 30.0, 1, 600
    )
    grace_s: float = number(
        "grace", "LAKELOG_GRACE", "Seconds that open requests may take after SIGTERM; default 5.", 5.0, 0, 3600
    )
    log_level: str = log_level()

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the pages over https."""
        return self.tls is not None or self.tls_by_proxy


_EPILOG: Final = """\
Callers sign in with a token of the metastore, and see and do what it may. The console keeps no state: run as many as
you like.

TLS and token for the metastore: LAKELOG_TLS_CA, LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN or
LAKELOG_TOKEN_FILE, as for the SDK. The console's own token reports that it runs; pages use the caller's.
"""


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> Config:
    """Reads the command line and the environment. An argument takes precedence over its variable.

    Raises:
        SystemExit: `--help` was given (0), or an argument is not known (2).
        InvalidArgument: A value is not valid, or two exclude each other.
    """
    given = _make_parser().parse_args(arguments)
    config = read_settings(Config, given, environment)
    if config.actions and config.shares_own_token:
        raise refusal(
            "--actions and --share-own-token exclude each other: everyone who reaches the console could change what "
            "its own token may. Leave one of them out."
        )
    return config


def read_environment() -> Mapping[str, str]:
    """The environment variables of this process."""
    return os.environ


def _make_parser() -> OneLineParser:
    parser = make_parser("lakelog console", "Shows what lakelog knows, in a browser.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve")
    serve = commands.add_parser("serve", help="Serve the pages.", description="Serves the pages until SIGTERM.")
    add_settings(serve, Config)
    return parser
