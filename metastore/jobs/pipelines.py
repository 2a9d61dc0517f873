"""The progress of ingestion pipelines, as they report it."""

from __future__ import annotations

from typing import Final

from lakelog.errors import InvalidArgument, NotFound, ResourceExhausted
from lakelog.format.jobs.work import Pipeline

from ..ownership import Principal, check_lease_owner
from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_pipeline_name, check_text, invalid
from .leases import lease_lost

MAX_PIPELINES: Final = 1000
"""Pipelines of one caller that are listed: all are read and sent in one answer, with texts of some kilobytes each."""

STATES: Final = ("starting", "running", "stopped", "failed")
_MAX_TEXT: Final = 4096


class Pipelines(StoreUser):
    """The use cases of pipelines."""

    async def report_pipeline(self, pipeline: Pipeline, epoch: int, *, by: Principal) -> None:
        _check_pipeline(pipeline)
        check_number("epoch", epoch, 1)
        lease = f"pipeline/{pipeline.name}"

        async def report(tx: Transaction) -> None:
            current, owner = await tx.lock_lease(lease)
            if current != epoch:
                raise lease_lost(lease, epoch, current, "")
            check_lease_owner(lease, owner, by)
            # An error here undoes the report.
            is_more = await tx.upsert_pipeline(pipeline, owner or by.name)
            if is_more and not by.may_all and await tx.count_pipelines(by.name, MAX_PIPELINES + 1) > MAX_PIPELINES:
                raise _too_many(pipeline.name, by)

        await run_transaction(self._store, report)

    async def list_pipelines(self) -> list[Pipeline]:
        return await run_transaction(self._store, lambda tx: tx.list_pipelines())

    async def forget_pipeline(self, name: str) -> None:
        check_pipeline_name(name)

        async def forget(tx: Transaction) -> None:
            # No one takes the lease between the check and the deletion.
            await tx.lock_lease(f"pipeline/{name}")
            found = next((pipeline for pipeline in await tx.list_pipelines() if pipeline.name == name), None)
            if found is None:
                raise NotFound(
                    f"No pipeline '{name}' has reported. `lakelog pipelines list` lists those that have.",
                    reason="PIPELINE_NOT_FOUND",
                    metadata={"pipeline": name},
                )
            if found.holder:
                raise InvalidArgument(
                    f"Pipeline '{name}' is held by '{found.holder}'. Stop it first; after a kill wait until its lease "
                    "is over, which takes half a minute.",
                    reason="PIPELINE_HELD",
                    metadata={"pipeline": name, "holder": found.holder},
                )
            await tx.delete_pipeline(name)

        await run_transaction(self._store, forget)


def _too_many(name: str, by: Principal) -> ResourceExhausted:
    return ResourceExhausted(
        f"pipeline.name is '{name}', and {MAX_PIPELINES:,} other pipelines of {by.name} have reported, which is the "
        "limit of one caller. Use one of those names again, or ask an admin to remove some: lakelog pipelines forget.",
        reason="TOO_MANY_PIPELINES",
        metadata={"field": "pipeline.name", "pipeline": name, "limit": str(MAX_PIPELINES)},
    )


def _check_pipeline(pipeline: Pipeline) -> None:
    check_pipeline_name(pipeline.name)
    check_text("pipeline.table", pipeline.table, 1, 257)
    for field, text in (
        ("source", pipeline.source),
        ("position", pipeline.position),
        ("last_error", pipeline.last_error),
    ):
        check_text(f"pipeline.{field}", text, 0, _MAX_TEXT)
    if pipeline.state not in STATES:
        raise invalid("pipeline.state", pipeline.state, f"Use one of {', '.join(STATES)}.")
    if pipeline.last_batch_id is not None:
        check_number("pipeline.last_batch_id", pipeline.last_batch_id, 0)
    if pipeline.lag is not None:
        check_number("pipeline.lag", pipeline.lag, 0)
    check_number("pipeline.total_rows", pipeline.total_rows, 0)
    check_number("pipeline.dead_letter_rows", pipeline.dead_letter_rows, 0)
