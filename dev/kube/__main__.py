"""`./run kube`: builds, runs and tests a Kubernetes control plane on this machine."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .binaries import build
from .demo import run_demo
from .lab import Cluster, why_not

_ROOT: Final = Path(__file__).resolve().parents[2]
_LOCAL: Final = "k8s/overlays/local"


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="./run kube",
        description="A real Kubernetes control plane on this machine, without containers and without root.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("build", help="only builds what is missing")
    tests = verbs.add_parser("test", help="builds what is missing and runs the tests (the default)")
    tests.add_argument(
        "--if-built",
        action="store_true",
        help="builds nothing, and runs a quarter that changes by commit, if all is there",
    )
    tests.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="for pytest")
    up = verbs.add_parser("up", help="runs a cluster with an overlay until Ctrl-C")
    up.add_argument("--nodes", type=int, default=2, help="how many nodes; default 2")
    up.add_argument("--overlay", default=_LOCAL, help=f"what to apply; default {_LOCAL}")
    verbs.add_parser(
        "demo", help="sends records through a cluster with k8s/overlays/local while parts of it are killed"
    )
    verbs.add_parser("help", help="shows this")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "help":
        parser.print_help()
        return 0
    if chosen.verb == "test" and chosen.if_built and why_not():
        print(f"kube: its tests are left out: {why_not()}", file=sys.stderr)
        return 0
    try:
        build(_say)
    except RuntimeError as error:
        print(f"kube: {error}", file=sys.stderr)
        return 1
    reason = why_not()
    if reason:
        print(f"kube: {reason}", file=sys.stderr)
        return 1
    if chosen.verb == "build":
        return 0
    if chosen.verb == "up":
        return _run_cluster(chosen.nodes, chosen.overlay, _show)
    if chosen.verb == "demo":
        return _run_cluster(2, _LOCAL, lambda cluster: print(f"kube: the table has {run_demo(cluster, _say)} rows"))
    if not chosen.verb:
        return _run_tests([])
    return _run_tests([*chosen.arguments, *(["tests/kube", "--quarter", "commit"] if chosen.if_built else [])])


def _run_tests(arguments: list[str]) -> int:
    # One process: all tests share a cluster.
    command = [sys.executable, "-m", "pytest", *(arguments or ["tests/kube"])]
    return subprocess.run(command, cwd=_ROOT, env={**os.environ, "LAKELOG_KUBE": "1"}, check=False).returncode


def _run_cluster(nodes: int, overlay: str, use: Callable[[Cluster], None]) -> int:
    with tempfile.TemporaryDirectory(prefix="ll-kube-", ignore_cleanup_errors=True) as folder:
        try:
            with Cluster(Path(folder), nodes) as cluster:
                cluster.kubectl("apply", "-k", overlay)
                _say(f"{nodes} nodes, {overlay} applied")
                use(cluster)
        except KeyboardInterrupt:
            return 0
        except RuntimeError as error:
            print(f"kube: {error}", file=sys.stderr)
            return 1
    return 0


def _show(cluster: Cluster) -> None:
    """Says how to reach the cluster, and waits for its end."""
    configuration = f"--kubeconfig={cluster.folder}/control-plane/kubeconfig"
    kubectl = cluster.enter([str(Path(sys.executable).parent / "kubectl"), configuration])
    _say(f"in another terminal:\n  alias k='{' '.join(kubectl)}'\n  k get pods -n lakelog\nCtrl-C ends it.")
    cluster.wait()


def _say(line: str) -> None:
    print(f"kube: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
