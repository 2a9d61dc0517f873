"""The writer service with a fault in it, for tests: dies at a step of a batch, as told by the variable `FAULT`.

`FAULT=step:batch`; steps are `planned`, `altered` (the table has the columns that the batch brings), `written` (files
are there, the commit is not), `committed` (the commit is there, nothing knows of it) and `counted` (it is not noted
that the batch is done). At the step `frozen`, which is that of `written`, it stops until somebody lets it go on;
`unfenced` is the same with commits that leave their fence out.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from importlib import import_module
from typing import Any

import writer.batch as batch
from writer.__main__ import main


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    # SUBTLE: another thread may take the signal, and this one runs on until the stop reaches it.
    time.sleep(0.3)


def install_fault(step: str, at_batch: int) -> None:
    table_write: Any = import_module("lakelog.spark.batch.table_write")
    write, commit, count = batch.BatchWriter._write, table_write.commit_attempt, batch.BatchWriter._count
    add_columns = batch.BatchWriter._add_columns

    def faulty_write(self: Any, spark: Any, planned: Any) -> Any:
        if step == "planned" and planned.batch_id == at_batch:
            die()
        return write(self, spark, planned)

    def faulty_add(self: Any, spark: Any, tasks: Any) -> None:
        before = self.info.schema.schema_id
        add_columns(self, spark, tasks)
        if step == "altered" and self.info.schema.schema_id > before:
            die()

    def faulty_commit(metastore: Any, attempt: Any, written: Any, terms: Any, *more: Any) -> Any:
        if step == "written" and terms.identifier == at_batch:
            die()
        if step in ("frozen", "unfenced") and terms.identifier == at_batch:
            freeze()
        if step == "unfenced":
            terms = dataclasses.replace(terms, fences=())
        result = commit(metastore, attempt, written, terms, *more)
        if step == "committed" and terms.identifier == at_batch:
            die()
        return result

    def faulty_count(self: Any, batch_id: int, snapshot_id: int | None) -> Any:
        result = count(self, batch_id, snapshot_id)
        if step == "counted" and batch_id == at_batch:
            die()
        return result

    batch.BatchWriter._write = faulty_write  # type: ignore[method-assign]
    batch.BatchWriter._add_columns = faulty_add  # type: ignore[method-assign]
    table_write.commit_attempt = faulty_commit
    batch.BatchWriter._count = faulty_count  # type: ignore[method-assign]


if __name__ == "__main__":
    step, _, at = os.environ["FAULT"].partition(":")
    install_fault(step, int(at))
    os._exit(main(sys.argv[1:]))
