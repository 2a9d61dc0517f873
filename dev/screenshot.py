"""Draws the screenshot of README.md, `docs/terminal.svg`: what the command shows, on a stack of real services."""

from __future__ import annotations

import io
import os
import pty
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from lakelog.testing import embedded_stack

_ROOT: Final = Path(__file__).parent.parent
PICTURE: Final = _ROOT / "docs/terminal.svg"
_COLUMNS: Final = 132

_COMMANDS: Final = tuple(
    f"lakelog {words}"
    for words in (
        'sql -e "CREATE DATABASE shop"',
        'sql -e "CREATE TABLE shop.orders (id BIGINT, item STRING, price DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)'
        " WITH ('bucket' = '2', 'changelog-producer' = 'lookup')\"",
        "sql -e \"INSERT INTO shop.orders VALUES (1, 'tea', 3.50), (2, 'cup', 8.00), (3, 'pot', 19.90)\"",
        "sql -e \"INSERT INTO shop.orders VALUES (1, 'tea', 3.80)\"",
        'sql -e "SELECT * FROM shop.orders ORDER BY id"',
        'sql -e "SELECT * FROM shop.orders VERSION AS OF 1 ORDER BY id"',
        "tail shop.orders --after 1",
        "snapshots shop.orders",
    )
)


def _show(command: str, environment: dict[str, str]) -> str:
    """What a command prints to a terminal, its colours included.

    Raises:
        RuntimeError: The command failed.
    """
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "lakelog.cli.main", *shlex.split(command)[1:]]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=_ROOT) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 1 << 16):
                parts.append(part)
        except OSError:
            # The terminal of a process that has ended.
            pass
    os.close(ours)
    shown = b"".join(parts).decode().replace("\r\n", "\n")
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {shown}")
    return shown


def render_picture() -> str:
    """The screenshot as an SVG."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder, embedded_stack(Path(folder), services=["metastore"]) as stack:
        environment = {
            **os.environ,
            "LAKELOG_TARGET": stack.target,
            "COLUMNS": str(_COLUMNS),
            "TERM": "xterm-256color",
        }
        for command in _COMMANDS:
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi(_show(command, environment)))
    # Without the fonts that the format takes from the network: a picture of ours asks no other server.
    head, _, rest = CONSOLE_SVG_FORMAT.partition("    @font-face")
    plain = head + rest[rest.index("    .{unique_id}-matrix") :]
    return console.export_svg(title="lakelog", code_format=plain, unique_id="terminal") + "\n"


if __name__ == "__main__":
    PICTURE.write_text(render_picture(), encoding="utf-8")
