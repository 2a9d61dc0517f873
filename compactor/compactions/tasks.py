"""What runs in Spark's Python workers on executors: a rewrite task.

Tasks touch files only, never the metastore. They may run twice, at once, or after their driver died. So file names
contain the number of the task attempt, a task's result names its files, and a task that fails deletes its own.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from pyspark import TaskContext

from lakelog.errors import InternalError
from lakelog.format.tables.table import TableInfo
from lakelog.spark.connection import open_table_store
from lakelog.spark.task_errors import errors_to_driver

from .bucket_work import RewriteTask, RewrittenTask, run_rewrite_task

T = TypeVar("T")


def rewrite_in_task(info: TableInfo, attempt_id: str, rewrite_task: RewriteTask) -> RewrittenTask:
    """Does a rewrite task. Runs on executors; on failure its files are deleted.

    Raises:
        DataCorrupted: A data file is damaged or missing; the error names it.
    """
    context = TaskContext.get()
    if context is None:
        raise InternalError("Pieces of compactions can be rewritten by jobs inside Spark's tasks only.")
    named = replace(rewrite_task, rewrite=with_suffix(rewrite_task.rewrite, f"-{context.taskAttemptId()}"))
    with errors_to_driver():
        return run_rewrite_task(open_table_store(info.location), info, attempt_id, named)


def with_suffix(rewrite: T, suffix: str) -> T:
    """A copy of a rewrite, and of those inside it, with other file names. Pure."""
    changed: dict[str, Any] = {}
    for field in fields(rewrite):  # type: ignore[arg-type]
        value = getattr(rewrite, field.name)
        if field.name == "name":
            changed["name"] = f"{value}{suffix}"
        elif is_dataclass(value) and any(each.name == "name" for each in fields(value)):
            changed[field.name] = with_suffix(value, suffix)
    return replace(rewrite, **changed)  # type: ignore[type-var]
