"""`./run kube`: builds, runs and tests a Kubernetes control plane on this machine."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .binaries import build
from .lab import Cluster, why_not

_ROOT = Path(__file__).resolve().parents[2]


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
        "--if-built", action="store_true", help="builds nothing: runs no test where something is missing"
    )
    tests.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="for pytest")
    up = verbs.add_parser("up", help="runs a cluster with an overlay until Ctrl-C")
    up.add_argument("--nodes", type=int, default=2, help="how many nodes; default 2")
    up.add_argument("--overlay", default="k8s/overlays/local", help="what to apply; default k8s/overlays/local")
    verbs.add_parser("help", help="shows this")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "help":
        parser.print_help()
        return 0
    if chosen.verb == "test" and chosen.if_built and why_not():
        print(f"kube: its tests are left out: {why_not()}", file=sys.stderr)
        return 0
    try:
        build(lambda line: print(f"kube: {line}", file=sys.stderr, flush=True))
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
        return _run_up(chosen.nodes, chosen.overlay)
    return _run_tests(chosen.arguments if chosen.verb else [])


def _run_tests(arguments: list[str]) -> int:
    # One process: all tests share a cluster.
    command = [sys.executable, "-m", "pytest", *(arguments or ["tests/kube"])]
    return subprocess.run(command, cwd=_ROOT, env={**os.environ, "LAKELOG_KUBE": "1"}, check=False).returncode


def _run_up(nodes: int, overlay: str) -> int:
    with tempfile.TemporaryDirectory(prefix="ll-kube-", ignore_cleanup_errors=True) as folder:
        try:
            with Cluster(Path(folder), nodes) as cluster:
                cluster.kubectl("apply", "-k", overlay)
                kubectl = cluster.enter(["kubectl", f"--kubeconfig={folder}/control-plane/kubeconfig"])
                print(f"kube: {nodes} nodes, {overlay} applied. In another terminal:\n  alias k='{' '.join(kubectl)}'")
                print("  k get pods -n lakelog\nCtrl-C ends it.", flush=True)
                cluster.wait()
        except KeyboardInterrupt:
            return 0
        except RuntimeError as error:
            print(f"kube: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
