"""`python -m dev.lock [ARGS for uv]`: writes requirements.lock anew, keeping the versions that still fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = "requirements.lock"


def main(arguments: list[str]) -> int:
    """Returns the exit code of uv. Needs a package registry; `--upgrade` takes the newest versions."""
    command = [
        str(Path(sys.executable).parent / "uv"),
        "pip",
        "compile",
        "pyproject.toml",
        "--all-extras",
        "--group",
        "dev",
    ]
    # Universal: one file for every supported Python. Without header and annotations it names no index and no machine.
    command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-emit-package", "lakelog", "--quiet", "-o", LOCK]
    return subprocess.run([*command, *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
