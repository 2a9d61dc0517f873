"""lakelog: a streaming lakehouse of plain Parquet tables, one commit gate and exactly-once change logs.

Begin with `connect`. The classes are for annotations and `isinstance`; the catalog makes their objects. Everything
except the version is imported on first use, so that `import lakelog` takes a few milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lakelog import errors as errors
    from lakelog.annotations import Condition as Condition
    from lakelog.annotations import OptionValue as OptionValue
    from lakelog.annotations import Parameters as Parameters
    from lakelog.annotations import Rows as Rows
    from lakelog.annotations import TimeLike as TimeLike
    from lakelog.errors import CommitConflict as CommitConflict
    from lakelog.errors import LakelogError as LakelogError
    from lakelog.format.types.column_changes import AddColumn as AddColumn
    from lakelog.format.types.column_changes import AllowNull as AllowNull
    from lakelog.format.types.column_changes import ColumnChange as ColumnChange
    from lakelog.format.types.column_changes import CommentColumn as CommentColumn
    from lakelog.format.types.column_changes import DropColumn as DropColumn
    from lakelog.format.types.column_changes import MoveColumn as MoveColumn
    from lakelog.format.types.column_changes import RenameColumn as RenameColumn
    from lakelog.format.types.column_changes import SetDefault as SetDefault
    from lakelog.format.types.column_changes import WidenColumn as WidenColumn
    from lakelog.reads.scan import Scan as Scan
    from lakelog.reads.streams.batch import SnapshotChanges as Snapshot
    from lakelog.reads.streams.batch import StreamBatch as StreamBatch
    from lakelog.reads.streams.subscription import Subscription as Subscription
    from lakelog.results import MergeResult as MergeResult
    from lakelog.results import TransactionResult as TransactionResult
    from lakelog.results import UpdateResult as UpdateResult
    from lakelog.results import WriteResult as WriteResult
    from lakelog.sdk.catalog import Catalog as Catalog
    from lakelog.sdk.system_table import SystemTable as SystemTable
    from lakelog.sdk.tables.table import Table as Table
    from lakelog.sdk.transaction import Transaction as Transaction
    from lakelog.sql.session import SqlResult as SqlResult
    from lakelog.system_tables.scan import SystemScan as SystemScan
    from lakelog.tracing.request_ids import request_id as request_id
    from lakelog.writes.row_changes.clauses import Clause as Clause
    from lakelog.writes.row_changes.clauses import literal as literal
    from lakelog.writes.row_changes.clauses import when_matched as when_matched
    from lakelog.writes.row_changes.clauses import when_not_matched as when_not_matched
    from lakelog.writes.row_changes.clauses import when_not_matched_by_source as when_not_matched_by_source

__version__: Final = "0.1.0"

_COLUMN_CHANGES: Final = (
    "AddColumn",
    "AllowNull",
    "ColumnChange",
    "CommentColumn",
    "DropColumn",
    "MoveColumn",
    "RenameColumn",
    "SetDefault",
    "WidenColumn",
)

_LAZY: Final = {
    "Catalog": "lakelog.sdk.catalog",
    "Clause": "lakelog.writes.row_changes.clauses",
    "CommitConflict": "lakelog.errors",
    "Condition": "lakelog.annotations",
    "LakelogError": "lakelog.errors",
    "MergeResult": "lakelog.results",
    "OptionValue": "lakelog.annotations",
    "Parameters": "lakelog.annotations",
    "Rows": "lakelog.annotations",
    "Scan": "lakelog.reads.scan",
    "Snapshot": "lakelog.reads.streams.batch",
    "SqlResult": "lakelog.sql.session",
    "StreamBatch": "lakelog.reads.streams.batch",
    "Subscription": "lakelog.reads.streams.subscription",
    "SystemScan": "lakelog.system_tables.scan",
    "SystemTable": "lakelog.sdk.system_table",
    "Table": "lakelog.sdk.tables.table",
    "TimeLike": "lakelog.annotations",
    "Transaction": "lakelog.sdk.transaction",
    "TransactionResult": "lakelog.results",
    "UpdateResult": "lakelog.results",
    "WriteResult": "lakelog.results",
    **dict.fromkeys(_COLUMN_CHANGES, "lakelog.format.types.column_changes"),
    "literal": "lakelog.writes.row_changes.clauses",
    "request_id": "lakelog.tracing.request_ids",
    "when_matched": "lakelog.writes.row_changes.clauses",
    "when_not_matched": "lakelog.writes.row_changes.clauses",
    "when_not_matched_by_source": "lakelog.writes.row_changes.clauses",
}
"""The module of each name."""

_NAMES_THERE: Final = {"Snapshot": "SnapshotChanges"}
"""The name inside its module, if it differs. `Snapshot` is an item of `Subscription.snapshots()`."""

__all__ = [
    "AddColumn",
    "AllowNull",
    "Catalog",
    "Clause",
    "ColumnChange",
    "CommentColumn",
    "CommitConflict",
    "Condition",
    "DropColumn",
    "LakelogError",
    "MergeResult",
    "MoveColumn",
    "OptionValue",
    "Parameters",
    "RenameColumn",
    "Rows",
    "Scan",
    "SetDefault",
    "Snapshot",
    "SqlResult",
    "StreamBatch",
    "Subscription",
    "SystemScan",
    "SystemTable",
    "Table",
    "TimeLike",
    "Transaction",
    "TransactionResult",
    "UpdateResult",
    "WidenColumn",
    "WriteResult",
    "__version__",
    "connect",
    "errors",
    "literal",
    "request_id",
    "when_matched",
    "when_not_matched",
    "when_not_matched_by_source",
]


def __getattr__(name: str) -> Any:
    import importlib

    # So that `except lakelog.errors.CommitConflict` needs no import of its own.
    if name == "errors":
        return importlib.import_module("lakelog.errors")
    if name not in _LAZY:
        raise AttributeError(f"module 'lakelog' has no attribute '{name}'", name=name)
    value = getattr(importlib.import_module(_LAZY[name]), _NAMES_THERE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def connect(
    target: str | None = None,
    *,
    tls: bool | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    token: str | None = None,
    token_file: str | None = None,
    reader: str | None = None,
    catalog: str | None = None,
) -> Catalog:
    """Returns the catalog of a metastore. Connects when the catalog is first used.

    Threads may share a catalog and everything made from it. It pickles with its parameters and
    connects again where it is unpickled; after a fork the child opens its own connection. A secret from a variable of
    the environment (the token, the keys of S3) is pickled as the variable's name, so the variable must be set there
    too. A token that is passed here is pickled itself.

    Args:
        target: `host:port`, for instance `localhost:7450`; by default LAKELOG_TARGET.
        tls: True: TLS, with the system's certificates unless `tls_ca` is given; None: TLS if a TLS file is given.
        tls_ca: PEM file with the certificates that must have signed the server's; by default LAKELOG_TLS_CA.
        tls_cert: PEM file with the client's own certificate; by default LAKELOG_TLS_CERT.
        tls_key: PEM file with that certificate's key; by default LAKELOG_TLS_KEY.
        token: Identifies the caller; by default LAKELOG_TOKEN.
        token_file: A file that holds such a token, instead of `token`. It is read again when it changes, so that the
            tokens of Kubernetes' service accounts can be used. By default LAKELOG_TOKEN_FILE.
        reader: `host:port` of a reader service that reads files for subscriptions; several replicas are separated by
            commas. By default LAKELOG_READER; "": subscriptions read files in this process. It also gets TLS files and
            token.
        catalog: The name of a catalog in the file LAKELOG_CATALOGS, instead of a target; by default LAKELOG_CATALOG.
            Its entry has its own target and reader service, and may have TLS files and a token file. Without a token
            file only the catalog of LAKELOG_CATALOG gets the environment's token, or one whose entry allows it.

    Raises:
        InvalidArgument: There is no target, it is malformed, the TLS arguments contradict each other, or the file of
            catalogs cannot be used; the message names the place.
        NotFound: The file has no such catalog; the message lists those that it has.
    """
    import os

    from lakelog.client.connection.channels import note_opened
    from lakelog.client.connection.reader_target import ReaderTarget
    from lakelog.client.grpc.metastore import GrpcMetastore
    from lakelog.config import read_connect_settings
    from lakelog.sdk.catalog import Catalog
    from lakelog.storage.objects.stores import LocationStores
    from lakelog.tracing import spans

    settings = read_connect_settings(
        os.environ,
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
    if spans.start("lakelog", os.environ):
        # Traces have a channel of their own.
        note_opened()
    files = settings.tls_files
    metastore = GrpcMetastore(settings.target, tls=files, token=settings.token)
    service = ReaderTarget((), files, settings.token).resolve(settings.reader)
    return Catalog(
        metastore,
        LocationStores(settings.s3, metastore),
        cache_folder=settings.cache_folder,
        reader=service or ReaderTarget((), files, settings.token),
        name=settings.catalog,
        connect=_connect_named,
    )


def _connect_named(name: str) -> Catalog:
    """Another catalog of the file, for names with three parts. A function of a module, so that catalogs pickle."""
    return connect(catalog=name)
