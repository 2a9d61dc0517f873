"""Names that the metastore has, within half a second or not at all.

A client of its own, with gRPC and the messages alone: that of the SDK repeats calls and imports Arrow.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lakelog.cli.completion.name_cache import NameCache, cache_folder

if TYPE_CHECKING:
    from lakelog.config import Address

WITHIN_S: Final = 0.5
_MOST: Final = 5000
_SNAPSHOTS: Final = 50
_AWAY: Final = "away"


class LiveNames:
    """Asks the metastore of a command line. No method raises: without an answer there are no names.

    Args:
        arguments: Those of `lakelog.connect`, from the options of the command line.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._ends_s = time.monotonic() + WITHIN_S

    def databases(self) -> list[str]:
        """All databases."""
        return self._load("databases", lambda call: [each.name for each in call("ListDatabases").databases])

    def tables(self, database: str) -> list[str]:
        """The tables of a database, without its name."""
        return self._load(f"tables {database}", lambda call: list(call("ListTables", database=database).names))

    def columns(self, table: str) -> list[str]:
        """A table's columns in their order."""

        def fetch(call: Any) -> list[str]:
            import pyarrow as pa

            schema = _find_table(call, table).schema.arrow_schema
            return list(pa.ipc.read_schema(pa.py_buffer(schema)).names)

        return self._load(f"columns {table}", fetch)

    def partition_columns(self, table: str) -> list[str]:
        """The columns by which a table is partitioned."""
        return self._load(f"partition {table}", lambda call: list(_find_table(call, table).schema.partition_by))

    def given_options(self, table: str) -> list[str]:
        """The keys of the options that a table was given."""
        return self._load(f"options {table}", lambda call: sorted(_find_table(call, table).options))

    def consumers(self, table: str) -> list[str]:
        """The consumers of a table."""
        return self._load(
            f"consumers {table}",
            lambda call: [
                each.consumer_id
                for each in call("ListConsumers", table_uuid=_find_table(call, table).table_uuid).consumers
            ],
        )

    def tags(self, table: str) -> list[str]:
        """The tags of a table."""
        return self._load(
            f"tags {table}",
            lambda call: [each.name for each in call("ListTags", table_uuid=_find_table(call, table).table_uuid).tags],
        )

    def snapshots(self, table: str) -> list[str]:
        """The ids of the newest snapshots of a table, the newest first."""

        def fetch(call: Any) -> list[str]:
            uuid = _find_table(call, table).table_uuid
            found = call("ListSnapshots", table_uuid=uuid, limit=_SNAPSHOTS, newest=True).snapshots
            return [str(each.snapshot_id) for each in reversed(found)]

        return self._load(f"snapshots {table}", fetch)

    def jobs(self) -> list[str]:
        """The ids of jobs that can be tried again."""

        def fetch(call: Any) -> list[str]:
            from lakelog.rpc.v1.jobs_pb2 import JOB_STATUS_FAILED, JOB_STATUS_RESTING

            found = call("ListJobs", statuses=[JOB_STATUS_FAILED, JOB_STATUS_RESTING], limit=_MOST).jobs
            return [str(each.job_id) for each in found]

        return self._load("jobs", fetch)

    def pipelines(self) -> list[str]:
        """The names of all pipelines."""
        return self._load("pipelines", lambda call: [each.name for each in call("ListPipelines").pipelines])

    def _load(self, key: str, fetch: Callable[[Any], list[str]]) -> list[str]:
        """Names from the cache, or from the metastore while there is time."""
        found: list[str] | None = None

        def work() -> None:
            nonlocal found
            with contextlib.suppress(Exception):
                found = self._load_in_time(key, fetch)

        # Not even a name service that does not answer, or a slow import, may hold up a shell.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(max(self._ends_s - time.monotonic(), 0.0))
        return found or []

    def _load_in_time(self, key: str, fetch: Callable[[Any], list[str]]) -> list[str]:
        from lakelog.config import read_address

        address = read_address(os.environ, **self._arguments)
        cache = NameCache(cache_folder(os.environ), address.target, _caller(address))
        known = cache.get(key)
        if known is not None or cache.get(_AWAY) is not None:
            return known or []
        names = self._fetch(address, cache, fetch)
        # A name with a line end would be two for the shell.
        names = [name for name in names[:_MOST] if name.isprintable()]
        cache.put(key, names)
        return names

    def _fetch(self, address: Address, cache: NameCache, fetch: Callable[[Any], list[str]]) -> list[str]:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        import grpc

        from lakelog.client.connection.target import check_token, parse_target
        from lakelog.client.connection.tokens import to_metadata

        target, tls = parse_target(address.target), address.tls_files
        check_token(address.token, target, tls=tls is not None)
        metadata = to_metadata(address.token)
        if tls is None:
            channel = grpc.insecure_channel(str(target))
        else:
            channel = grpc.secure_channel(str(target), tls.load_credentials())

        def call(method: str, **fields: Any) -> Any:
            left_s = max(self._ends_s - time.monotonic(), 0.01)
            stub, request = _find_method(channel, method)
            return stub(request(**fields), timeout=left_s, metadata=metadata)

        try:
            return fetch(call)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                # The next key need not wait for it again.
                cache.put(_AWAY, [])
            return []


def _caller(address: Address) -> str:
    """What tells callers apart: the token, or the file that holds it."""
    return address.token if isinstance(address.token, str) else repr(address.token)


def _find_method(channel: Any, name: str) -> tuple[Any, Any]:
    """A method of the metastore, and the class of its request; imports only the messages that it needs."""
    from importlib import import_module

    from google.protobuf.message_factory import GetMessageClass

    from lakelog.rpc.services import Stubs

    module = import_module(f"lakelog.rpc.v1.{_MODULES[name]}_pb2")
    (service,) = (each for each in module.DESCRIPTOR.services_by_name.values() if name in each.methods_by_name)
    return getattr(Stubs(channel, [service]), name), GetMessageClass(service.methods_by_name[name].input_type)


_MODULES: Final = {
    "ListDatabases": "catalog",
    "ListTables": "catalog",
    "GetTable": "catalog",
    "ListConsumers": "consumers",
    "ListTags": "tags",
    "ListSnapshots": "snapshots",
    "ListJobs": "jobs",
    "ListPipelines": "jobs",
}
"""The proto file of each method."""


def _find_table(call: Any, table: str) -> Any:
    from lakelog.rpc.v1.catalog_pb2 import TableName

    database, _, name = table.partition(".")
    return call("GetTable", name=TableName(database=database, name=name)).table
