"""Texts of the command line that a shell can complete; see `lakelog.cli.completion.choices`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType


class CompletedText(StringParamType):
    """A text. What can stand there is known by its parameter's placeholder and name, and asked for in a shell alone."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """The texts that can stand here, as far as they are known."""
        from lakelog.cli.completion.choices import complete

        return complete(ctx, param, incomplete)
