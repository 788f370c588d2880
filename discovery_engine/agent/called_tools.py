"""The tools that a call of a meta-tool calls: tools of servers, or another meta-tool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.meta_arguments import MetaArguments
from discovery_engine.agent.steps.call_steps import read_steps
from discovery_engine.errors import DiscoveryError, NotFoundError

if TYPE_CHECKING:
    from discovery_engine.tools.meta_tools import MetaTool
    from discovery_engine.view.view import View

_SEPARATORS = re.compile(r":|__|[./]")


def meant_meta_tool(
    tools: Mapping[str, MetaTool], tool: MetaTool, arguments: JSONObject, view: View
) -> tuple[MetaTool, JSONObject]:
    """The meta-tool that a call of `execute_tool` names, with its arguments; else that call.

    The tool of a server that has the name of a meta-tool comes first.
    """
    names = tuple(tools)
    # Most calls name the tool of a server, and pay for no second reading.
    words = (value for value in arguments.values() if isinstance(value, str))
    if tool.name != "execute_tool" or not any(word.endswith(names) for word in words):
        return tool, arguments
    with suppress(DiscoveryError):
        meta_arguments = MetaArguments(arguments, tool.input_schema, tool.name)
        server, name = meta_arguments.called_tool()
        inner = tools.get(_SEPARATORS.split(name)[-1])
        if inner and (server is None or server not in view.settings.by_name):
            try:
                view.find(None, name)
            except NotFoundError:
                return meant_meta_tool(tools, inner, meta_arguments.mapping("arguments"), view)
    return tool, arguments


def called_tools(tool: MetaTool, arguments: JSONObject) -> Iterator[tuple[str | None, str]]:
    """Yield server and name of each tool that a call of the meta-tool calls, for `View.find`."""
    meta_arguments = MetaArguments(arguments, tool.input_schema, tool.name)
    match tool.name:
        case "execute_tool":
            yield meta_arguments.called_tool()
        case "execute_steps":
            yield from (
                (step.server, step.tool) for step in read_steps(meta_arguments.value("steps"))
            )
        case "registry" if meta_arguments.text("action") == "proxy_call":
            yield meta_arguments.called_tool()
