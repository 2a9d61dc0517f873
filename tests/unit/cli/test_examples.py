"""What the help shows to type can be typed, and the list of commands says what each says of itself."""

from __future__ import annotations

import shlex

import click

from dev.cli_page import walk_commands
from lakelog.cli.app import COMMANDS, app
from lakelog.cli.invocation import LakelogCommand


def test_examples_are_lines_of_their_command() -> None:
    lines = [
        (path, line)
        for path, command in walk_commands("lakelog", app)
        if isinstance(command, LakelogCommand)
        for line in command.example
    ]
    assert len(lines) > 20
    for path, line in lines:
        # `lakelog table options set` stands as an example of its neighbours, too.
        assert shlex.split(line)[:2] == path.split()[:2], (path, line)


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    context = click.Context(app)
    for name, help_line in COMMANDS.items():
        command = app.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(200) == help_line
