"""`discovery inspect`: shows a server or a tool in full, or connects to all servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct

from discovery_cli.finding_output import suspicion_lines
from discovery_cli.invocation import Invocation
from discovery_cli.invocation import named as listed
from discovery_cli.options import (
    complete_server,
    complete_target,
    in_view,
    one_server_options,
    pass_invocation,
    view_option,
)
from discovery_cli.output import Cell, Output
from discovery_cli.rendering import say_last_lines, say_notices, server_row, tool_row
from discovery_cli.targets import say_unlisted, server_named, servers_shown, tool_shown
from discovery_engine._util.quantities import ago, date_of
from discovery_engine._util.text import block, named, one_line, quoted, visible
from discovery_engine.catalog import REMOVED_FOR
from discovery_engine.engine.json_forms.catalog_forms import (
    app_form,
    apps_of,
    command_line,
    details_form,
    examples_of,
    requests_form,
    whole_server_form,
)
from discovery_engine.tools.schema_cost import too_costly_tool
from discovery_engine.tools.signature import type_text

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.catalog import Entry, OfferingEntry
    from discovery_engine.engine import Engine
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

Which = Literal["enabled", "disabled", "all"]

_INSPECT_TIMEOUT = 10.0  # seconds for connecting to a server that is to be shown


@click.command("inspect")
@click.argument("words", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target)
@click.option(
    "--server", metavar="SERVER", shell_complete=complete_server, help="The server of the tool."
)
@click.option("--tools", is_flag=True, help="Without a target: also show each server's tools.")
@click.option("--compact", is_flag=True, help="Show one line for each server or tool.")
@click.option("--args", "with_args", is_flag=True, help="Show the arguments of listed tools.")
@click.option("--examples", is_flag=True, help="Show an example call of listed tools.")
@click.option("--enabled", "which", flag_value="enabled", help="List enabled tools (the default).")
@click.option("--disabled", "which", flag_value="disabled", help="List disabled tools.")
@click.option("--all", "which", flag_value="all", help="List enabled and disabled tools.")
@view_option
@one_server_options
@pass_invocation
def command(  # noqa: PLR0913 - one for each option
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    server: str | None,
    tools: bool,
    compact: bool,
    with_args: bool,
    examples: bool,
    which: Which | None,
    view_name: str | None,
) -> None:
    """Show a server or a tool in full.

    TARGET is a server, `server:tool`, `server tool`, or the name of a tool that only one server
    has. Without TARGET, all servers are connected to and shown.

    \b
      discovery inspect github
      discovery inspect github:create_issue
      discovery inspect --tools
      discovery inspect --url https://mcp.example.com/mcp
    """
    portrait = DetailPrinter(
        invocation.output, invocation.clock(), compact=compact, args=with_args, examples=examples
    )
    if not words and server is None:
        _inspect_all(invocation, portrait, which or "enabled", view_name, with_tools=tools)
        return
    view = in_view(invocation.view(servers_shown(words, server)), view_name)
    whole = _whole_server(view, words, server)
    if whole is not None:
        _inspect_server(view, portrait, whole, which or "enabled")
        return
    say_unlisted(portrait.output, view, words, server)
    entry, extra = tool_shown(view, words, server)
    if extra:
        raise click.UsageError(f"only one target can be shown at a time; remove {extra[0]!r}")
    if portrait.output.as_json:
        form = details_form(entry, view) | {"typical_requests": requests_form(entry, view)}
        portrait.output.answer({"kind": "tool", "tool": form})
    else:
        portrait.tool(entry, view)


def _whole_server(view: View, words: tuple[str, ...], server: str | None) -> ServerName | None:
    """Return the server that the words name; None if they name a tool."""
    if not words:
        return view.server(server or "").name
    if len(words) > 1 or server is not None:
        return None
    named_server = server_named(view, words[0])
    return named_server.name if named_server else None


def _inspect_all(
    invocation: Invocation,
    portrait: DetailPrinter,
    which: Which,
    view_name: str | None,
    *,
    with_tools: bool,
) -> None:
    view = in_view(invocation.run(_connect), view_name)
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
        portrait.output.say(f"no answer within {_INSPECT_TIMEOUT:g} s yet: {listed(waiting)}")


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


_INDENT = 2


class DetailPrinter(Struct, frozen=True):
    """Prints servers and tools to `output`; `now` is Unix time in seconds."""

    output: Output
    now: float
    compact: bool = False
    args: bool = False
    examples: bool = False

    def servers(self, view: View, entries: Mapping[ServerName, Sequence[Entry]]) -> None:
        """Print all servers, each with the given tools."""
        if not any(entries.values()):
            rows = [server_row(self.output, s, with_status=True) for s in view.servers()]
            self.output.table(rows)
            return
        for summary in view.servers():
            self.output.table([server_row(self.output, summary, with_status=True)])
            self._tools(entries[summary.name], view)

    def server(self, summary: ServerReport, view: View, entries: Sequence[Entry]) -> None:
        self.output.table([server_row(self.output, summary, with_status=True)])
        if not self.compact:
            self.output.table(_facts(summary, view, self.now), indent=_INDENT)
        self._tools(entries, view)

    def tool(self, entry: Entry, view: View) -> None:
        if self.compact:
            self._tools([entry], view)
            return
        verdict = entry.verdict
        state = "enabled" if verdict.enabled else f"disabled: {view.reason(entry)}"
        mark = self.output.mark(good=verdict.enabled)
        self.output.table([[mark, Cell(entry.key.label, "strong"), state]])
        for line in block(entry.tool.description) if entry.tool.description.strip() else ():
            self.output.line(line)
        for line in suspicion_lines(view.findings(entry)):
            self.output.line(f"  {line}", "bad")
        self.output.table(_tool_facts(entry, view), indent=_INDENT)
        self._arguments(entry, _INDENT)
        self.output.line(f"  example: {command_line(entry)}")
        if examples := examples_of(entry, view):
            self.output.line(f"  typical requests ({examples}):")
            for text in examples.texts:
                self.output.line(f"    {one_line(text)}", "faint")

    def _tools(self, entries: Sequence[Entry], view: View) -> None:
        if not (self.args or self.examples):
            rows = [tool_row(self.output, entry, view) for entry in entries]
            self.output.table([row[:2] for row in rows] if self.compact else rows, indent=_INDENT)
            return
        for entry in entries:
            row = tool_row(self.output, entry, view)
            self.output.table([row[:2] if self.compact else row], indent=_INDENT)
            if self.args:
                self._arguments(entry, 3 * _INDENT)
            if self.examples:
                self.output.line(" " * 3 * _INDENT + command_line(entry))

    def _arguments(self, entry: Entry, indent: int) -> None:
        rows: list[list[Cell | str]] = [
            [
                Cell(named(parameter.name), "strong"),
                type_text(parameter.schema, entry.tool.input_schema),
                "required" if parameter.required else "optional",
                Cell(parameter.description, "faint"),
            ]
            for parameter in entry.tool.parameters
        ]
        none = "arguments not described" if entry.tool.takes_unnamed else "no arguments"
        self.output.table(rows or [[none]], indent=indent)


def _facts(summary: ServerReport, view: View, now: float) -> list[list[Cell | str]]:
    settings = view.server_settings(summary.name)
    part = view.catalog.parts.get(summary.name)
    facts = {
        "about": summary.description if summary.reason else "",
        "from": " ".join(filter(None, (settings.source, str(settings.origin)))),
        "tags": ", ".join(map(named, summary.tags)),
        "sandbox": visible(summary.sandbox),
        "apps": "; ".join(map(_app, apps_of(part) if part else ())),
        "listed": f"{ago(now - summary.listed_at)} ago" if summary.listed_at else "never",
        "unusable": "; ".join(f"{named(d.name)} ({d.reason})" for d in part.dropped)
        if part
        else "",
        "removed": "; ".join(
            f"{named(tool.name)} (on {date_of(tool.at)})"
            for tool in (part.removed if part else ())
            if now - tool.at < REMOVED_FOR
        ),
    }
    return [[Cell(name, "faint"), text] for name, text in facts.items() if text]


def _app(entry: OfferingEntry) -> str:
    """Return the page of an app and what it wants to reach."""
    form = app_form(entry.offering)
    return visible(f"{form['uri']} ({', '.join(form['access']) or 'names no domains'})")


def _tool_facts(entry: Entry, view: View) -> list[list[Cell | str]]:
    annotations = entry.tool.annotations
    claims = [f"{named(k)}: {_claim(v)}" for k, v in annotations.items() if k != "title"]
    costly = too_costly_tool(entry.tool)
    facts = {
        "tags": ", ".join(map(named, entry.verdict.tags)),
        "claims": ", ".join(claims),
        "overridden": "; ".join(_overrides(entry, view)),
        "schema": f"too costly to check: {costly}" if costly else "",
    }
    return [[Cell(name, "faint"), text] for name, text in facts.items() if text]


def _claim(value: JSONValue) -> str:
    return str(value).lower() if isinstance(value, bool) else quoted(str(value))


def _overrides(entry: Entry, view: View) -> Iterator[str]:
    """Yield the overrides of a tool and their positions; the tool itself shows their effect."""
    for index in entry.tool.overridden.by:
        override = view.settings.overrides[index]
        yield f"{override.gives()} ({override.origin})"
    yield from entry.tool.overridden.problems
