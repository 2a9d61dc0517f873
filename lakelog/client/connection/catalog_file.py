"""The file that names catalogs: where the metastores of each are, and how a client reaches them.

```toml
[sales]
target = "metastore.lakelog-sales:7450"
token_file = "/var/run/secrets/lakelog/token"

[web]
target = "metastore.lakelog-web:7450"
reader = "reader.lakelog-web:7460"
```
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from lakelog.errors import InvalidArgument, NotFound

MAX_CATALOGS: Final = 1000
MAX_FILE_BYTES: Final = 1_000_000
MAX_SHOWN: Final = 20
ENVIRONMENT: Final = "environment"

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PATHS: Final = ("token_file", "tls_ca", "tls_cert", "tls_key")
"""They count from the file's folder."""


@dataclass(frozen=True)
class CatalogEntry:
    """How to reach the metastores of a catalog. TLS files that are empty: as the environment says.

    Args:
        target: `host:port`.
        reader: The reader services of the same catalog, as text; empty: none.
        token_file: The file that holds the caller's token; empty: `token` says which.
        token: `environment`: that of the environment. Empty: none, so that no name in a statement sends it elsewhere.
        tls: Whether to use TLS also without a TLS file.
        tls_ca: PEM file with the certificates that must have signed the server's.
        tls_cert: PEM file with the client's own certificate.
        tls_key: PEM file with that certificate's key.
    """

    target: str
    reader: str = ""
    token_file: str = ""
    token: str = ""
    tls: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""


def find_catalog(path: str | None, name: str, variable: str) -> CatalogEntry:
    """The entry of a catalog.

    Args:
        path: The file; None: there is none.
        name: The catalog's name.
        variable: The variable that names the file, for messages.

    Raises:
        InvalidArgument: There is no file, or it cannot be read; the message names the file and what is wrong in it.
        NotFound: The file has no such catalog; the message lists those that it has.
    """
    if not path:
        raise InvalidArgument(
            f"The catalog '{name:.80}' is not known: {variable} names no file of catalogs. Set it, or give host:port "
            "as the target instead.",
            metadata={"field": "catalog"},
        )
    catalogs = read_catalogs(path)
    found = catalogs.get(name)
    if found is None:
        shown = ", ".join(sorted(catalogs)[:MAX_SHOWN]) + (", ..." if len(catalogs) > MAX_SHOWN else "")
        raise NotFound(
            f"There is no catalog '{name:.80}' in {path}. It has: {shown or 'none'}. Give one of these, or add it.",
            reason="CATALOG_NOT_FOUND",
            metadata={"field": "catalog"},
        )
    return found


def read_catalogs(path: str) -> dict[str, CatalogEntry]:
    """Reads the file.

    Raises:
        InvalidArgument: It cannot be read, or its content is no list of catalogs.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(
            f"The file of catalogs {path} cannot be read: {error.strerror}. LAKELOG_CATALOGS names it.",
            metadata={"field": "LAKELOG_CATALOGS"},
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise _refused(path, f"it has more than {MAX_FILE_BYTES} bytes")
    try:
        tables = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _refused(path, f"it is no TOML: {error}") from error
    return parse_catalogs(tables, path)


def parse_catalogs(tables: Mapping[str, Any], path: str) -> dict[str, CatalogEntry]:
    """The catalogs of a file's content; errors as of `read_catalogs`. Pure."""
    if len(tables) > MAX_CATALOGS:
        raise _refused(path, f"it has {len(tables)} catalogs, and {MAX_CATALOGS} is the limit")
    return {name: _parse_entry(name, values, path) for name, values in tables.items()}


def _parse_entry(name: str, values: Any, path: str) -> CatalogEntry:
    if not _NAME.fullmatch(name):
        raise _refused(
            path, f"'{name:.80}' is no name of a catalog: use letters, digits and _, and begin with no digit"
        )
    if not isinstance(values, dict):
        raise _refused(path, f"'{name}' stands outside of a table. Write [{name}], and below it target = \"host:port\"")
    types = {field.name: field.type for field in fields(CatalogEntry)}
    for key, value in values.items():
        if key not in types:
            raise _refused(path, f"[{name}] has the unknown key '{key:.80}'. Known are {', '.join(types)}")
        is_right = isinstance(value, bool) if types[key] == "bool" else isinstance(value, str)
        if not is_right:
            wanted = "true or false" if types[key] == "bool" else "text in quotes"
            raise _refused(path, f"{key} of [{name}] must be {wanted}")
    if not values.get("target"):
        raise _refused(path, f'[{name}] has no target. Write target = "host:port" below it')
    if values.get("token") not in (None, ENVIRONMENT):
        # The value can be a secret, so it is not shown.
        raise _refused(
            path,
            f'token of [{name}] can only be "{ENVIRONMENT}", for the token of LAKELOG_TOKEN or LAKELOG_TOKEN_FILE. '
            "Write a token into a file of its own, and give it as token_file",
        )
    if values.get("token") and values.get("token_file"):
        raise _refused(path, f"[{name}] has both token and token_file: leave one out")
    folder = Path(path).absolute().parent
    found = {key: os.fspath(folder / values[key]) for key in _PATHS if values.get(key)}
    return CatalogEntry(**values | found)


def _refused(path: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"The file of catalogs {path} cannot be used: {why}.", metadata={"field": "catalog"})
