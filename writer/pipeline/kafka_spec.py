"""Topics of Kafka as a pipeline's file describes them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakelog.log.codecs.avro.writer_schema import WriterSchema
from lakelog.records.text_options import TextOptions

from .columns import ColumnSource

DEFAULT_RECORDS_PER_BATCH: Final = 1_000_000
"""Some ten seconds of work: long enough that commits cost little, short enough to be repeated."""

SERVERS_OPTION: Final = "kafka.bootstrap.servers"


class RecordFormat(enum.Enum):
    """What the values of records hold."""

    JSON = "json"
    DEBEZIUM_JSON = "debezium-json"
    AVRO = "avro"


class Start(enum.Enum):
    """Where a pipeline begins that has read nothing yet."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class AvroForm:
    """How records of Avro are to be read.

    Args:
        schema: What they are written by.
        registry_id: They begin with the header of a schema registry (a byte 0, and the schema's number there in four
            bytes), and this is the number; None: they have no header.
        others: Further schemas that records are written by, each with a number; as where a topic's schema changes.
    """

    schema: WriterSchema
    registry_id: int | None = None
    others: tuple[AvroForm, ...] = ()

    @property
    def all(self) -> tuple[AvroForm, ...]:
        """This one and the others."""
        return (self, *self.others)

    @property
    def arrow(self) -> pa.Schema:
        """The fields of all of them, with types that take the values of each."""
        return pa.unify_schemas([each.schema.arrow for each in self.all], promote_options="permissive")

    @property
    def header(self) -> bytes:
        """What records of this schema begin with."""
        return b"" if self.registry_id is None else b"\0" + self.registry_id.to_bytes(4, "big")


@dataclass(frozen=True)
class KafkaSource:
    """Topics of one cluster.

    Args:
        topics: Their names; one at least, none twice.
        format: What the values of their records hold.
        options: How its brokers are reached: `kafka.*` as tables have them, secrets by reference.
        starting: Where to begin; a number: with the first record of this time or later, in milliseconds since the
            epoch.
        max_records_per_batch: At most about so many make a batch.
        columns: By column of the table: where it comes from. Others come from the field of the same name.
        ignore_unknown: Whether fields that the table does not have are passed over; else they are an error.
        fill_missing: Whether columns that the source leaves out become NULL; else they are an error.
        text: How text in JSON is to be understood.
        time_unit: Of Debezium's timestamps that are numbers and have no schema with them: `ms`, `us` or `ns`.
        avro: Given if and only if the format is Avro.
        takes_uncommitted: Whether records are taken that a lakelog table sent before their commit (`log.consistency` =
            `eventual`): some are never committed, some come twice, and their order is not that of the commits.
    """

    topics: tuple[str, ...]
    format: RecordFormat
    options: Mapping[str, str]
    starting: Start | int = Start.EARLIEST
    max_records_per_batch: int = DEFAULT_RECORDS_PER_BATCH
    columns: Mapping[str, ColumnSource] = field(default_factory=dict)
    ignore_unknown: bool = False
    fill_missing: bool = False
    text: TextOptions = field(default_factory=TextOptions)
    time_unit: str | None = None
    avro: AvroForm | None = None
    takes_uncommitted: bool = False

    @property
    def identity(self) -> str:
        """By what a checkpoint knows its source. Brokers may move; which topics they are, their own ids tell."""
        return f"kafka {_name_topics(sorted(self.topics))}"

    @property
    def description(self) -> str:
        """What is read, for people."""
        return f"{self.format.value} records of {_name_topics(self.topics)} at {self.servers}"

    @property
    def servers(self) -> str:
        """Where the brokers are."""
        return self.options[SERVERS_OPTION]

    @property
    def unit(self) -> str:
        """What batches are counted in."""
        return "records"

    @property
    def restart_remedy(self) -> str:
        """What to do so that a pipeline with an empty checkpoint reads what is not in the table yet."""
        return "in source.starting the time of the first record that is not in the table yet"


def _name_topics(names: Sequence[str]) -> str:
    return f"topic {names[0]}" if len(names) == 1 else f"topics {', '.join(names)}"
