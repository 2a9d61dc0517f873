"""`lakelog log`: tables' external logs: their progress, their check against the table, their restart."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from typing import Any, Final

import click

from lakelog.cli.input.confirmation import confirm
from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_age, format_count, plural
from lakelog.clock import SystemClock
from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.extras import explain_missing
from lakelog.format.log.state import LogInfo
from lakelog.log.codecs.avro.schema import to_avro_key_schema, to_avro_schema
from lakelog.log.codecs.codec import AVRO
from lakelog.log.protocol import Log
from lakelog.log.secrets import read_secrets
from lakelog.log.tally import LogFindings
from lakelog.options.declared.log import LOG_FORMAT, LOG_KEY_FORMAT
from lakelog.sdk.maintenance.log_verification import verify_log
from lakelog.system_tables.metadata.log_status import LogStatus, load_log_status

_STATUS: Final = (
    Column("table", "TABLE"),
    Column("topic", "TOPIC", may_cut=True),
    Column("generation", "GENERATION", right=True),
    Column("partitions", "PARTITIONS", right=True),
    Column("published_snapshot_id", "PUBLISHED", right=True),
    Column("latest_snapshot_id", "NEWEST", right=True),
    Column("behind", "BEHIND", right=True, style=lambda text: "" if text == "0" else "yellow"),
    Column("rows", "ROWS BEHIND", right=True),
    Column("behind_ms", "FOR", lambda age: format_age(age) if age else "", right=True),
    Column("holder", "PUBLISHED BY", may_cut=True),
)
_FINDINGS: Final = (
    Column("table", "Table"),
    Column("topic", "Topic"),
    Column("snapshots", "Snapshots", format_count),
    Column("rows", "Rows", format_count),
    Column("records", "Records read", format_count),
    Column("lost", "Lost", format_count),
    Column("duplicates", "Duplicate", format_count),
    Column("disordered", "Out of order", format_count),
    Column("foreign", "Foreign", format_count),
    Column("torn", "Torn snapshots", lambda found: ", ".join(map(str, found[:10])) or "0"),
    Column("compacted", "Replaced by later ones", format_count),
    Column("expired", "No longer kept", format_count),
    Column("earlier", "Older, not checked", format_count),
    Column("taken_back", "Taken back", format_count),
    Column("uncommitted", "Not committed yet", format_count),
)


@click.group(cls=LakelogGroup)
def log() -> None:
    """Inspect, check and restart the external logs of tables."""


@log.command(example=("lakelog log status", "lakelog log status shop.orders"))
@click.argument("names", metavar="[DATABASE.TABLE]...", nargs=-1)
@pass_invocation
def status(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Show how far the logs of all tables, or of the named ones, are published."""
    uuids = [invocation.catalog.table(name).uuid for name in names]
    found = load_log_status(invocation.metastore, uuids, time.time_ns() // 1_000_000)
    records = [_describe(each) for each in found]
    shown = records if invocation.printer.for_programs else [_show(record) for record in records]
    invocation.printer.records(_STATUS, shown, empty="No table has a log: tables get one by 'log.system' = 'kafka'.")
    if not invocation.printer.for_programs:
        for record in records:
            if record["problem"]:
                invocation.printer.note(f"{record['table']}: {record['problem']}", style="red")


@log.command(example=("lakelog log verify shop.orders",))
@click.argument("name", metavar="DATABASE.TABLE")
@pass_invocation
def verify(invocation: Invocation, name: str) -> None:
    """Read a table's whole log and compare it with the rows of the table's snapshots.

    It reads the topic as any consumer does, and the table's files. It needs access to the brokers, and the secrets that
    the table's options name, as LAKELOG_SECRET_NAME or in the folder LAKELOG_SECRETS_DIR. It counts lost, duplicate,
    foreign and disordered records and torn snapshots. If there are any, the exit code is 1.
    """
    table = invocation.catalog.table(name)
    info = invocation.metastore.get_log(table.uuid)
    store = invocation.catalog.open_store(invocation.metastore.get_table_by_uuid(table.uuid))
    (before,) = load_log_status(invocation.metastore, [table.uuid], time.time_ns() // 1_000_000)
    found = verify_log(invocation.metastore, info, _open_log(info), store, SystemClock())
    record = {"table": table.name, "topic": info.topic, "is_fine": found.is_fine, **asdict(found)}
    if invocation.printer.for_programs:
        invocation.printer.document(record)
    else:
        invocation.printer.facts(_FINDINGS, record)
        if before.snapshots_behind:
            count = plural(before.snapshots_behind, "snapshot")
            behind = f"at least {count}" if before.is_further else count
            invocation.printer.note(f"Not published when the check began: {behind} (lakelog log status).")
    if not found.is_fine:
        raise _damaged(info, found)


@log.command(example=("lakelog log schema shop.orders", "lakelog log schema shop.orders --key"))
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--key", is_flag=True, help="Print the schema of the keys.")
@pass_invocation
def schema(invocation: Invocation, name: str, key: bool) -> None:
    """Print the Avro schema of the records that new commits bring to a table's log.

    Such records contain no schema. The option 'log.format' must be avro, with --key 'log.key.format'.
    """
    table = invocation.catalog.table(name)
    info = invocation.metastore.get_table_by_uuid(table.uuid)
    # A table without a log is an error; the format's options have defaults all the same.
    invocation.metastore.get_log(table.uuid)
    option = LOG_KEY_FORMAT if key else LOG_FORMAT
    given = option.read(info.options)
    if given != AVRO or (key and not info.schema.primary_key):
        why = "has no primary key" if given == AVRO else f"has '{option.key}' = '{given}'"
        raise InvalidArgument(f"Table {table.name} {why}: its log contains no Avro, so there is no schema to print.")
    text = to_avro_key_schema(info.schema) if key else to_avro_schema(info.schema)
    invocation.printer.document(json.loads(text))


@log.command(example=("lakelog log restart shop.orders",))
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def restart(invocation: Invocation, name: str, yes: bool) -> None:
    """Restart a table's log after the newest snapshot, for instance because its topic was cut or made again.

    Snapshots that are not published by then never will be: consumers of the log must read the table once. For admins.
    """
    table = invocation.catalog.table(name)
    info = invocation.metastore.get_log(table.uuid)
    confirm(
        invocation,
        f"Restart the log of {table.name} in the topic {info.topic}?",
        yes,
        declined="Nothing was restarted.",
    )
    begun = invocation.metastore.restart_log(table.uuid)
    invocation.printer.done(
        f"Restarted the log of {table.name} after snapshot {begun.starts_after}, in the topic {begun.topic}, as "
        f"generation {begun.generation}.",
        {
            "table": table.name,
            "topic": begun.topic,
            "generation": begun.generation,
            "starts_after": begun.starts_after,
        },
    )


def _open_log(info: LogInfo) -> Log:
    try:
        from lakelog.log.kafka import open_kafka_log
    except ModuleNotFoundError as error:
        raise InvalidArgument(explain_missing(error, "lakelog log verify", "kafka")) from error
    return open_kafka_log(info.options, read_secrets(os.environ))


def _describe(status: LogStatus) -> dict[str, Any]:
    """A log's record. Pure."""
    info, state = status.info, status.state
    return {
        "table": str(info.name),
        "topic": info.topic,
        "generation": info.generation,
        "starts_after": info.starts_after,
        "partitions": status.partitions,
        "published_snapshot_id": state.snapshot_id,
        "published_rows_of_next": state.next_index,
        "latest_snapshot_id": state.latest_snapshot_id,
        "snapshots_behind": status.snapshots_behind,
        "rows_behind": status.rows_behind,
        "is_further_behind": status.is_further,
        "behind_ms": status.behind_ms,
        "offsets": list(state.offsets),
        "reported_at_ms": state.reported_at_ms or None,
        "holder": state.holder or None,
        "problem": status.problem or None,
    }


def _show(record: dict[str, Any]) -> dict[str, Any]:
    """A log's record, as the texts of its row in a table. Pure."""
    # The count has a limit: there may be more.
    more = "+" if record["is_further_behind"] else ""
    counts = {"behind": record["snapshots_behind"], "rows": record["rows_behind"]}
    return {**record, **{key: f"{format_count(count)}{more}" for key, count in counts.items()}}


def _damaged(info: LogInfo, found: LogFindings) -> DataCorrupted:
    wrong = (
        (found.lost, "lost row"),
        (0 if found.may_repeat else found.duplicates, "duplicate record"),
        (found.disordered, "record out of order"),
        (found.foreign, "foreign record"),
        (len(found.torn), "torn snapshot"),
    )
    reported = ", ".join(plural(count, noun) for count, noun in wrong if count)
    return DataCorrupted(
        f"The log of {info.name} in the topic {info.topic} differs from the table: {reported}; for instance "
        f"{'; '.join(found.examples)}. Find out which program wrote to the topic or cut it; `lakelog log restart "
        f"{info.name}` restarts the log.",
        reason="LOG_DAMAGED",
        metadata={"table": str(info.name), "topic": info.topic},
    )
