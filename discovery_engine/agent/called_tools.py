"""The tools of servers that a call of a meta-tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.meta_arguments import MetaArguments
from discovery_engine.agent.steps.call_steps import read_steps

if TYPE_CHECKING:
    from discovery_engine.agent.definitions import MetaTool


def called_tools(tool: MetaTool, arguments: JSONObject) -> Iterator[tuple[str | None, str]]:
    """As `View.find` takes them, from arguments with which the meta-tool has been called."""
    given = MetaArguments(arguments, tool.input_schema, tool.name)
    match tool.name:
        case "execute_tool":
            yield given.called_tool()
        case "execute_steps":
            yield from ((step.server, step.tool) for step in read_steps(given.value("steps")))
        case "registry" if given.text("action") == "proxy_call":
            yield given.called_tool()
