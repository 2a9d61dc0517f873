"""What the help shows to type can be typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click

from lakelog.cli.app import app
from lakelog.cli.invocation import LakelogCommand


def list_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from list_commands(command, (*path, name))


def test_examples_are_lines_of_their_command() -> None:
    lines = [
        (path, line)
        for path, command in list_commands(app)
        if isinstance(command, LakelogCommand)
        for line in command.example
    ]
    assert len(lines) > 20
    for path, line in lines:
        words = shlex.split(line)
        assert words[0] == "lakelog", (path, line)
        # `lakelog table options set` stands as an example of its neighbours, too.
        assert words[1] == path[0], (path, line)
