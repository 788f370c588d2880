"""The instructions that an agent receives when it connects.

They name the servers behind the gateway, so that an agent knows when to search. They are rendered
from the current catalog, within the owner's limit of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from discovery_engine._util.quantities import counted
from discovery_engine._util.text import cut, named, one_line
from discovery_engine.agent.budget import Budget, first_fitting
from discovery_engine.upstream.state import ServerState
from discovery_engine.view.notices import lost, why_no_server
from discovery_engine.view.status import ServerReport

if TYPE_CHECKING:
    from discovery_engine.config.serve_settings import ServeMode
    from discovery_engine.view.view import View

_EXAMPLES = 3  # tools named for a server, to show what it does
_DETAIL = ((160, _EXAMPLES), (80, _EXAMPLES), (80, 0), (40, 0), (0, 0))
"""Characters of a server's description, and the number of tools named; the richest first."""


_HOW: Mapping[ServeMode, str] = {
    "meta": "Whenever a task might need one of them, call search_tools with operation, object and "
    "product in English, without values (`create issue, GitHub`); "
    "then execute_tool with `server:tool` and its arguments. "
    "get_tool_details explains a tool's arguments.",
    "direct": "They are in your list of tools, each with the name of its server in front.",
    "auto": "They are among your tools, each with the name of its server in front. "
    "Whenever a task might need one that you do not see, search your tools for it.",
    "dynamic": "Whenever a task might need one of them, call search_tools with operation, object "
    "and product in English, without values (`create issue, GitHub`); "
    "it adds the tools that it finds to your list of tools.",
}


def render_instructions(view: View, mode: ServeMode = "meta") -> str:
    """The instructions, in at most `server.instructions_tokens`, for a client in that mode."""
    cap = view.settings.server.instructions_tokens
    servers = [s for s in view.servers() if s.state is not ServerState.DISABLED]
    return first_fitting(_instructions(view, servers, mode), Budget(cap))


def _instructions(view: View, servers: Sequence[ServerReport], mode: ServeMode) -> Iterator[str]:
    if not servers:
        yield f"This gateway gives access to MCP servers, but {_why_none(view)}."
        return
    count = sum(server.enabled_count for server in servers)
    tools = counted(count, "tool") if count else "the tools"
    behind = counted(len(servers), "MCP server")
    opening = f"This gateway gives access to {tools} of {behind}. {_HOW[mode]}"
    limit = view.settings.server.pool_limit
    if mode == "direct" and count > limit:
        opening += f" Your list has {limit} of them; its owner can change which."
    if view.lost_at is not None:
        opening += f"\nNote: {lost(view.lost_at).message}."
    for length, examples in _DETAIL:
        lines = [_line(view, server, length, examples) for server in servers]
        yield "\n".join([opening, "Servers:", *lines])
    yield from _names_only(opening, servers)


def _why_none(view: View) -> str:
    if not view.settings.enabled:
        return "its configuration has `enabled: false`, which disables all of them"
    if view.settings.servers:
        return "its configuration disables every one of them"
    return f"none is configured: {why_no_server(view.settings)}"


def _names_only(opening: str, servers: Sequence[ServerReport]) -> Iterator[str]:
    """Fewer and fewer names; the largest servers are kept longest."""
    largest = sorted(servers, key=lambda server: (-server.enabled_count, server.name))
    count = len(servers)
    while count := count * 2 // 3:
        names = sorted(named(server.name) for server in largest[:count])
        yield f"{opening}\nServers: {', '.join(names)} and {len(servers) - count} more."
    yield opening


def _line(view: View, server: ServerReport, length: int, examples: int) -> str:
    # Only the owner's description: text of an upstream must not instruct an agent.
    about = cut(view.owner_description(server.name), length)
    # Of a server's thousands of tools only these are looked at.
    first = islice(view.catalog.part(server.name).iter_visible(), examples)
    names = [named(entry.tool.name) for entry in first]
    such_as = f"such as {', '.join(names)}" if names else ""
    purpose = "; ".join(filter(None, (about, such_as)))
    count = f" ({server.enabled_count})" if server.enabled_count else ""
    return one_line(f"- {named(server.name)}{count}" + (f": {purpose}" if purpose else ""))
