"""`python -m dev.stubs`: generates the Python of proto/ into lakelog/rpc/v1."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUBS = Path("lakelog") / "rpc" / "v1"
"""Where generated files are, under the root as under the output folder: the protos' own path says so."""


def generate_stubs(root: Path, output: Path) -> None:
    """Writes messages and their types; methods of services are made from descriptors (`lakelog.rpc.services`).

    Args:
        root: The tree with `proto/`.
        output: Existing folder under which `lakelog/rpc/v1` is made.

    Raises:
        RuntimeError: The compiler refused; the message is its own.
    """
    protos = sorted(str(path.relative_to(root / "proto")) for path in (root / "proto").rglob("*.proto"))
    kinds = [f"--{kind}_out={output}" for kind in ("python", "mypy")]
    # protoc looks for its plugins on the search path.
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{root / 'proto'}", *kinds, *protos],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": search_path},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())


def stub_files(folder: Path) -> dict[str, bytes]:
    """The generated files in `folder / STUBS`, by name."""
    return {path.name: path.read_bytes() for path in sorted((folder / STUBS).glob("*_pb2*"))}


def main() -> int:
    """Generates anew and removes what no proto stands for any more."""
    with tempfile.TemporaryDirectory() as folder:
        generate_stubs(ROOT, Path(folder))
        made = stub_files(Path(folder))
    for name in stub_files(ROOT).keys() - made.keys():
        (ROOT / STUBS / name).unlink()
    for name, content in made.items():
        (ROOT / STUBS / name).write_bytes(content)
    print(f"{len(made)} files in {STUBS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
