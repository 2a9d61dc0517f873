"""The variables that each service reads, from where they are declared."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from compactor.config import Config as CompactorConfig
from console.config import Config as ConsoleConfig
from lakelog.config import read_connect_settings, read_s3_settings
from lakelog.log.secrets import SECRETS_FOLDER_VARIABLE
from lakelog.privacy.umask import UMASK_VARIABLE
from lakelog.tracing.spans import TRACES_VARIABLE
from metastore.config import MigrateConfig, ServeConfig
from reader.config import RunConfig
from reader.config import ServeConfig as ReaderConfig
from writer.config import Config as WriterConfig
from writer.publishing.config import PublishConfig

CONFIGS: Mapping[str, type] = {
    "metastore serve": ServeConfig,
    "metastore migrate": MigrateConfig,
    "writer run": WriterConfig,
    "writer publish": PublishConfig,
    "compactor run": CompactorConfig,
    "reader serve": ReaderConfig,
    "reader run": RunConfig,
    "console serve": ConsoleConfig,
}
"""The settings of each command, by the words after `python -m`."""


class Recorder(Mapping[str, str]):
    """An environment without variables that remembers which ones were looked up."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@functools.cache
def of_client() -> frozenset[str]:
    """What every client of a metastore reads, and every service that touches files. Without AWS's own variables."""
    seen = Recorder()
    read_connect_settings(seen, target="here:1")
    return frozenset(name for name in seen.names | {"LAKELOG_TARGET", SECRETS_FOLDER_VARIABLE} if _is_ours(name))


@functools.cache
def of_files() -> frozenset[str]:
    """What reading and writing files takes."""
    seen = Recorder()
    read_s3_settings(seen)
    return frozenset(filter(_is_ours, seen.names))


def _is_ours(name: str) -> bool:
    return name.startswith("LAKELOG_")


def of_config(kind: Any) -> frozenset[str]:
    """The variables that a class of settings declares."""
    arguments = [each.metadata.get("arguments", ()) for each in dataclasses.fields(kind)]
    return frozenset(one.variable for some in arguments for one in some if one.variable)


@functools.cache
def of_command(command: str) -> frozenset[str]:
    """All that a command reads."""
    if command == "metastore migrate":
        # It shares the ConfigMap of `serve`, and reads a part of it.
        command = "metastore serve"
    shared = of_files() if command == "metastore serve" else of_client()
    return of_config(CONFIGS[command]) | shared | {UMASK_VARIABLE, TRACES_VARIABLE}
