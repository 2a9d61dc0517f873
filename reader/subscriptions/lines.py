"""What the service's log says about a subscription."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lakelog.options.declared.streams import CONSUMER_ID

from .pump import Pump
from .requests import Start

_SHOWN_TABLES: Final = 8


@dataclass
class SubscriptionLines:
    """The fields that lines about one subscription share, as far as they are known.

    Args:
        caller: Who subscribes; empty: not known, or everyone.
        pump: Reads for it; None: it was not opened.
        start: What was requested; None: nothing yet.
    """

    caller: str = ""
    pump: Pump | None = None
    start: Start | None = None

    def to_fields(self) -> dict[str, Any]:
        """Fields of a line: `table` and `snapshot` are in the same order. The snapshots are the last ones sent."""
        fields: dict[str, Any] = {"caller": self.caller or None}
        if self.start is not None:
            fields["table"] = [str(name) for name, _ in self.start.tables[:_SHOWN_TABLES]]
            if consumer := self.start.request.options.get(CONSUMER_ID.key):
                fields["consumer"] = consumer
        if self.pump is not None:
            fields["snapshot"] = list(self.pump.reached.values())[:_SHOWN_TABLES]
        return fields
