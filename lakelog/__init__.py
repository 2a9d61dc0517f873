"""lakelog: a streaming lakehouse of plain Parquet tables, one commit gate and exactly-once change logs.

Begin with `connect`. What needs gRPC, Spark or SQL is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lakelog import errors
    from lakelog.catalog import Catalog

__version__: Final = "0.1.0"

__all__ = ["__version__", "connect", "errors"]


def __getattr__(name: str) -> Any:
    # So that `except lakelog.errors.CommitConflict` needs no import of its own.
    if name == "errors":
        import importlib

        return importlib.import_module("lakelog.errors")
    raise AttributeError(f"module 'lakelog' has no attribute '{name}'", name=name)


def connect(
    target: str | None = None,
    *,
    tls: bool | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    token: str | None = None,
    reader: str | None = None,
) -> Catalog:
    """Returns the catalog of a metastore. Connects when the catalog is first used.

    Threads may share a catalog and everything got from it. It pickles with its parameters (the token among them) and
    connects again where it is unpickled; after a fork the child opens a connection of its own.

    Args:
        target: `host:port`, for instance `localhost:7450`; by default LAKELOG_TARGET.
        tls: True: TLS with the system's certificates unless `tls_ca` is given; None: TLS where a TLS file is given.
        tls_ca: PEM file with the certificates the server's must be signed by; by default LAKELOG_TLS_CA.
        tls_cert: PEM file with the client's own certificate; by default LAKELOG_TLS_CERT.
        tls_key: PEM file with its key; by default LAKELOG_TLS_KEY.
        token: Who we are; by default LAKELOG_TOKEN.
        reader: `host:port` of a reader service that reads the files for subscriptions, several replicas apart by
            commas; by default LAKELOG_READER; "": subscriptions read them here. TLS files and token are for it, too.

    Raises:
        InvalidArgument: There is no target, it is malformed, or the TLS arguments do not fit together.
    """
    import os

    from lakelog.catalog import Catalog
    from lakelog.client.grpc_metastore import GrpcMetastore
    from lakelog.client.reader_target import ReaderTarget
    from lakelog.client.target import TlsFiles
    from lakelog.config import read_connect_settings
    from lakelog.storage.stores import LocationStores

    settings = read_connect_settings(
        os.environ,
        target=target,
        tls=tls,
        tls_ca=tls_ca,
        tls_cert=tls_cert,
        tls_key=tls_key,
        token=token,
        reader=reader,
    )
    files = TlsFiles(settings.tls_ca, settings.tls_cert, settings.tls_key) if settings.tls else None
    metastore = GrpcMetastore(settings.target, tls=files, token=settings.token)
    service = ReaderTarget((), files, settings.token).settle(settings.reader)
    return Catalog(
        metastore,
        LocationStores(settings.s3),
        cache_folder=settings.cache_folder,
        reader=service or ReaderTarget((), files, settings.token),
    )
