"""What the images of the manifests are on this machine: folders, and the programs that stand for their commands.

An image of lakelog is this checkout with its virtual environment. Images of others (Postgres, Kafka, an object store)
are the same programs from packages: `dev/kube/programs/IMAGE` has, at its path in the image, a script for each command
that manifests use.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from lakelog.embedded.java import java_home
from lakelog.embedded.kafka.jars import find_kafka_jars
from lakelog.embedded.postgres_files import find_postgres_programs

_ROOT: Final = Path(__file__).resolve().parents[2]
_PROGRAMS: Final = Path(__file__).resolve().parent / "programs"

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")
_ETC: Final = (
    "ssl",
    "ca-certificates",
    "alternatives",
    "ld.so.cache",
    "nsswitch.conf",
    "localtime",
    "protocols",
    "services",
)


_OF_LAKELOG: Final = ("metastore", "writer", "publisher", "compactor", "reader", "console", "spark", "cli")

_STOP_SIGNALS: Final = {"postgres": signal.SIGINT}
"""Where the image names another signal than SIGTERM. Postgres waits for its clients at SIGTERM."""

_ENTRY_POINTS: Final = {"postgres": ("docker-entrypoint.sh",), "kafka": (), "seaweedfs": ("weed",)}
"""The images of others, with what they run if a container names no command."""


@dataclass(frozen=True)
class Image:
    """Folders and programs of a container.

    Args:
        binds: Source and target of each folder or file, read-only.
        links: Symbolic links, by path.
        path: The variable PATH.
        environment: Other variables.
        uid: The user, unless the pod names one.
        entry_point: The command, unless the container names one; empty: it has to.
        stop_signal: Ends its first process.
    """

    binds: tuple[tuple[str, str], ...]
    links: dict[str, str]
    path: str
    environment: dict[str, str]
    uid: int = 0
    entry_point: tuple[str, ...] = ()
    stop_signal: int = signal.SIGTERM


def find_image(name: str) -> Image:
    """What stands for an image; raises LookupError for one that is not known here."""
    short = name.rpartition("/")[2].partition("@")[0]
    short, _, tag = short.partition(":")
    if not tag or tag == "latest":
        raise LookupError(f"the image {name} names no version")
    links, binds = _system()
    venv = Path(sys.prefix)
    folders = [venv.resolve(), Path(sys.base_prefix).resolve(), _ROOT, _lakelog_cache()]
    binds += tuple((str(folder), str(folder)) for folder in folders if folder.exists())
    if str(venv) != str(venv.resolve()):
        links[str(venv)] = str(venv.resolve())
    path = [str(venv / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]
    environment = {"JAVA_HOME": str(_java())}
    if "lakelog/" in name:
        if short not in _OF_LAKELOG:
            raise LookupError(f"lakelog has no image {name}; it has {', '.join(_OF_LAKELOG)}")
        environment |= {"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        entry_point = ("sh", str(_ROOT / "k8s" / "images" / "executor.sh")) if short == "spark" else ()
        return Image(binds, links, ":".join(path), environment, uid=10001, entry_point=entry_point)
    if short not in _ENTRY_POINTS:
        raise LookupError(f"the image {name} is not known here; known are {', '.join(_ENTRY_POINTS)}")
    files = [each for each in (_PROGRAMS / short).rglob("*") if each.is_file()]
    binds += tuple((str(each), f"/{each.relative_to(_PROGRAMS / short)}") for each in files)
    path.insert(0, "/opt/image/bin")
    environment |= {"POSTGRES_PROGRAMS": str(find_postgres_programs()), "KAFKA_CLASSPATH": _kafka_classpath()}
    return Image(
        binds,
        links,
        ":".join(path),
        environment,
        entry_point=_ENTRY_POINTS[short],
        stop_signal=_STOP_SIGNALS.get(short, signal.SIGTERM),
    )


@cache
def _kafka_classpath() -> str:
    return ":".join(str(jar) for jar in find_kafka_jars(os.environ))


@cache
def _java() -> Path:
    return java_home(os.environ)


def _lakelog_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakelog"


def _system() -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """Links and folders of the machine's own programs."""
    links, binds = {}, []
    for folder in _SYSTEM:
        if os.path.islink(folder):
            links[folder] = os.readlink(folder)
        elif os.path.isdir(folder):
            binds.append((folder, folder))
    # Debian keeps the settings of its Java there.
    java = [each.name for each in Path("/etc").glob("java-*")]
    binds += [(f"/etc/{name}", f"/etc/{name}") for name in (*_ETC, *java) if os.path.exists(f"/etc/{name}")]
    return links, tuple(binds)
