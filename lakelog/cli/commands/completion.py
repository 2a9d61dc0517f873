"""`lakelog completion`: scripts for shells."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from lakelog.cli.completion import shells
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation

_SHELLS: Final = ("bash", "zsh", "fish")


@click.command(
    cls=LakelogCommand,
    connects=False,
    example=("lakelog completion bash", "lakelog completion zsh", "lakelog completion fish"),
    epilog="""To install it, once:

    \b
    bash:  echo 'eval "$(lakelog completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(lakelog completion zsh)"' >> ~/.zshrc
    fish:  lakelog completion fish > ~/.config/fish/completions/lakelog.fish
    """,
)
@click.argument("shell", type=click.Choice(_SHELLS), metavar="bash|zsh|fish")
@pass_invocation
def completion(invocation: Invocation, shell: str) -> None:
    """Print a script that lets a shell complete what you type.

    Names of databases, tables, columns, consumers, tags, snapshots, jobs and pipelines come from the metastore that the
    command line or the environment leads to. If it does not answer within half a second, only commands, options and
    their values are completed.
    """
    made = get_completion_class(shell)
    assert made is not None
    script = made(click.Command("lakelog"), {}, "lakelog", shells.VARIABLE).source()
    printer = invocation.printer
    if printer.for_programs:
        printer.document({"shell": shell, "script": script})
    else:
        printer.raw(script)
