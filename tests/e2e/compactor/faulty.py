"""The compactor with a fault in it, for tests: dies at a step of its first job, as told by the variable `FAULT`.

Steps are `taken` (it has the job), `staged` (and an attempt), `written` (files are there, nobody knows of them) and
`attached`, or `committed` for a compaction or deletion vectors
(all but the job's end is done). Of expiry they are `aborted`
(what goes is known, and nothing deleted)
and `deleted` (but not forgotten), of a purge `purge-half` (some files are
deleted)
and `purge-rows` (all files are, and some of what is known of the table). At `frozen`, which is the step `written`, it
stops until somebody lets it go on; so does `unleased`, which works under no lease at all.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib import import_module
from typing import Any

from compactor.__main__ import main
from compactor.compactions.rewriting import LocalRewriter
from compactor.compactions.spark_rewriting import SparkRewriter
from lakelog.client.grpc.metastore import GrpcMetastore
from tests.e2e.compactor.unleased import switch_leases_off


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    # SUBTLE: another thread may take the signal, and this one runs on until the stop reaches it.
    time.sleep(0.3)


def install_fault(step: str) -> None:
    changelogs: Any = import_module("compactor.compactions.changelogs")
    compactions: Any = import_module("compactor.compactions.compactions")
    deletion_vectors: Any = import_module("compactor.compactions.deletion_vectors")
    attach, stage, commit = (
        GrpcMetastore.attach_changelogs,
        GrpcMetastore.stage_attempt,
        GrpcMetastore.commit,
    )

    frozen: list[bool] = []

    def faulty_do(do: Any) -> Any:
        def run(self: Any, job: Any, control: Any) -> Any:
            if step == "taken":
                die()
            return do(self, job, control)

        return run

    def faulty_stage(self: Any, *arguments: Any, **more: Any) -> Any:
        staged = stage(self, *arguments, **more)
        if step == "staged":
            die()
        return staged

    def faulty_make(make: Any) -> Any:
        def run(*arguments: Any) -> Any:
            made = make(*arguments)
            if step == "written":
                die()
            if step == "frozen" and not frozen:
                frozen.append(True)
                freeze()
            return made

        return run

    def faulty_attach(self: Any, request: Any) -> Any:
        result = attach(self, request)
        if step == "attached":
            die()
        return result

    def faulty_commit(self: Any, request: Any) -> Any:
        result = commit(self, request)
        if step == "committed":
            die()
        return result

    expire, forget = GrpcMetastore.expire_snapshots, GrpcMetastore.forget_expired_files

    def faulty_expire(self: Any, *arguments: Any, **more: Any) -> Any:
        found = expire(self, *arguments, **more)
        if step == "aborted":
            die()
        return found

    def faulty_forget(self: Any, *arguments: Any) -> None:
        if step == "deleted":
            die()
        forget(self, *arguments)

    GrpcMetastore.expire_snapshots = faulty_expire
    GrpcMetastore.forget_expired_files = faulty_forget
    purges: Any = import_module("compactor.retention.purges")
    delete_files, purge_rows = purges.PurgeJobExecutor._delete_files, GrpcMetastore.purge_rows

    def faulty_delete_files(self: Any, store: Any, control: Any, deletions: Any) -> None:
        if step == "purge-half":
            store.delete_many([each.path for each in next(iter(store.list_pages(3)))])
            die()
        delete_files(self, store, control, deletions)

    def faulty_purge_rows(self: Any, job_id: int, epoch: int) -> int:
        deleted = purge_rows(self, job_id, epoch)
        if step == "purge-rows":
            die()
        return deleted

    purges.PurgeJobExecutor._delete_files = faulty_delete_files
    GrpcMetastore.purge_rows = faulty_purge_rows
    for executor in (
        changelogs.ChangelogJobExecutor,
        compactions.CompactionJobExecutor,
        deletion_vectors.DeletionVectorJobExecutor,
    ):
        executor.do = faulty_do(executor.do)
    changelogs.make_late_changelogs = faulty_make(changelogs.make_late_changelogs)
    deletion_vectors.build_deletion_vectors = faulty_make(deletion_vectors.build_deletion_vectors)
    for rewriter in (LocalRewriter, SparkRewriter):
        rewriter.rewrite_some = faulty_make(rewriter.rewrite_some)  # type: ignore[method-assign]
    GrpcMetastore.commit = faulty_commit  # type: ignore[method-assign]
    GrpcMetastore.stage_attempt = faulty_stage  # type: ignore[method-assign]
    GrpcMetastore.attach_changelogs = faulty_attach


if __name__ == "__main__":
    if os.environ["FAULT"] == "unleased":
        switch_leases_off()
        install_fault("frozen")
    else:
        install_fault(os.environ["FAULT"])
    os._exit(main(sys.argv[1:]))
