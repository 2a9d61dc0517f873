"""Who does not read an answer keeps no room of large requests."""

from __future__ import annotations

import asyncio
from typing import Any

from lakelog.serving.edge.fair_room import FairRoom
from metastore.server.edge.requests import Received
from metastore.server.interceptor import _Call


def test_who_does_not_read_an_answer_keeps_no_room() -> None:
    async def run() -> None:
        room = FairRoom(100)
        await room.take("a", 60)
        call = _Call.__new__(_Call)
        used: list[int] = []

        class Context:
            async def write(self, response: Any) -> None:
                used.append(room.used)

        async def receive(_: Any) -> Received:
            return Received(None, room, 60)  # type: ignore[arg-type]

        async def answer(*_: Any) -> str:
            return "answer"

        call._receive, call._answer = receive, answer  # type: ignore[method-assign,assignment]
        call._authorization, call._known = None, None
        call._handler = type("H", (), {"unary_unary": 1})()
        await call._receive_and_answer(None, Context())  # type: ignore[arg-type]
        assert used == [0]

    asyncio.run(run())
