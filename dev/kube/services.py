"""Names and addresses of services: what DNS and kube-proxy do in other clusters.

A service with an address of its own is a listener on that address that passes each connection to a ready pod. The names
of all services, with their addresses, go into a file; each node makes its pods' `/etc/hosts` from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import threading
from pathlib import Path
from typing import Final

from . import network
from .api import Api, Object

_DEBOUNCE_S: Final = 0.05


class Services:
    """Follows services and their endpoints, in a thread of its own.

    Args:
        api: The API server.
        names: The file that gets the addresses of each name, by namespace.
    """

    def __init__(self, api: Api, names: Path) -> None:
        self._api = api
        self._names = names
        self._services: dict[tuple[str, str], Object] = {}
        self._slices: dict[tuple[str, str], Object] = {}
        self._loop = asyncio.new_event_loop()
        self._listeners: dict[tuple[str, int], asyncio.Server] = {}
        self._turns = itertools.count()
        self._due: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins to follow."""
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        for path, known in (
            ("/api/v1/services", self._services),
            ("/apis/discovery.k8s.io/v1/endpointslices", self._slices),
        ):
            threading.Thread(target=self._follow, args=(path, known), daemon=True).start()

    def _follow(self, path: str, known: dict[tuple[str, str], Object]) -> None:
        while True:
            first: set[tuple[str, str]] | None = set()
            for event, item in self._api.watch(path):
                if event == "SYNCED":
                    for gone in set(known) - (first or set()):
                        known.pop(gone)
                    first = None
                else:
                    key = (item["metadata"]["namespace"], item["metadata"]["name"])
                    if event == "DELETED":
                        known.pop(key, None)
                    else:
                        known[key] = item
                    if first is not None:
                        first.add(key)
                self._loop.call_soon_threadsafe(self._soon)

    def _soon(self) -> None:
        if self._due is None:
            self._due = self._loop.call_later(_DEBOUNCE_S, lambda: self._loop.create_task(self._update()))

    async def _update(self) -> None:
        self._due = None
        services, slices = dict(self._services), dict(self._slices)
        names: dict[str, dict[str, list[str]]] = {}
        wanted: set[tuple[str, int]] = set()
        for (namespace, name), service in services.items():
            spec = service["spec"]
            known = names.setdefault(namespace, {})
            address = spec.get("clusterIP", "None")
            if address not in ("None", ""):
                known[name] = [address]
                wanted |= {(address, port["port"]) for port in spec["ports"] if port.get("protocol", "TCP") == "TCP"}
                continue
            unready = spec.get("publishNotReadyAddresses", False)
            found = [end for part in _slices_of(slices, namespace, name) for end in part["endpoints"] or []]
            usable = [end for end in found if unready or end["conditions"].get("ready")]
            known[name] = sorted(address for end in usable for address in end["addresses"])
            for end in usable:
                if end.get("hostname"):
                    known[f"{end['hostname']}.{name}"] = end["addresses"]
        await self._listen(wanted)
        unfinished = self._names.with_suffix(".new")
        unfinished.write_text(json.dumps(names))
        unfinished.replace(self._names)

    async def _listen(self, wanted: set[tuple[str, int]]) -> None:
        for gone in set(self._listeners) - wanted:
            self._listeners.pop(gone).close()
        for address, port in wanted - set(self._listeners):
            network.add_address(address)
            pass_on = functools.partial(self._pass_on, (address, port))
            self._listeners[address, port] = await asyncio.start_server(pass_on, address, port)

    async def _pass_on(self, at: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connects a client with a ready pod; without one it is refused, as by kube-proxy."""
        ends = self._find_ready(*at)
        if not ends:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(*ends[next(self._turns) % len(ends)])
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    def _find_ready(self, address: str, port: int) -> list[tuple[str, int]]:
        for (namespace, name), service in list(self._services.items()):
            if service["spec"].get("clusterIP") == address:
                wanted = next((each for each in service["spec"]["ports"] if each["port"] == port), None)
                if wanted is None:
                    return []
                return [
                    (ip, each["port"])
                    for part in _slices_of(dict(self._slices), namespace, name)
                    for each in part["ports"] or []
                    if each.get("name", "") == wanted.get("name", "")
                    for end in part["endpoints"] or []
                    if end["conditions"].get("ready")
                    for ip in end["addresses"]
                ]
        return []


def _slices_of(slices: dict[tuple[str, str], Object], namespace: str, service: str) -> list[Object]:
    return [
        part
        for (space, _), part in slices.items()
        if space == namespace and part["metadata"].get("labels", {}).get("kubernetes.io/service-name") == service
    ]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
