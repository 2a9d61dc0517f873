"""A flood of subscriptions that are refused writes few log lines, which still name each address."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from structlog.typing import EventDict

from lakelog.clock import RandomIds
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access, parse_token_file
from lakelog.serving.edge.refusal_lines import BURST, RefusalLines
from reader.subscriptions.metrics import SubscriptionMetrics
from reader.subscriptions.servicer import ReaderServicer

TOKENS = parse_token_file("ann reader reader-token-0123456789\n", "tokens").tokens
COUNT = 500


class Stranger:
    """The call of a client without a token, as the servicer sees it."""

    def __init__(self, address: str, port: int) -> None:
        self._peer = f"ipv4:{address}:{port}"

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def auth_context(self) -> dict[str, Any]:
        return {}

    def set_code(self, code: object) -> None: ...

    def set_details(self, message: str) -> None:
        assert "no token" in message

    def set_trailing_metadata(self, metadata: object) -> None: ...


def flood() -> list[EventDict]:
    """What is logged of subscriptions without a token, of which two come from another address."""

    async def refuse_all() -> None:
        servicer = ReaderServicer(
            # Whoever is refused reads nothing.
            cast(Catalog, None),
            Access(tokens=TOKENS),
            max_subscriptions=1,
            caller_share=1.0,
            holder="test",
            metrics=SubscriptionMetrics(CollectorRegistry()),
            log=structlog.get_logger(),
            ids=RandomIds(),
            draining=asyncio.Event(),
        )
        # Each from a new connection.
        strangers = [Stranger("10.0.0.1", port) for port in range(COUNT)]
        strangers += [Stranger("10.6.6.6", port) for port in range(2)]
        for each in strangers:
            await servicer.Subscribe(None, cast(Any, each))
        servicer.refusals.report()

    with capture_logs() as lines:
        asyncio.run(refuse_all())
    return lines


def test_refused_subscriptions_have_few_lines() -> None:
    lines = flood()
    ended = [line for line in lines if line["event"] == "subscription ended"]
    left_out = [line for line in lines if line["event"] == "refusals without a line"]
    assert BURST <= len(ended) < COUNT / 2
    assert len(ended) + sum(line["count"] for line in left_out) == COUNT + 2
    addresses = Counter(line["peer"].split(":")[1] for line in ended)
    assert addresses["10.6.6.6"] == 2, "the first ones of an address"


def test_control_with_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusalLines, "admit", lambda *_: True)
    assert len(flood()) == COUNT + 2
