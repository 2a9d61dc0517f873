"""`lakelog table compact`: requests compactions of tables, and waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from lakelog.arguments import parse_table_name
from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column, Printer
from lakelog.cli.output.text import format_bytes, format_count, plural
from lakelog.errors import InvalidArgument
from lakelog.format.keys.partition_text import to_partition_text
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.sdk.maintenance.compaction_choice import read_partition
from lakelog.sdk.maintenance.compaction_request import plan_compaction, request_compaction
from lakelog.sdk.maintenance.compaction_result import BucketCompaction, CompactionResult, CompactionState
from lakelog.sdk.maintenance.compaction_wait import DEFAULT_TIMEOUT_S, check_ends, watch_compactions


def _format_partition(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items())


_STYLES: Final = {
    "done": "green",
    "failed": "red",
    "waiting": "yellow",
    "planned": "yellow",
    "requested": "yellow",
    "nothing": "dim",
}
_COLUMNS: Final = (
    Column("table", "TABLE", may_cut=True),
    Column("partition", "PARTITION", _format_partition, may_cut=True),
    Column("bucket", "BUCKET", right=True),
    Column("files", "FILES", format_count, right=True),
    Column("bytes", "SIZE", format_bytes, right=True),
    Column("state", "STATE", style=lambda state: _STYLES.get(state, "")),
    Column("job_id", "JOB", right=True),
    Column("outcome", "OUTCOME", may_cut=True),
)


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog table compact shop.orders",
        "lakelog table compact shop.visits --full --partition day=2024-05-01",
        "lakelog table compact shop --dry-run",
    ),
)
@click.argument("name", metavar="DATABASE[.TABLE]")
@click.option("--full", is_flag=True, help="Compact each bucket as a whole, not only what is due or newly written.")
@click.option("--where", metavar="SQL", help="Only partitions that fulfil this condition on partition columns.")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="COLUMN=VALUE[,...]",
    help="Only this partition; some of its columns are enough. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and why.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it is done.")
@click.option(
    "--timeout",
    type=Whole(0, 1_000_000),
    default=int(DEFAULT_TIMEOUT_S),
    metavar="SECONDS",
    show_default=True,
    help="How long to wait without any progress.",
)
@pass_invocation
def compact(
    invocation: Invocation,
    name: str,
    full: bool,
    where: str | None,
    partitions: tuple[str, ...],
    dry_run: bool,
    no_wait: bool,
    timeout: int,
) -> None:
    """Compact the files of a table, or of all tables of a database.

    Compactors do it (lakelog compactor run), one job for each bucket; the rows that reads return do not change. Without
    --full it compacts the buckets that need it, or, if none does, those with new files. After Ctrl-C the work goes on.
    """
    infos = _find_tables(invocation, name)
    chosen = _read_partitions(partitions)
    if "." not in name and (where is not None or chosen is not None):
        raise InvalidArgument(
            f"--where and --partition choose partitions of one table, and '{name}' is a database. Name the table: "
            f"{name}.TABLE.",
            metadata={"field": "name"},
        )
    metastore, printer = invocation.metastore, invocation.printer
    planned = [plan_compaction(metastore, info, full=full, partitions=chosen, where=where) for info in infos]
    if dry_run:
        _show(printer, [each.result for each in planned], all_of_them=True)
        return
    requested = [request_compaction(metastore, each) for each in planned]
    results = [each.result for each in requested]
    count = sum(len(each.jobs) for each in requested)
    if count and not no_wait:
        printer.note(f"Waiting for {plural(count, 'bucket')} to be compacted; Ctrl-C only ends the wait.")
        results = watch_compactions(metastore, requested, timeout_s=timeout, clock=invocation.catalog.context.clock)
    # Finished jobs are reported even if others did not finish.
    _show(printer, results, all_of_them=False)
    if not no_wait:
        check_ends(metastore, results, timeout)


def _find_tables(invocation: Invocation, name: str) -> list[TableInfo]:
    metastore = invocation.metastore
    if "." in name:
        return [metastore.get_table(parse_table_name(name))]
    return [metastore.get_table(TableName(name, table)) for table in metastore.list_tables(name)]


def _read_partitions(texts: Sequence[str]) -> list[Mapping[str, str]] | None:
    """Reads `COLUMN=VALUE,COLUMN=VALUE` texts; None: none was given. Pure."""
    return [read_partition(text, "--partition", "--where") for text in texts] or None


def _show(printer: Printer, results: Sequence[CompactionResult], *, all_of_them: bool) -> None:
    shown = [
        (result, bucket)
        for result in results
        for bucket in result.buckets
        if all_of_them or printer.for_programs or bucket.state is not CompactionState.NOTHING
    ]
    left_out = sum(len(result.buckets) for result in results) - len(shown)
    several = len({result.table for result in results}) > 1
    columns = [
        column
        for column in _COLUMNS
        if (column.key != "table" or several)
        and (column.key != "partition" or any(len(result.partition_schema) for result, _ in shown))
        and (column.key != "job_id" or any(bucket.job_id is not None for _, bucket in shown))
    ]
    printer.records(columns, [_to_record(*each) for each in shown], empty="There is nothing to compact.")
    if left_out and shown:
        printer.note(f"In {plural(left_out, 'other bucket')} there was nothing to do; --dry-run says why.")


def _to_record(result: CompactionResult, bucket: BucketCompaction) -> dict[str, Any]:
    return {
        "table": result.table,
        "partition": {
            name: to_partition_text(result.partition_schema, name, value) for name, value in bucket.partition.items()
        },
        "bucket": bucket.bucket,
        "files": bucket.files,
        "bytes": bucket.size_bytes,
        "state": bucket.state.value,
        "job_id": bucket.job_id,
        "outcome": bucket.outcome,
    }
