"""How our services start: as modules, from the tree or the wheel, with an interpreter that finds them."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakelog.errors import NotFound


def service_module(service: str) -> str:
    """The name by which `python -m` finds a service.

    Args:
        service: `metastore`, `writer`, `compactor`, `reader` or `console`.

    Returns:
        `lakelog.services.<service>` in an installation from the wheel. It comes first because a foreign package may
        have the plain name. `<service>` in the tree.

    Raises:
        NotFound: There is neither.
    """
    for name in (f"lakelog.services.{service}", service):
        if _find(name) is not None:
            return name
    raise NotFound(
        f"The service {service} is not part of this installation of lakelog: neither lakelog.services.{service} nor "
        f"{service} can be imported. Reinstall lakelog, or run from the root of its source tree.",
        reason="SERVICE_NOT_INSTALLED",
        metadata={"service": service},
    )


def service_command(service: str, arguments: Sequence[str]) -> list[str]:
    """The command line of a service under our own interpreter; raises as `service_module`."""
    return [sys.executable, "-m", service_module(service), *arguments]


def service_environment(service: str, environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which `service_command` finds the service and lakelog from any working folder.

    Args:
        service: As in `service_module`.
        environment: The child's other variables.

    Returns:
        `environment`, with the folders of our own lakelog and service at the front of `PYTHONPATH`.
    """
    roots = []
    # The service first: the child must find the same one as this process, wherever lakelog comes from.
    for name in (service_module(service), "lakelog"):
        place = _find(name)
        if place is not None:
            # One folder up for each dot: lakelog.services.metastore is three levels deep.
            roots.append(str(place.parents[name.count(".")]))
    inherited = environment.get("PYTHONPATH", "")
    path = list(dict.fromkeys([*roots, *(inherited.split(os.pathsep) if inherited else [])]))
    return {**environment, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}


def is_serving(target: str) -> bool:
    """Requests a gRPC server's health; False also if there is no answer within a second."""
    # A client of gRPC takes 5 ms of CPU, and a process that waits for a start mostly asks before the server listens.
    if not is_listening(target):
        return False
    # Not at the top: a command that becomes a service needs neither.
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    try:
        with grpc.insecure_channel(target) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1.0)
    except grpc.RpcError:
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def is_listening(target: str) -> bool:
    """Whether anything accepts connections there; False also if there is no answer within a second."""
    host, _, port = target.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=1.0):
            return True
    except OSError:
        return False


def _find(name: str) -> Path | None:
    """The folder of a package that has a `__main__` or an `__init__`; None: there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return next((Path(place) for place in places if any(Path(place).glob("__*__.py"))), None)
