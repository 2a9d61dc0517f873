"""The programs of the control plane, built from their Go modules and kept in the user's cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_GO: Final = Path(__file__).resolve().parent / "go"

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

_VERSION_PACKAGE: Final = "k8s.io/component-base/version"


def kubernetes_version() -> str:
    """The version that `go/kubernetes/go.mod` requires, for instance `1.37.2`."""
    found = re.search(r"^\s*k8s\.io/kubernetes v([\d.]+)", (_GO / "kubernetes/go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError("dev/kube/go/kubernetes/go.mod requires no version of k8s.io/kubernetes.")
    return found.group(1)


def cache_folder() -> Path:
    """Where the programs of this version are kept. It may not exist."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "lakelog" / "kube" / kubernetes_version()


def missing_programs() -> list[str]:
    """The programs that have not been built."""
    return [name for name in PROGRAMS if not os.access(cache_folder() / name, os.X_OK)]


def build(report: Callable[[str], None]) -> Path:
    """Builds what is missing; the first time takes about half an hour of a core. Returns the folder.

    Raises:
        RuntimeError: Go is absent, or a build failed.
    """
    folder, missing = cache_folder(), missing_programs()
    if not missing:
        return folder
    if shutil.which("go") is None:
        raise RuntimeError("go is not installed; it builds the control plane. Install Go 1.26 or newer.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing:
        report(f"building {name} {kubernetes_version()} (minutes, the first time) ...")
        began = time.monotonic()
        _build_program(name, folder)
        report(f"built {name} in {time.monotonic() - began:.0f} s")
    return folder


def _build_program(name: str, folder: Path) -> None:
    package, module, flags = ".", "etcd", "-s -w"
    if name != "etcd":
        package, module = f"k8s.io/kubernetes/cmd/{name}", "kubernetes"
        major, minor, _ = kubernetes_version().split(".")
        stamps = {"gitVersion": f"v{kubernetes_version()}", "gitMajor": major, "gitMinor": minor}
        flags += "".join(f" -X {_VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())
    # Under a name of its own first: a build that is stopped leaves no half program.
    unfinished = folder / f".{name}.{os.getpid()}"
    built = subprocess.run(
        ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", str(unfinished), package],
        cwd=_GO / module,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if built.returncode:
        raise RuntimeError(f"{name} could not be built: {built.stdout.strip()[-2000:]}")
    unfinished.replace(folder / name)


if __name__ == "__main__":
    build(lambda line: print(line, file=sys.stderr, flush=True))
