"""A real server whose ways in are files, which are looked at often."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.clock import SystemClock
from lakelog.errors import LakelogError
from lakelog.serving.access_settings import AccessSettings, SignedSettings
from lakelog.serving.listening import ServerTls
from lakelog.serving.rotation.live_access import LiveAccess
from lakelog.serving.rotation.live_tls import LiveTls
from lakelog.serving.rotation.metrics import RotationMetrics
from lakelog.serving.rotation.rotation import Rotation
from lakelog.serving.signed_tokens.rules import KeySource, TokenRules
from metastore.server.audit import log
from tests.integration.server.running_server import RunningServer, ScriptedUseCases, snapshot
from tests.support.issuer import AUDIENCE, ISSUER, sign

RULES = TokenRules(ISSUER, AUDIENCE, role_claim="role")
WITHIN_S = 30.0


def replace(path: Path, content: bytes | str) -> None:
    """As Kubernetes does: the new content is there all at once."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(new, path)


def token_for(key: Any, lasts_s: float = 3600.0, **claims: Any) -> str:
    """A token by the real clock."""
    now_s = time.time()
    return sign(key, now_s=now_s, exp=now_s + lasts_s, **{"role": "admin", **claims})


def signed_by(keys: KeySource) -> SignedSettings:
    return SignedSettings(RULES, keys)


class RotatingServer:
    """The server and its rotation.

    Args:
        settings: The ways in.
        tls: The TLS files.
        every_s: Between two looks.
        use_cases: As of `RunningServer`.
    """

    def __init__(
        self,
        settings: AccessSettings,
        tls: ServerTls | None = None,
        *,
        every_s: float = 0.05,
        use_cases: Any = None,
    ) -> None:
        self.ways_in = LiveAccess(settings, SystemClock(), log)
        self.tls = None if tls is None else LiveTls(tls, SystemClock())
        self.running = RunningServer(
            use_cases or ScriptedUseCases(), access=self.ways_in.access, tls=self.tls, grace_s=2.0
        )
        self.target = self.running.target
        self.ways_in.on_change = self.running.server.use_access
        self._every_s = every_s
        self.rotation: Rotation = self.running.run(self._rotate())

    async def _rotate(self) -> Rotation:
        rotation = Rotation(
            self.ways_in.watched, self.tls, RotationMetrics(self.running.registry), log, every_s=self._every_s
        )
        rotation.start()
        return rotation

    def measure(self, name: str, **labels: str) -> float:
        """A metric's present value."""
        return self.running.registry.get_sample_value(f"lakelog_server_{name}", labels) or 0.0

    def wait_for(self, setting: str, outcome: str, count: float = 1.0) -> None:
        """Waits until so many changes of a setting had an outcome."""
        wait_until(lambda: self.measure("rotations_total", setting=setting, outcome=outcome) >= count)

    def stop(self) -> None:
        self.running.run(self.rotation.close())
        self.running.stop()


class Watching:
    """A watch of one table that a thread reads."""

    def __init__(self, client: GrpcMetastore) -> None:
        self.seen: list[int] = []
        self.end: LakelogError | None = None
        self._watch = client.watch([WatchPosition("a" * 32, 0, "")])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for event in self._watch:
                self.seen += [found.snapshot_id for found in event.snapshots]
        except LakelogError as error:
            self.end = error

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def wait_for_end(self) -> LakelogError:
        """The error that ends it."""
        wait_until(lambda: not self.is_open)
        assert self.end is not None
        return self.end

    def close(self) -> None:
        self._watch.close()
        self._thread.join()


def push(server: RunningServer, number: int) -> None:
    """A snapshot for one of the watches."""
    server.push(WatchEvent("a" * 32, (snapshot(number),), False))


def wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def outcome_of(call: Callable[[], object]) -> str:
    """`OK`, or the reason of the error."""
    try:
        call()
    except LakelogError as error:
        return error.reason
    return "OK"


def read_lines(captured: str) -> list[dict[str, Any]]:
    """The lines of a log."""
    return [json.loads(line) for line in captured.splitlines() if line.startswith("{")]
