"""Lists the services among the commands; `lakelog.cli.main` runs them before any of these is imported."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from lakelog.cli.input.names import CompletedText
from lakelog.cli.invocation import Invocation
from lakelog.cli.services import SERVICES, become


class _Words(CompletedText):
    """The words for a service, which reads them itself; a shell completes the first one."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """The commands of the service."""
        return [] if ctx.params.get("arguments") else super().shell_complete(ctx, param, incomplete)


def _list_given(context: click.Context | None) -> list[str]:
    """The options that stand before the name of the service."""
    if context is None:
        return []
    names = [parameter.name or "" for parameter in context.command.params]
    return [name for name in names if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]


def make_service_command(service: str) -> click.Command:
    """Makes the command of a service, which takes all arguments of the service."""

    @click.pass_context
    def run(context: click.Context, arguments: tuple[str, ...]) -> None:
        given = _list_given(context.parent)
        if service != "metastore" and given == ["_target"] and arguments:
            # All others have this option, too, after their own command.
            arguments = (arguments[0], "--target", context.ensure_object(Invocation).target, *arguments[1:])
        elif given:
            raise click.UsageError(f"The options of a service follow its name: lakelog {service} ... --help.", context)
        become(service, arguments)

    return click.Command(
        service,
        callback=run,
        params=[click.Argument(["arguments"], nargs=-1, type=_Words())],
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        help=SERVICES[service],
    )
