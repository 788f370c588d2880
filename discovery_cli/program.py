"""The command `discovery`: loads the module of a command, runs it, and sets the exit code.

A command's module is loaded only when the command is used. The summaries are here, so that
`--help` loads none.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from discovery_cli.command_group import Group
from discovery_cli.error_output import show_error
from discovery_cli.exit_codes import ExitCode, exit_code
from discovery_cli.invocation import Invocation
from discovery_cli.options import global_options, wants_json
from discovery_cli.output import silence
from discovery_engine._util.version import __version__

_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "init": "Create a discovery.yaml from the files of your MCP clients.",
        "connect": "Add this gateway to the configuration of MCP clients.",
        "search": "Find tools by what they do, or by name.",
        "execute": "Call a tool.",
        "serve": "Serve the meta-tools to agents over MCP.",
        "doctor": "Check the installation, the configuration and the servers.",
    },
    "Inspect": {
        "list": "List the configured servers.",
        "tools": "List the tools of a server, or of all servers.",
        "resources": "List resources, or read one.",
        "prompts": "List prompts, or get one.",
        "inspect": "Show a server or a tool in full.",
        "why": "Explain why a tool, resource or prompt is enabled or disabled.",
        "health": "Show the state of each server, and how to repair it.",
        "logs": "Show calls, reads, questions and stderr of servers.",
        "metrics": "Show calls, durations and errors of servers and tools.",
    },
    "Change": {
        "add": "Add a server to discovery.yaml or the registry.",
        "marketplace": "Find servers that others publish, and install them.",
        "remove": "Remove a server.",
        "enable": "Enable a server.",
        "disable": "Disable a server.",
        "secrets": "Store, list and remove the secrets of servers.",
        "login": "Log in to a remote server, or revoke a login.",
        "config": "Show and check the configuration, import servers, and pin tools.",
    },
    "Review and tune": {
        "review": "Show everything that waits for your decision.",
        "tune": "Improve what search finds, and reduce what it costs.",
    },
    "Operate": {
        "refresh": "List the tools of servers again.",
        "token": "Create, list and revoke tokens for clients over HTTP.",
        "registry": "Show, check, copy or clear the stored catalog and decisions.",
        "fleet": "Run workers that list servers, and show their queue.",
        "webhooks": "List, test and retry webhooks.",
    },
}
_SUMMARIES = {name: text for section in _SECTIONS.values() for name, text in section.items()}
_MODULES = {name: name for name in (*_SUMMARIES, "completion")} | {
    "list": "list_",
    "resources": "offerings:resources",
    "prompts": "offerings:prompts",
    **{name: f"servers:{name}" for name in ("add", "remove", "enable", "disable")},
}
_RENAMED = {
    **{name: f"config {name}" for name in ("import", "lock", "sync")},
    **{name: f"tune {name}" for name in ("enrich", "eval", "lint", "model", "plan", "tokens")},
    **{f"review {option}": f"review tools {option}" for option in ("--all", "--tool", "--yes")},
    "activate": "enable",
    "cache": "registry",
    "config validate": "config check",
    "deactivate": "disable",
    "logout": "login --revoke",
    "marketplace uninstall": "remove",
    "prompt": "prompts",
    "read": "resources",
    "requests": "review requests",
    "requests accept": "review accept",
    "requests decline": "review decline",
    "review --accept": "review tools --yes",
    "secrets delete": "secrets remove",
    "servers": "list",
    "trust": "review servers",
    "version": "--version",
    "worker": "fleet worker",
}
"""The new names of renamed commands, by the old ones, which work for one more release."""
_MEANT = {
    "call": "execute",
    "demo": "init --demo",
    "export": "config export",
    "install": "marketplace install",
    "ls": "list",
    "run": "execute",
    "show": "inspect",
    "start": "serve",
    "status": "health",
    "uninstall": "remove",
    "update": "marketplace update",
}
"""Commands by the words that others have for them."""
_SERVER_FIRST = ("logs", "metrics", "prompts", "resources")
"""Commands whose option `--server NAME` became their first argument."""


class Discovery(Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        words = _renamed(ctx, args)
        if words[0] == "--version":
            click.echo(f"discovery {__version__}")
            ctx.exit()
        if words[0] == "help":
            if not words[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            is_code = words[1].isupper()
            words = ["why", *words[1:]] if is_code else [*words[1:], "--help"]
        if words[0] in _MEANT:
            meant = f"`discovery {_MEANT[words[0]]}`"
            raise click.UsageError(f"there is no command {words[0]!r}; {meant} does that", ctx)
        return super().resolve_command(ctx, words)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, _SUMMARIES))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run the command, write its error to stderr, and exit with the code."""
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


def _renamed(ctx: click.Context, args: list[str]) -> list[str]:
    """Return the arguments with a renamed command's new name; a note names the new one."""
    renamed = {" ".join(args[:count]): count for count in (2, 1)}
    old = next((name for name in renamed if name in _RENAMED), "")
    new = _RENAMED.get(old, "")
    words = [*new.split(), *args[renamed.get(old, 0) :]]
    if words[0] in _SERVER_FIRST and "--server" in words[:-1]:
        at = words.index("--server")
        words = [words[0], words[at + 1], *words[1:at], *words[at + 2 :]]
        if not old:
            old, new = f"{words[0]} --server NAME", f"{words[0]} NAME"
    if old:
        note = f"`{old}` is now `{new}`; the next release has the new name alone"
        invocation = ctx.ensure_object(Invocation)
        invocation.shown_notes[note] = None
        if not (ctx.resilient_parsing or wants_json(args, os.environ.get("DISCOVERY_OUTPUT"))):
            invocation.output.say(f"note: {note}")
    return words


@click.group(
    cls=Discovery,
    params=list[click.Parameter](global_options(hidden=False)),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    modules=_MODULES,
    epilog="Options may also follow a command. `discovery COMMAND --help` describes a command."
    " `discovery completion SHELL` prints a completion script for bash, zsh or fish.",
)
@click.version_option(__version__, message="discovery %(version)s")
def cli() -> None:
    """Find, inspect and execute the tools of many MCP servers.

    \b
      discovery init --global
      discovery search create an issue
      discovery execute time:get_current_time timezone=Europe/Berlin
    """
