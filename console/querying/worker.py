"""The process that runs one statement. The process from which it is forked has imported this module."""

from __future__ import annotations

import os
import resource
import select
import signal
import threading
from multiprocessing.connection import Connection
from typing import Final

import pyarrow as pa

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import InternalError, LakelogError
from lakelog.privacy.redaction import blot_out
from lakelog.sdk.catalog import Catalog
from lakelog.sql.query.duckdb_query import QueryLimits, import_duckdb, run_query
from lakelog.sql.query.query import plan_select
from lakelog.sql.session import SqlSession
from lakelog.sql.statements import Query
from lakelog.storage.objects.stores import LocationStores

from .statement import read_statement

DUCKDB_BYTES: Final = 512 << 20
"""Memory that DuckDB manages."""

PROCESS_BYTES: Final = 2 << 30
"""Memory of the process, with the stacks of its threads and what DuckDB does not count, such as long texts."""

ANSWER_BYTES: Final = 16 << 20
"""What one page can sensibly show; rows beyond it are left out."""

# What statements need is loaded once, before the processes are forked, also what is otherwise loaded at its first use.
import_duckdb()
plan_select("SELECT 1")
_LOADED: Final = (GrpcMetastore, LocationStores)


def work(answers: Connection, catalog: Catalog, text: str, database: str | None, max_rows: int, seconds: float) -> None:
    """Runs the statement, and sends its rows as Arrow's stream with whether there are more, or its error."""
    # Should the console be gone, no one else ends this process.
    threading.Thread(target=_end_with_reader, args=(answers,), daemon=True).start()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (PROCESS_BYTES, PROCESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers.send(None)
    try:
        rows = _run(SqlSession(catalog, database), text, max_rows + 1)
        kept, is_cut = _keep(rows, max_rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, kept.schema) as writer:
            writer.write_table(kept)
        answers.send((sink.getvalue().to_pybytes(), is_cut))
    except LakelogError as error:
        answers.send(error)
    except (MemoryError, pa.ArrowMemoryError):
        # As when the process is ended for it: there is no answer.
        return
    except Exception as error:
        answers.send(InternalError(f"The statement failed: {blot_out(str(error))[:500]}"))


def _end_with_reader(answers: Connection) -> None:
    """Ends this process as soon as no one can read its answer; waits without looking."""
    watched = select.poll()
    watched.register(answers.fileno(), 0)
    watched.poll()
    os._exit(1)


def _run(session: SqlSession, text: str, max_rows: int) -> pa.RecordBatchReader:
    statement = read_statement(text)
    if isinstance(statement, Query):
        return run_query(session, statement.sql, limits=QueryLimits(max_rows, DUCKDB_BYTES))
    rows = session.run(statement).rows
    assert rows is not None, "statements that only read return rows"
    return rows.to_reader()


def _keep(rows: pa.RecordBatchReader, max_rows: int) -> tuple[pa.Table, bool]:
    """The first rows, as many as may be shown, and whether there are more."""
    kept: list[pa.RecordBatch] = []
    count, size = 0, 0
    for batch in rows:
        shown = batch.slice(0, max_rows - count)
        while shown.num_rows and size + shown.nbytes > ANSWER_BYTES:
            shown = shown.slice(0, shown.num_rows // 2)
        kept.append(shown)
        if shown.num_rows < batch.num_rows:
            return pa.Table.from_batches(kept, rows.schema), True
        count += shown.num_rows
        size += shown.nbytes
    return pa.Table.from_batches(kept, rows.schema), False
