"""Tool discovery for agents with many MCP servers.

    from discovery_engine import open_engine

    async with open_engine("discovery.yaml") as engine:
        answer = await engine.search("create an issue")

A name is loaded when it is first used, so that reading what is remembered loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine._util.version import __version__
    from discovery_engine.agent.agent_tool import AgentTool
    from discovery_engine.agent.toolset import Toolset
    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.loading.loader import load_settings
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine, open_engine
    from discovery_engine.engine.restore import stored_view
    from discovery_engine.errors import ConfigurationError, DiscoveryError
    from discovery_engine.rpc.client import CallbackClient, Client, Continuation
    from discovery_engine.search.ranking.relevance import Hit
    from discovery_engine.store.call_log.log_entry import LogFilter
    from discovery_engine.tools.model import Tool, ToolKey
    from discovery_engine.tools.offering import OfferingKind
    from discovery_engine.upstream.state import ServerState
    from discovery_engine.view.search_answers import Decision, SearchAnswer
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

_MODULES = {
    "AgentTool": "agent.agent_tool",
    "CallbackClient": "rpc.client",
    "Catalog": "catalog",
    "Client": "rpc.client",
    "ConfigurationError": "errors",
    "Continuation": "rpc.client",
    "Decision": "view.search_answers",
    "DiscoveryError": "errors",
    "Engine": "engine",
    "Entry": "catalog",
    "Hit": "search.ranking.relevance",
    "LogFilter": "store.call_log.log_entry",
    "OfferingKind": "tools.offering",
    "SearchAnswer": "view.search_answers",
    "ServerReport": "view.status",
    "ServerState": "upstream.state",
    "Settings": "config.settings",
    "Tool": "tools.model",
    "ToolKey": "tools.model",
    "Toolset": "agent.toolset",
    "View": "view.view",
    "__version__": "_util.version",
    "load_settings": "config.loading.loader",
    "open_engine": "engine",
    "stored_view": "engine.restore",
}

__all__ = [
    "AgentTool",
    "CallbackClient",
    "Catalog",
    "Client",
    "ConfigurationError",
    "Continuation",
    "Decision",
    "DiscoveryError",
    "Engine",
    "Entry",
    "Hit",
    "LogFilter",
    "OfferingKind",
    "SearchAnswer",
    "ServerReport",
    "ServerState",
    "Settings",
    "Tool",
    "ToolKey",
    "Toolset",
    "View",
    "__version__",
    "load_settings",
    "open_engine",
    "stored_view",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
