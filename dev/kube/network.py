"""The cluster's network: a bridge in a network namespace, and a namespace with an address for each pod.

    bridge 10.244.0.1          the API server, as the pods see it
    10.244.0.10 + n            node n
    10.244.n.2 to .254         pods of node n
    10.96.0.0/16               services; the cluster's namespace has each of their addresses

Everything runs in the network namespace of the cluster, so the machine's own network stays as it is.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Final

GATEWAY: Final = "10.244.0.1"
SERVICE_RANGE: Final = "10.96.0.0/16"
API_SERVICE: Final = "10.96.0.1"
"""The address of the service `kubernetes`: the first of the range. The API server's certificate names it."""

_BRIDGE: Final = "kube0"


def ip(*arguments: str) -> None:
    """Runs `ip`; raises RuntimeError with what it said."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def set_up() -> None:
    """Makes the bridge, in the network namespace of this process."""
    ip("link", "set", "lo", "up")
    ip("link", "add", _BRIDGE, "type", "bridge")
    ip("addr", "add", f"{GATEWAY}/16", "dev", _BRIDGE)
    ip("link", "set", _BRIDGE, "up")


def add_address(address: str) -> None:
    """Gives the cluster's namespace an address, of a service or a node. Twice does no harm."""
    ip("addr", "replace", f"{address}/32", "dev", "lo")


def node_address(number: int) -> str:
    """The address of a node, counted from 1."""
    return f"10.244.0.{10 + number}"


def pod_addresses(number: int) -> Iterator[str]:
    """All addresses of pods of a node."""
    return (f"10.244.{number}.{host}" for host in range(2, 255))


def add_pod(namespace: str, address: str) -> None:
    """Makes the network namespace of a pod, with one interface on the bridge."""
    number = address.removeprefix("10.244.").replace(".", "-")
    ip("netns", "add", namespace)
    ip("link", "add", f"pod{number}", "type", "veth", "peer", "name", "eth0", "netns", namespace)
    ip("link", "set", f"pod{number}", "master", _BRIDGE, "up")
    inside = ("-netns", namespace)
    ip(*inside, "link", "set", "lo", "up")
    ip(*inside, "addr", "add", f"{address}/16", "dev", "eth0")
    ip(*inside, "link", "set", "eth0", "up")
    ip(*inside, "route", "add", "default", "via", GATEWAY)


def remove_pod(namespace: str) -> None:
    """Removes a pod's network namespace, and with it its interface."""
    ip("netns", "del", namespace)
