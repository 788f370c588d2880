"""`discovery cache`: what is remembered between runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.invocation import Invocation
from discovery_cli.options import complete_server, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_engine._util.quantities import ago, counted

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart


@click.group("cache", cls=Group)
def command() -> None:
    """Show or delete stored tools, or make their index anew."""


@command.command("info")
@pass_invocation
def info(invocation: Invocation) -> None:
    """Show what is stored of each server, and for how long."""
    from discovery_engine.json_forms.cache_form import cache_form, size_of
    from discovery_engine.runtime.restore import registry_path

    output = invocation.output
    view = invocation.known()
    path = registry_path(invocation.data_dir, os.environ)
    now = invocation.clock()
    if output.as_json:
        output.answer(cache_form(view, path, now))
        return
    output.table([_row(output, part, now) for part in view.catalog.parts.values()])
    output.say(f"{counted(len(view.catalog), 'tool')} in {path} ({size_of(path) / 1000:.0f} kB)")
    if name := view.settings.name:
        output.say(f"decisions are kept under the name {name!r}")


@command.command("reindex")
@pass_invocation
def reindex(invocation: Invocation) -> None:
    """Make the search index and the vectors of all tools anew.

    No server is asked: `discovery refresh` does that. It helps when an embedding model has changed
    under its name, or when the index is suspected to be wrong. Until a tool has its vector it is
    found by words; other gateways use the new vectors after their next start.
    """
    output = invocation.output
    report = invocation.run(lambda engine: engine.reindex())
    if output.as_json:
        from discovery_engine.json_forms.cache_form import reindex_form

        output.answer(reindex_form(report))
        return
    tools = counted(report.tools, "tool")
    if report.vectors is None:
        output.say(f"indexed {tools}; no vectors, as `search.embeddings` has no provider")
    else:
        output.say(f"indexed {tools}, and made {counted(report.vectors, 'vector')}")


@command.command("clear")
@click.argument("servers", metavar="[SERVER]...", nargs=-1, shell_complete=complete_server)
@pass_invocation
def clear(invocation: Invocation, servers: tuple[str, ...]) -> None:
    """Delete the stored tools of servers, and their usage; of all without a name.

    The servers are listed again when needed.
    """
    output = invocation.output
    count = invocation.run(lambda engine: engine.forget(servers or None))
    if output.as_json:
        output.answer({"forgotten": count})
    else:
        output.say(f"forgot {counted(count, 'tool')}")


def _row(output: Output, part: ServerPart, now: float) -> list[Cell | str]:
    listed = f"listed {ago(now - part.listed_at)} ago" if part.listed_at else "never listed"
    return [
        output.mark(good=part.failure is None and part.listed_at is not None),
        Cell(part.server, "strong"),
        counted(len(part.entries), "tool"),
        listed,
        "last known, as the newest attempt failed" if part.is_stale else "",
    ]
