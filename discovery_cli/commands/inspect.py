"""`discovery inspect`: one server or tool in full; without a name, all servers as they connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from discovery_cli.detail_output import DetailPrinter
from discovery_cli.invocation import Invocation, named
from discovery_cli.options import complete_server, complete_target, pass_invocation
from discovery_cli.rendering import say_last_lines, say_notices
from discovery_cli.targets import say_unlisted, server_named, servers_shown, tool_shown
from discovery_engine.json_forms.server_form import whole_server_form
from discovery_engine.json_forms.tool_form import details_form, requests_form

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.engine import Engine
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View

Which = Literal["enabled", "disabled", "all"]

_INSPECT_TIMEOUT = 10.0  # seconds in which a server must be there to be shown


@click.command("inspect")
@click.argument("words", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target)
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="Search only this server."
)
@click.option("--tools", is_flag=True, help="Without a target: also show each server's tools.")
@click.option("--compact", is_flag=True, help="One line for each thing.")
@click.option("--args", "with_args", is_flag=True, help="Show the arguments of listed tools.")
@click.option("--examples", is_flag=True, help="Show an example call of listed tools.")
@click.option("--enabled", "which", flag_value="enabled", help="List enabled tools (the default).")
@click.option("--disabled", "which", flag_value="disabled", help="List disabled tools.")
@click.option("--all", "which", flag_value="all", help="List enabled and disabled tools.")
@pass_invocation
def command(
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    server: str | None,
    tools: bool,
    compact: bool,
    with_args: bool,
    examples: bool,
    which: Which | None,
) -> None:
    """Show a server or a tool in full; without a name, connect to all servers first.

    TARGET is a server, `server:tool`, `server tool`, or a tool's name that only one server has. A
    name is read as a server's first.
    """
    portrait = DetailPrinter(
        invocation.output, invocation.clock(), compact=compact, args=with_args, examples=examples
    )
    if not words and server is None:
        _inspect_all(invocation, portrait, which or "enabled", with_tools=tools)
        return
    view = invocation.view(servers_shown(words, server))
    whole = _whole_server(view, words, server)
    if whole is not None:
        _inspect_server(view, portrait, whole, which or "enabled")
        return
    say_unlisted(portrait.output, view, words, server)
    entry, extra = tool_shown(view, words, server)
    if extra:
        raise click.UsageError(f"one target at a time; {extra[0]!r} is one word too many")
    if portrait.output.as_json:
        form = details_form(entry, view) | {"typical_requests": requests_form(entry, view)}
        portrait.output.answer({"kind": "tool", "tool": form})
    else:
        portrait.tool(entry, view)


def _whole_server(view: View, words: tuple[str, ...], server: str | None) -> ServerName | None:
    """The server that is meant as such; None if the words name a tool."""
    if not words:
        return view.server(server or "").name
    if len(words) > 1 or server is not None:
        return None
    named_server = server_named(view, words[0])
    return named_server.name if named_server else None


def _inspect_all(
    invocation: Invocation, portrait: DetailPrinter, which: Which, *, with_tools: bool
) -> None:
    view = invocation.run(_connect)
    waiting = [s.name for s in view.servers() if s.state == "starting"]
    chosen = {s.name: _chosen(view, s.name, which) if with_tools else [] for s in view.servers()}
    if portrait.output.as_json:
        forms = [whole_server_form(s, view, chosen[s.name]) for s in view.servers()]
        portrait.output.answer({"kind": "servers", "servers": forms})
        return
    portrait.servers(view, chosen)
    for server in view.servers():
        if server.stderr:
            portrait.output.say(f"{server.name}: {server.reason}")
        say_last_lines(portrait.output, server.stderr)
    if not view.servers():
        say_notices(portrait.output, view.general_notices())
    if waiting:
        portrait.output.say(f"no answer within {_INSPECT_TIMEOUT:g} s yet: {named(waiting)}")


async def _connect(engine: Engine) -> View:
    import anyio

    with anyio.move_on_after(_INSPECT_TIMEOUT):
        await engine.refresh()
    return engine.view.snapshot()


def _inspect_server(view: View, portrait: DetailPrinter, name: ServerName, which: Which) -> None:
    summary = next(s for s in view.servers() if s.name == name)
    entries = _chosen(view, name, which)
    if portrait.output.as_json:
        form = whole_server_form(summary, view, entries)
        portrait.output.answer({"kind": "server", "server": form})
        return
    portrait.server(summary, view, entries)
    say_last_lines(portrait.output, summary.stderr)
    say_notices(portrait.output, view.list_tools(name, include_disabled=True).notices)


def _chosen(view: View, name: ServerName, which: Which) -> list[Entry]:
    part = view.catalog.parts.get(name)
    entries = part.entries if part else ()
    return [e for e in entries if which in ("all", "enabled" if e.verdict.enabled else "disabled")]
