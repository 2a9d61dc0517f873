"""How cases of the log are written: commits, the messages that a plain consumer finds, and what a stream shows.

A message is its kind and what it holds: `+I 1|a` a row; `+U 1|a > 1|b` a row with the old one, in Debezium's form;
`-D 1|a` a row that is gone, with what is known of it; `-D #1` a tombstone, with the values of its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.conformance.language import TableSpec
from tests.conformance.stream_language import Act

Messages = Mapping[int, tuple[str, ...]]
"""By snapshot. Those of a key stand in their order; other orders do not count."""

FORMS: Mapping[str, Mapping[str, str]] = {
    # What is not said is the default: Debezium's form, and upsert with a primary key.
    "debezium auto": {},
    "debezium upsert": {"log.format": "debezium-json", "log.changelog-mode": "upsert"},
    "debezium all": {"log.changelog-mode": "all"},
    "json auto": {"log.format": "json"},
    "json upsert": {"log.format": "json", "log.changelog-mode": "upsert"},
    "json all": {"log.format": "json", "log.changelog-mode": "all"},
    "avro upsert": {"log.format": "avro", "log.key.format": "avro"},
    "avro all": {"log.format": "avro", "log.changelog-mode": "all"},
    "avro auto": {"log.format": "avro"},
}

TWO = ("debezium auto", "json all")
KEYED = ("debezium auto", "json upsert", "debezium all", "json all")
ALL_KEYED = (*KEYED, "debezium upsert", "json auto", "avro upsert", "avro all")
APPENDED = ("debezium auto", "json all", "avro auto")


@dataclass(frozen=True)
class LogCase:
    """A rule of section 4.

    Args:
        rule: Number and name of the rule.
        table: The table, without what its form says.
        acts: What happens to it.
        holds: What a plain consumer finds, by form (`debezium`, `rows`, one of them with `upsert` or `all`) or for all
            forms alike (`every`).
        shows: What a stream shows from its beginning on, by snapshot, with kinds.
        forms: In which it is tried.
        sequences: The headers `sequence`, by snapshot, as of `every` or `upsert`; None: there are none.
    """

    rule: str
    table: TableSpec
    acts: tuple[Act, ...]
    holds: Mapping[str, Messages]
    shows: Messages
    forms: Sequence[str] = KEYED
    sequences: Mapping[int, tuple[str, ...]] | None = field(default=None)

    def expected(self, form: str) -> Messages:
        """What a plain consumer finds in one of the forms."""
        encoding, mode = form.split()
        mode = ("upsert" if self.table.key else "all") if mode == "auto" else mode
        kind = "debezium" if encoding == "debezium" else "rows"
        for name in (f"{kind} {mode}", kind, mode, "every"):
            if name in self.holds:
                return self.holds[name]
        raise AssertionError(f"{self.rule} says nothing of {form}")
