"""The command `discovery`: finds the command's module, runs it, and turns errors into exit codes.

A command's module is loaded only when that command is used; the summaries stand here, so that
`--help` loads none.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from discovery_cli.command_group import Group
from discovery_cli.error_output import show_error
from discovery_cli.exit_codes import ExitCode, exit_code
from discovery_cli.invocation import Invocation
from discovery_cli.options import global_options, wants_json
from discovery_cli.output import silence
from discovery_engine.version import __version__

_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Find and use tools": {
        "list": "Show the configured servers, or find some of them.",
        "search": "Find tools by words or by name.",
        "tools": "Show the tools of a server.",
        "inspect": "Show a server or a tool in full.",
        "execute": "Call a tool.",
        "resources": "Show the resources of servers.",
        "read": "Read a resource.",
        "prompts": "Show the prompts of servers.",
        "prompt": "Get a prompt.",
    },
    "Set up": {
        "init": "Write a first discovery.yaml from what is on this machine.",
        "add": "Add a server to discovery.yaml or the registry.",
        "remove": "Remove a server.",
        "enable": "Switch a server on.",
        "disable": "Switch a server off.",
        "import": "Copy servers from another client's file into discovery.yaml.",
        "sync": "Register the servers of a setup file.",
        "config": "Look at the configuration.",
        "marketplace": "Find servers that others publish, and install them.",
        "trust": "Approve what a discovered configuration may start.",
        "secrets": "Store, show and delete the secrets of servers.",
        "login": "Log in to a remote server.",
        "logout": "Revoke and delete a login.",
        "serve": "Serve the meta-tools to an agent over MCP.",
        "token": "Make, show and revoke tokens for clients over HTTP.",
        "model": "Install the model that finds tools by meaning.",
    },
    "Look after": {
        "refresh": "List the tools of servers again.",
        "worker": "List the servers that are due, beside other workers.",
        "review": "Show changed tools, and accept them.",
        "fleet": "Show and steer the refresh queue of workers.",
        "webhooks": "Show, test and retry webhooks.",
        "requests": "Show what agents asked you for, and decide.",
        "lock": "Pin every server and tool in a file, or compare with it.",
        "health": "Show the state of every server, and what to do.",
        "logs": "Show what was called, read, asked and written.",
        "metrics": "Show how often tools were called, how long they took, and errors.",
        "doctor": "Check the set-up and show what to do.",
        "plan": "Show what a change of the configuration would do.",
        "lint": "Find rules without effect, and tools that are hard to find.",
        "eval": "Run your own queries, and measure the answers.",
        "tokens": "Show what the tools take of an agent's context.",
        "enrich": "Have a language model write typical requests for tools.",
        "why": "Explain why a tool, resource or prompt is enabled or disabled.",
        "cache": "Show or delete stored tools.",
        "registry": "Show, check, update or copy the registry.",
        "completion": "Print a script that completes words in a shell.",
        "version": "Show the version.",
    },
}
_COMMANDS = {name: text for section in _SECTIONS.values() for name, text in section.items()}
_MODULES = {"import": "import_", "list": "list_"}
_ALIASES = {"servers": "list", "activate": "enable", "deactivate": "disable"}
"""Other names of commands; each is shown in the help of its command."""


class Discovery(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, *rest = args
        return super().resolve_command(ctx, [_ALIASES.get(word, word), *rest])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"discovery_cli.commands.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        _accept_global_options(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run, write an error if there is one, and exit with its code."""
        words = list(sys.argv[1:] if args is None else args)
        extra |= {"prog_name": "discovery", "standalone_mode": False}
        invocation: Invocation = extra.setdefault("obj", Invocation())
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError):  # a replaced stream
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        with invocation.at_end:
            code = self._run(words, extra, invocation)
        invocation.interrupts.leave(code)

    def _run(self, words: list[str], extra: dict[str, Any], invocation: Invocation) -> int:
        try:
            with invocation.interrupts.raised():
                code = super().main(words, **extra)
                sys.stdout.flush()
        except BrokenPipeError:
            silence(sys.stdout)
            return ExitCode.OK
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the top of the program
            variable = os.environ.get("DISCOVERY_OUTPUT")
            as_json = invocation.as_json or wants_json(words, variable)
            verbose = invocation.verbose > 0
            show_error(
                error,
                as_json=as_json,
                verbose=verbose,
                warnings=invocation.shown_notes,
                options=invocation.options,
            )
            return exit_code(error)
        return code if isinstance(code, int) else ExitCode.OK


def _accept_global_options(command: click.Command) -> None:
    taken = {option for parameter in command.params for option in parameter.opts}
    if isinstance(command, click.Group):
        for sub in command.commands.values():
            _accept_global_options(sub)
    command.params += _not_in(taken, global_options(hidden=True))


def _not_in(taken: set[str], options: Iterable[click.Option]) -> list[click.Option]:
    return [option for option in options if taken.isdisjoint(option.opts)]


@click.group(
    cls=Discovery,
    params=list[click.Parameter](global_options(hidden=False)),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="The options above may also follow a command. `discovery COMMAND --help` describes a"
    " command; begin with `discovery init`.",
)
@click.version_option(__version__, message="discovery %(version)s")
def cli() -> None:
    """Find, inspect and execute the tools of many MCP servers."""
