"""`lakelog metastore | writer | publisher | compactor | reader | console`: the services, each by its name.

A service is a program of its own, with its own options. The command's process becomes the service, so that signals,
exit codes and the list of processes are those of the service.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from lakelog.embedded.services import service_command, service_environment
from lakelog.errors import NotFound

SERVICES: Final = {
    "metastore": "Run the metastore, or bring its database up to date: serve, check, migrate.",
    "pipeline": "Run an ingestion pipeline, or check its file: run, check.",
    "writer": "The same as 'pipeline'.",
    "publisher": "Publish tables to their logs in Kafka: run.",
    "compactor": "Compact tables, expire snapshots, delete old files: run.",
    "reader": "Serve subscriptions, or run streams from tables to sinks: serve, run, check.",
    "console": "Serve pages that show what lakelog knows, for a browser: serve.",
}
"""The help of each service, by its name."""

_MODULES: Final = {"pipeline": "writer", "publisher": "writer"}


def become(service: str, arguments: Sequence[str]) -> NoReturn:
    """Turns this process into a service.

    Raises:
        SystemExit: The service is not installed, or its command is missing.
    """
    words = list(arguments)
    if service == "publisher":
        if not words or words[0] not in ("run", "-h", "--help"):
            given = f"there is no command '{words[0]}'; say" if words else "the command is missing: say"
            sys.stderr.write(f"lakelog publisher: {given} run (see --help)\n")
            sys.exit(2)
        # One program runs pipelines and publishes.
        words = ["publish", *(words[1:] if words[0] == "run" else words)]
    elif _MODULES.get(service, service) == "writer" and words[:1] == ["publish"]:
        sys.stderr.write(f"lakelog {service}: publishers have their own command: lakelog publisher run\n")
        sys.exit(2)
    module = _MODULES.get(service, service)
    try:
        command, environment = service_command(module, words), service_environment(module, os.environ)
    except NotFound as error:
        sys.exit(error.message)
    sys.stdout.flush()
    os.execve(command[0], command, environment)
