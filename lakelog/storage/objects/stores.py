"""Chooses the store of a location; and the stores of many tables: one for each location, made on first use."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from lakelog.errors import InvalidArgument
from lakelog.format.tables.credentials import find_table_uuid
from lakelog.privacy.redaction import blot_out_forms
from lakelog.storage.objects.store import ObjectStore, S3Settings

if TYPE_CHECKING:
    from lakelog.storage.objects.s3_keys import Keys, Vendor

_STORE_SETTINGS: Final = ("endpoint", "region")


class Stores(Protocol):
    """Returns the store of a table's location; several threads may call it."""

    def open(self, location: str) -> ObjectStore:
        """The store of a location, as of `open_store`."""
        ...


class LocationStores:
    """Stores by their URI, one for each location. Pickles as its settings.

    Args:
        s3: How to reach S3.
        vendor: The metastore that vends keys for the files of tables; None: the process uses its own.
    """

    def __init__(self, s3: S3Settings | None = None, vendor: Vendor | None = None) -> None:
        self._s3 = s3
        self._vendor = vendor
        self._lock = threading.Lock()
        self._open: dict[str, ObjectStore] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return (LocationStores, (self._s3, self._vendor))

    def open(self, location: str) -> ObjectStore:
        """The store of a location."""
        with self._lock:
            store = self._open.get(location)
            if store is None:
                store = self._open[location] = open_store(location, self._s3, self._vendor)
            return store


def open_store(location: str, s3: S3Settings | None = None, vendor: Vendor | None = None) -> ObjectStore:
    """Returns the store of a location; does not access it.

    Args:
        location: `file:///folder/` or `s3://bucket/prefix/`; the latter may have `?endpoint=...&region=...`.
        s3: How to reach S3; settings of the location take precedence.
        vendor: The metastore that vends keys, if the location is that of a table in S3.

    Raises:
        InvalidArgument: The location is none of these.
    """
    parts = urlsplit(location)
    if parts.scheme == "file":
        from lakelog.storage.objects.local import LocalStore

        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
            shown = blot_out_forms(location)
            raise InvalidArgument(f"Location '{shown}' is not a local folder; write it as file:///absolute/folder/.")
        return LocalStore(unquote(parts.path))
    if parts.scheme == "s3":
        from lakelog.storage.objects.s3 import S3Store

        if not parts.netloc or "@" in parts.netloc or parts.fragment:
            raise InvalidArgument(
                "A location on S3 is s3://bucket/prefix/ without credentials; give those by LAKELOG_S3_* or AWS_*."
            )
        settings = _merge_settings(parts.query, s3 or S3Settings())
        keys = _find_keys(location, settings, vendor)
        return S3Store(parts.netloc, parts.path.strip("/"), settings, keys)
    raise InvalidArgument(
        f"Location '{blot_out_forms(location)}' has the scheme '{parts.scheme}'; lakelog stores files under file:/// "
        "or s3://."
    )


def _find_keys(location: str, settings: S3Settings, vendor: Vendor | None) -> Keys | None:
    table_uuid = find_table_uuid(location)
    if table_uuid is None or vendor is None or settings.credentials == "own":
        return None
    if settings.credentials == "auto" and settings.access_key_id is not None:
        return None
    from lakelog.storage.objects.s3_keys import VendedKeys

    return VendedKeys(vendor, table_uuid, settings)


def _merge_settings(query: str, given: S3Settings) -> S3Settings:
    said = dict(parse_qsl(query))
    unknown = sorted(said.keys() - set(_STORE_SETTINGS))
    if unknown:
        raise InvalidArgument(
            f"A location on S3 takes the settings {', '.join(_STORE_SETTINGS)} behind '?', not {', '.join(unknown)}."
        )
    return dataclasses.replace(
        given, endpoint=said.get("endpoint", given.endpoint), region=said.get("region", given.region)
    )
