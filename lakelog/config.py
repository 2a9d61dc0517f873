"""The environment's settings for a connection of the SDK; no other code of the library reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, get_args

from lakelog.client.connection.catalog_file import CatalogEntry, find_catalog
from lakelog.client.connection.tokens import FileToken, Token
from lakelog.errors import InvalidArgument

# Rooms of storage import Arrow, which nothing that only looks for the metastore's address waits for.
if TYPE_CHECKING:
    from lakelog.client.connection.target import TlsFiles
    from lakelog.storage.objects.store import KeyChoice, S3Settings

TARGET_VARIABLE: Final = "LAKELOG_TARGET"
READER_VARIABLE: Final = "LAKELOG_READER"
CATALOG_VARIABLE: Final = "LAKELOG_CATALOG"
CATALOGS_VARIABLE: Final = "LAKELOG_CATALOGS"


@dataclass(frozen=True)
class ConnectSettings:
    """How to reach a metastore and the files of its tables.

    Args:
        target: `host:port`.
        tls_ca: PEM file with the certificates that must have signed the server's.
        tls_cert: PEM file with the client's own certificate.
        tls_key: PEM file with that certificate's key.
        tls: Whether to use TLS.
        token: Identifies the caller, or the file that holds such a token; never shown.
        s3: How to reach S3.
        cache_folder: The folder for local copies of data files; None: a folder for temporary files.
        reader: The reader services that read for subscriptions, as text; empty: none.
        catalog: The catalog's name in the file of catalogs; empty: it was given by its target.
        tls_origin: The place that names the TLS files, for messages; empty: arguments or the environment.
    """

    target: str
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    tls: bool
    token: Token | None = field(repr=False)
    s3: S3Settings
    cache_folder: str | None = None
    reader: str = ""
    catalog: str = ""
    tls_origin: str = ""

    @property
    def tls_files(self) -> TlsFiles | None:
        """The files for TLS; None: plaintext.

        Raises:
            InvalidArgument: Only one of certificate and key is given.
        """
        # Imported here, since it imports gRPC.
        from lakelog.client.connection.target import TlsFiles

        return TlsFiles(self.tls_ca, self.tls_cert, self.tls_key, self.tls_origin) if self.tls else None


@dataclass(frozen=True)
class Address:
    """How to reach a metastore; the attributes are those of `ConnectSettings`.

    Args:
        environment: What is read for the rest: the environment with what the catalog's entry says.
    """

    target: str
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    tls: bool
    token: Token | None = field(repr=False)
    catalog: str
    tls_origin: str
    environment: Mapping[str, str] = field(repr=False)

    @property
    def tls_files(self) -> TlsFiles | None:
        """As of `ConnectSettings`."""
        from lakelog.client.connection.target import TlsFiles

        return TlsFiles(self.tls_ca, self.tls_cert, self.tls_key, self.tls_origin) if self.tls else None


class FromEnvironment(str):
    """A secret from a variable of the environment. It pickles as the variable's name, never as its value.

    So data that is sent to other processes, for instance to Spark's executors or a scheduler's store, contains no
    secret. Those processes need the variable too.
    """

    variable: str

    def __new__(cls, value: str, variable: str) -> FromEnvironment:
        """The value of a variable."""
        found = super().__new__(cls, value)
        found.variable = variable
        return found

    def __reduce_ex__(self, _protocol: object) -> tuple[object, ...]:
        return (_read_again, (self.variable,))


def _read_again(variable: str) -> FromEnvironment:
    value = os.environ.get(variable)
    if not value:
        raise InvalidArgument(
            f"{variable} is not set in this process. The catalog or store that was sent here took a secret from that "
            "variable, and only its name was sent. Set it here too.",
            metadata={"field": variable},
        )
    return FromEnvironment(value, variable)


def read_connect_settings(
    environment: Mapping[str, str],
    *,
    target: str | None = None,
    tls: bool | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    token: str | None = None,
    token_file: str | None = None,
    reader: str | None = None,
    catalog: str | None = None,
) -> ConnectSettings:
    """Combines arguments, environment and the file of catalogs. An argument wins over its variable.

    LAKELOG_CATALOG wins over LAKELOG_TARGET, and an argument `target` over both. The environment's token goes to the
    metastore that these variables name; to other catalogs only if their entries say `token = "environment"`.

    Args:
        environment: LAKELOG_TARGET, LAKELOG_CATALOG, LAKELOG_CATALOGS (the file), LAKELOG_READER, LAKELOG_TLS_CA,
            LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN, LAKELOG_TOKEN_FILE, LAKELOG_CACHE_DIR and
            LAKELOG_S3_ENDPOINT, _REGION, _ACCESS_KEY_ID, _SECRET_ACCESS_KEY, _SESSION_TOKEN, _ATTEMPTS, _TIMEOUT,
            _CREDENTIALS are read; for S3 the AWS_* variables count too. An empty variable is as good as none.
        target: `host:port`.
        tls: True: TLS, even without TLS files; False: no TLS; None: TLS if a file is given.
        tls_ca: As in `ConnectSettings`.
        tls_cert: As in `ConnectSettings`.
        tls_key: As in `ConnectSettings`.
        token: Identifies the caller; None: `token_file`, or a variable.
        token_file: The file that holds the token; None: `token`, or a variable.
        reader: As in `ConnectSettings`; None: its variable, or the entry of the catalog.
        catalog: The name of a catalog in the file; its entry takes the place of the other variables.

    Raises:
        InvalidArgument: There is no target, a value is no text, there are TLS files together with `tls=False`, a target
            together with a catalog, or the file of catalogs cannot be used.
        NotFound: The file has no such catalog.
    """
    address = read_address(
        environment,
        target=target,
        tls=tls,
        tls_ca=tls_ca,
        tls_cert=tls_cert,
        tls_key=tls_key,
        token=token,
        token_file=token_file,
        reader=reader,
        catalog=catalog,
    )
    environment = address.environment
    return ConnectSettings(
        address.target,
        address.tls_ca,
        address.tls_cert,
        address.tls_key,
        address.tls,
        address.token,
        read_s3_settings(environment),
        read_cache_folder(environment),
        environment.get(READER_VARIABLE, "") if reader is None else reader,
        address.catalog,
        address.tls_origin,
    )


def read_address(
    environment: Mapping[str, str],
    *,
    target: str | None = None,
    tls: bool | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    token: str | None = None,
    token_file: str | None = None,
    reader: str | None = None,
    catalog: str | None = None,
) -> Address:
    """The part of `read_connect_settings` that says how to reach the metastore; arguments and errors as there."""
    texts = {
        "target": target,
        "tls_ca": tls_ca,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "token": token,
        "token_file": token_file,
        "reader": reader,
        "catalog": catalog,
    }
    for name, given_text in texts.items():
        if given_text is not None and not isinstance(given_text, str | os.PathLike):
            # A token is never shown, whatever its type.
            shown = f"a {type(given_text).__name__}" if name == "token" else f"{given_text!r:.80}"
            example = {"target": "'localhost:7450'", "reader": "'localhost:7450'", "catalog": "'sales'"}.get(
                name, "text"
            )
            raise InvalidArgument(f"{name} is {shown}: give it as text, {example}.", metadata={"field": name})
    if target and catalog:
        raise InvalidArgument(
            f"The target '{target}' and the catalog '{catalog}' are both given: leave one out.",
            metadata={"field": "catalog"},
        )
    if catalog is not None and not catalog:
        raise InvalidArgument(
            f"catalog='' names no catalog: give a name of the file {CATALOGS_VARIABLE}, or leave it out.",
            metadata={"field": "catalog"},
        )
    token_origin = tls_origin = ""
    catalog = catalog or (None if target else environment.get(CATALOG_VARIABLE)) or ""
    if catalog:
        entry = find_catalog(environment.get(CATALOGS_VARIABLE), catalog, CATALOGS_VARIABLE)
        environment = _put_first(entry, environment, is_own=_is_own(catalog, entry, environment))
        tls = True if tls is None and entry.tls else tls
        origin = f"[{catalog}] of the file {environment[CATALOGS_VARIABLE]}"
        if (entry.tls_ca or entry.tls_cert or entry.tls_key) and not (tls_ca or tls_cert or tls_key):
            tls_origin = origin
        if entry.token_file and not (token or token_file):
            token_origin = f"token_file of {origin}"
        _check_reader(entry.reader if reader is None else "", origin)
    target = target or environment.get(TARGET_VARIABLE) or None
    if target is None:
        raise InvalidArgument(
            f"There is no metastore to connect to: give connect() a target such as 'localhost:7450', or set "
            f"{TARGET_VARIABLE}.",
            metadata={"field": "target"},
        )
    ca = tls_ca or environment.get("LAKELOG_TLS_CA") or None
    cert = tls_cert or environment.get("LAKELOG_TLS_CERT") or None
    key = tls_key or environment.get("LAKELOG_TLS_KEY") or None
    given = any((tls_ca, tls_cert, tls_key))
    if tls is False and given:
        raise InvalidArgument(
            "tls=False and TLS files contradict each other: leave one out.", metadata={"field": "tls"}
        )
    use_tls = any((ca, cert, key)) if tls is None else tls
    if not use_tls:
        ca = cert = key = None
    found = read_token(environment, token=token, token_file=token_file)
    if token_origin and isinstance(found, FileToken):
        found = FileToken(found.path, token_origin)
    return Address(target, ca, cert, key, use_tls, found, catalog, tls_origin, environment)


def _check_reader(reader: str, origin: str) -> None:
    from lakelog.client.connection.reader_target import parse_reader_targets

    try:
        if reader:
            parse_reader_targets(reader, tls=None, token=None)
    except InvalidArgument as error:
        raise InvalidArgument(f"{origin}: {error.message}", reason=error.reason, metadata=error.metadata) from error


def _is_own(catalog: str, entry: CatalogEntry, environment: Mapping[str, str]) -> bool:
    """Whether the environment leads to this catalog, so that its token is meant for it."""
    named = environment.get(CATALOG_VARIABLE)
    return catalog == named if named else entry.target == environment.get(TARGET_VARIABLE)


def _put_first(entry: CatalogEntry, environment: Mapping[str, str], *, is_own: bool) -> Mapping[str, str]:
    """The environment with what a catalog's entry says. Readers and token of another catalog are not this one's."""
    found = dict(environment) | {TARGET_VARIABLE: entry.target, READER_VARIABLE: entry.reader}
    if entry.token_file or not (is_own or entry.token):
        found.pop("LAKELOG_TOKEN", None)
        found["LAKELOG_TOKEN_FILE"] = entry.token_file
    if entry.tls_ca or entry.tls_cert or entry.tls_key:
        found |= {
            "LAKELOG_TLS_CA": entry.tls_ca,
            "LAKELOG_TLS_CERT": entry.tls_cert,
            "LAKELOG_TLS_KEY": entry.tls_key,
        }
    return found


def read_token(
    environment: Mapping[str, str], *, token: str | None = None, token_file: str | None = None
) -> Token | None:
    """Combines arguments and environment, as `read_connect_settings`. Pure.

    Raises:
        InvalidArgument: There are both a token and a file, as arguments or as variables.
    """
    if token and token_file:
        raise _both("token= and token_file=")
    if token or token_file:
        return token or FileToken(token_file or "")
    path, secret = environment.get("LAKELOG_TOKEN_FILE"), _read_secret(environment, "LAKELOG_TOKEN")
    if path and secret:
        raise _both("LAKELOG_TOKEN and LAKELOG_TOKEN_FILE")
    return FileToken(path) if path else secret


def _both(names: str) -> InvalidArgument:
    return InvalidArgument(f"{names} exclude each other: leave one of them out.", metadata={"field": "token_file"})


def read_s3_settings(environment: Mapping[str, str]) -> S3Settings:
    """Reads the S3 settings of `read_connect_settings`.

    Raises:
        InvalidArgument: Only half of the credentials is given, or a number is none, or out of bounds.
    """
    from lakelog.storage.objects.store import LONGEST_TIMEOUT_S, MOST_ATTEMPTS, S3Settings

    def read(name: str, *fallbacks: str) -> str | None:
        found = (environment.get(variable) for variable in (f"LAKELOG_S3_{name}", *fallbacks))
        return next((value for value in found if value), None)

    def read_key(name: str) -> str | None:
        return _read_secret(environment, f"LAKELOG_S3_{name}", f"AWS_{name}")

    keys = (read_key("ACCESS_KEY_ID"), read_key("SECRET_ACCESS_KEY"))
    if (keys[0] is None) != (keys[1] is None):
        there, missing = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")[:: 1 if keys[0] else -1]
        raise InvalidArgument(
            f"Of the credentials for S3 only LAKELOG_S3_{there} (or AWS_{there}) is set. Set LAKELOG_S3_{missing} too, "
            "or neither of them.",
            metadata={"field": f"LAKELOG_S3_{missing}"},
        )
    return S3Settings(
        endpoint=read("ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        region=read("REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
        access_key_id=keys[0],
        secret_access_key=keys[1],
        session_token=read_key("SESSION_TOKEN"),
        attempts=int(_read_number(environment, "LAKELOG_S3_ATTEMPTS", S3Settings.attempts, MOST_ATTEMPTS)),
        timeout_s=_read_number(environment, "LAKELOG_S3_TIMEOUT", S3Settings.timeout_s, LONGEST_TIMEOUT_S),
        credentials=_read_key_choice(environment),
    )


def _read_key_choice(environment: Mapping[str, str]) -> KeyChoice:
    from lakelog.storage.objects.store import KeyChoice

    given = environment.get("LAKELOG_S3_CREDENTIALS") or "auto"
    found = next((each for each in get_args(KeyChoice) if each == given), None)
    if found is None:
        raise InvalidArgument(
            f"LAKELOG_S3_CREDENTIALS is {given[:80]!r}: set own, vended or auto.",
            metadata={"field": "LAKELOG_S3_CREDENTIALS"},
        )
    choice: KeyChoice = found
    return choice


def _read_number(environment: Mapping[str, str], variable: str, default: float, last: int) -> float:
    given = environment.get(variable)
    if not given:
        return default
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
    if not 1 <= number <= last:
        raise InvalidArgument(
            f"{variable} is {given[:80]!r}: give a whole number from 1 to {last}.", metadata={"field": variable}
        )
    return number


def _read_secret(environment: Mapping[str, str], *variables: str) -> FromEnvironment | None:
    """The value of the first variable that is set. The id of a key goes with the key, so it counts as a secret too."""
    for variable in variables:
        if value := environment.get(variable):
            return FromEnvironment(value, variable)
    return None


def read_cache_folder(environment: Mapping[str, str]) -> str | None:
    """The folder for local copies of data files; None: a folder for temporary files."""
    from lakelog.storage.lookup.copy_cache import CACHE_VARIABLE

    return environment.get(CACHE_VARIABLE) or None
