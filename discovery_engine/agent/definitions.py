"""Which meta-tools there are under some settings."""

from __future__ import annotations

from collections.abc import Mapping

from discovery_engine.config.settings import Settings
from discovery_engine.tools.meta_tools import (
    EXECUTE_STEPS,
    META_TOOLS,
    READ_RESULT,
    REGISTRY,
    REGISTRY_ASKING,
    STEPS_BESIDE_TOOLS,
    MetaTool,
)


def meta_tools(settings: Settings) -> Mapping[str, MetaTool]:
    """The meta-tools under some settings, by name, in the order in which they are listed."""
    is_cutting = bool(settings.result_limits) and settings.server.truncate.style == "boundary"
    optional = [READ_RESULT] if is_cutting else []
    if settings.server.steps:
        optional.append(EXECUTE_STEPS)
    if settings.server.registry_tool != "off":
        is_asking = settings.server.registry_tool == "ask"
        optional.append(REGISTRY_ASKING if is_asking else REGISTRY)
    return {**META_TOOLS, **{tool.name: tool for tool in optional}}


def helpers_beside_tools(settings: Settings) -> Mapping[str, MetaTool]:
    """Return the meta-tools that are listed beside the tools of servers."""
    tools = meta_tools(settings)
    helpers = (READ_RESULT, STEPS_BESIDE_TOOLS, tools.get(REGISTRY.name, REGISTRY))
    return {tool.name: tool for tool in helpers if tool.name in tools}
