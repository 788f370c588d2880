"""A command group whose commands are loaded when they are used, and that suggests near names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import click

from discovery_cli.options import global_options

_WHOLE = 1000  # characters, more than any summary


class Group(click.Group):
    """A group of commands, each of which takes the global options, too.

    Args:
        modules: The module in `discovery_cli.commands` of each command that is not added by hand,
            and after a colon its name there, if that is not `command`.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str] = {}, **options: Any) -> None:
        super().__init__(*args, **options)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*self.commands, *self.modules]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if place := self.modules.get(cmd_name):
            module, _, name = place.partition(":")
            command = getattr(import_module(f"discovery_cli.commands.{module}"), name or "command")
        if command is not None:
            _accept_global_options(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        word = args[0]
        if word in names or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"there is no command {word!r}{did_you_mean(word, names)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Whole summaries: click would cut them to one line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, entry.get_short_help_str(_WHOLE)) for name, entry in commands if entry]
            )


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown word; empty if no known word is near."""
    from discovery_engine._util.suggestions import nearest

    meant = nearest(word, names)
    return f", did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def _accept_global_options(command: click.Command) -> None:
    """Add the global options that the command lacks."""
    names = {option for parameter in command.params for option in parameter.opts}
    command.params += [
        option for option in global_options(hidden=True) if names.isdisjoint(option.opts)
    ]
