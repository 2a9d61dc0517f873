"""The cluster's own process, in namespaces of its own: `python -m dev.kube.cluster FOLDER NODES`.

It starts control plane and nodes, writes `ready` into the folder, and ends when the process that started it does.
"""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path
from typing import Final

from . import network
from .api import Api
from .binaries import cache_folder
from .control_plane import ControlPlane
from .services import Services
from .storage import Storage
from .usage import serve_usage

_STEP_S: Final = 0.2


def main(folder: Path, nodes: int) -> int:
    """Runs until its standard input ends; each line there is the number of a node to start.

    All other processes of the namespace end with this one.
    """
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"], check=True)
    Path("/run/netns").mkdir()
    network.set_up()
    plane = ControlPlane(cache_folder(), folder / "control-plane")
    plane.start()
    names = folder / "names.json"
    api = str(plane.kubeconfig)
    Services(Api(api), names).start()
    Storage(Api(api), folder / "claims").start()
    serve_usage(Api(api), folder)
    running = {number: start_node(number, folder) for number in range(1, nodes + 1)}
    (folder / "ready").touch()
    while plane.failed() is None:
        if not select.select([sys.stdin], [], [], _STEP_S)[0]:
            continue
        line = sys.stdin.readline()
        if not line:
            return 0
        # Starts a node that was killed, or a further one.
        number = int(line)
        if number not in running or running[number].poll() is not None:
            running[number] = start_node(number, folder)
    sys.stderr.write(f"{plane.failed()}\n")
    return 1


def start_node(number: int, folder: Path) -> subprocess.Popen[bytes]:
    """Starts a node in namespaces of its own: if it is killed, all that it runs is."""
    own = folder / f"node-{number}"
    own.mkdir(exist_ok=True)
    separate = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
    command = [sys.executable, "-m", "dev.kube.kubelet", str(number), str(own)]
    with (folder / f"node-{number}.log").open("ab") as log:
        return subprocess.Popen(
            [*separate, *command, str(folder / "control-plane/kubeconfig"), str(folder / "names.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
