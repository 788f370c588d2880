"""Tool surfaces: the tools that a client may list and call, by `server.mode`.

`ToolSurfaces` selects the surface of a request; `ClientSession` holds the state of its client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.agent.dispatch import meant_meta_tool
from discovery_engine.agent.exposed_tools import ExposedTools, execution
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.agent.meta_arguments import helpers_beside_tools, meta_tools
from discovery_engine.agent.tool_pool import BoundTools, ToolPool, pool_rules
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS, MODERN_VERSIONS
from discovery_engine.tools.limits import NAME_LENGTH, shortened
from discovery_engine.tools.meta_tools import (
    META_TOOLS,
    POOL_SEARCH,
    POOL_SEARCHES,
    REGISTRY,
    MetaTool,
)
from discovery_server.eras import client_name

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.answer_rendering import PoolReport
    from discovery_engine.agent.meta_arguments import OnCall, OnFound
    from discovery_engine.catalog import Entry
    from discovery_engine.config.serve_settings import ServeMode
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_server.eras import ClientRequest, ClientSession

logger = logging.getLogger(__name__)

_PAGE = 1 << 20  # bytes of definitions; most lists fit one page, and many hosts read only one
_CHANGING: JSONObject = {"ttlMs": 60_000, "cacheScope": "private"}
_EXECUTE = META_TOOLS["execute_tool"]


class Host(Struct, frozen=True):
    """An agent that searches the tools of its servers itself, so that it is given all of them."""

    title: str
    reason: str
    """How it searches, if it is given all tools."""
    reads_hints: bool = False
    """True if it reads `anthropic/searchHint` and `anthropic/alwaysLoad`."""

    def tools_in(self, mode: ServeMode) -> str:
        """Describe the tools that it gets in a mode, for people."""
        match mode:
            case "auto" if self in HOSTS.values():
                pins = ", with search hints; those of `server.pins` are always at hand"
                return "all tools" + (pins if self.reads_hints else "")
            case "direct":
                return "the tools of the servers, at most `server.poolLimit`"
            case "dynamic":
                return (
                    "`search_tools`, and the tools that it has found; the meta-tools where the"
                    " client speaks MCP 2026-07-28"
                )
        return "the meta-tools"

    def search_in(self, mode: ServeMode) -> str:
        """Describe how it finds a tool in a mode, for people."""
        match mode:
            case "auto":
                return self.reason
            case "direct" if self in HOSTS.values():
                return "searches their names and descriptions itself"
            case "direct":
                return "reads all of them"
            case "dynamic":
                return "calls `search_tools`, which adds what it finds"
        return "calls `search_tools`"


HOSTS: Mapping[str, Host] = {
    "claude-code": Host(
        "Claude Code",
        "searches names, descriptions and hints with its ToolSearch",
        reads_hints=True,
    ),
    "codex-mcp-client": Host("Codex", "searches names and descriptions with its tool_search, BM25"),
}
"""Hosts of `server.mode: auto` by the name that they have in `clientInfo`; all others are shown the
meta-tools."""

OTHER_HOSTS = Host(
    "Any other client", "calls `search_tools`; it is not known to search tools itself"
)

Definitions: TypeAlias = Iterable[tuple[str, "JSONObject"]]
"""Pairs of a tool's name towards clients and its definition."""


class Call(Struct, frozen=True):
    """The call of a meta-tool into which a client's `tools/call` is translated."""

    engine: ScopedEngine
    """The engine that executes it, limited to what the client may use."""
    tool: MetaTool
    arguments: JSONObject
    on_found: OnFound | None = None
    on_call: OnCall | None = None
    is_direct: bool = False
    """True if the client called a tool of a server by name."""


class ToolSurface(Protocol):
    """The tools of this gateway that a client may list and call."""

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:
        """Return the result of `tools/list`.

        Raises:
            RpcError: If the cursor is not valid for this list.
        """

    def call(self, name: str, arguments: JSONObject) -> Call:
        """Translate a `tools/call` into the call of a meta-tool.

        Raises:
            RpcError: If there is no such tool.
        """

    def input_schema(self, name: str) -> JSONObject | None:
        """Return the JSON schema of a tool's arguments; None if there is no such tool."""


class MetaSurface:
    """The surface of `server.mode: meta`: only the meta-tools."""

    def __init__(self, engine: ScopedEngine, tools: Mapping[str, MetaTool]) -> None:
        self._engine = engine
        self._tools = tools
        self._listed: JSONObject = {"tools": [tool.definition for tool in tools.values()]}

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:  # noqa: ARG002
        """Return the meta-tools, on one page; see `ToolSurface.list_tools`."""
        if params.get("cursor") is not None:
            raise _invalid_cursor()
        return self._listed

    def call(self, name: str, arguments: JSONObject) -> Call:
        """Return the call of a meta-tool; see `ToolSurface.call`."""
        if tool := self._tools.get(name):
            meant = meant_meta_tool(self._engine, self._tools, tool, arguments)
            return Call(self._engine, *meant)
        names = ", ".join(self._tools)
        hint = f"this server has {names}; other tools are called through {_EXECUTE.name}"
        raise _unknown_tool(name, hint)

    def input_schema(self, name: str) -> JSONObject | None:
        """Return the schema of a meta-tool's arguments; see `ToolSurface.input_schema`."""
        tool = self._tools.get(name)
        return tool.input_schema if tool else None


class ExposedSurface:
    """The base of surfaces on which tools of servers are called by name."""

    def __init__(self, tools: ExposedTools) -> None:
        self._tools = tools
        self._helpers = [(tool.name, tool.definition) for tool in tools.helpers.values()]

    def input_schema(self, name: str) -> JSONObject | None:
        """Return the schema of the arguments of a tool; see `ToolSurface.input_schema`."""
        return self._tools.input_schema(name)

    def _call(self, name: str, arguments: JSONObject, hint: str) -> Call:
        """Return the call of a tool or a helper.

        Raises:
            RpcError: If no usable tool has this name; its message ends with `hint`.
        """
        if helper := self._tools.helpers.get(name):
            return Call(self._tools.engine, helper, arguments)
        entry = self._tools.named(name)
        if entry is None:
            raise _unknown_tool(name, hint)
        meant = execution(entry.key, arguments)
        return Call(self._tools.engine, _EXECUTE, meant, is_direct=True)


class DirectSurface(ExposedSurface):
    """The surface of `server.mode: direct`: the tools of the servers, up to `server.poolLimit`.

    For a host that searches them itself there is no limit.
    """

    def __init__(self, tools: ExposedTools, host: Host | None = None) -> None:
        super().__init__(tools)
        self._host = host
        self._left_out = 0

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:
        """Return a page of the servers' tools; see `ToolSurface.list_tools`."""
        listed = self._listed()
        self._log(listed)
        has_hints = self._host is not None and self._host.reads_hints
        define = self._tools.hinted_definitions if has_hints else self._tools.definitions
        return _page([*define(listed), *self._helpers], params, version)

    def call(self, name: str, arguments: JSONObject) -> Call:
        """Return the call of an exposed tool or a helper; see `ToolSurface.call`."""
        return self._call(name, arguments, "tools/list has the names of all tools")

    def _listed(self) -> list[Entry]:
        """Return up to `server.poolLimit` tools: the pinned ones, then one of each server in turn.

        The tools are sorted by key.
        """
        view = self._tools.view
        parts = [part.iter_visible() for part in view.catalog.parts.values()]
        in_turn = filter(None, chain.from_iterable(zip_longest(*parts)))
        chosen = _unique(chain(self._tools.pinned(), in_turn))
        limit = None if self._host else view.settings.server.pool_limit
        return sorted(islice(chosen, limit), key=lambda entry: entry.key)

    def _log(self, listed: Sequence[Entry]) -> None:
        """Log a warning that tools are not listed, whenever their number changes."""
        parts = self._tools.view.catalog.parts.values()
        left_out = sum(part.visible_count for part in parts) - len(listed)
        if left_out and left_out != self._left_out:
            logger.warning(
                "%d tools are not listed, because `server.poolLimit` is %d: raise it, name the"
                " tools in `server.expose` or `server.pins`, or use `server.mode: dynamic`",
                left_out,
                self._tools.view.settings.server.pool_limit,
            )
        self._left_out = left_out


class DynamicSurface(ExposedSurface):
    """The surface of `server.mode: dynamic`: a search, and the tools it added to the pool."""

    def __init__(self, tools: ExposedTools, pool: ToolPool, on_change: Callable[[], None]) -> None:
        super().__init__(tools)
        self._bound = BoundTools(tools, pool, pool_rules(tools.view.settings.server))
        self._on_change = on_change

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:
        """Return a page of the search, helpers and pooled tools; see `ToolSurface.list_tools`."""
        search = POOL_SEARCH.name, POOL_SEARCH.definition
        definitions = [search, *self._helpers, *self._tools.definitions(self._bound.entries())]
        return _page(definitions, params, version)

    def call(self, name: str, arguments: JSONObject) -> Call:
        """Return the call of the search or of an exposed tool; see `ToolSurface.call`."""
        if name in POOL_SEARCHES:
            return Call(self._tools.engine, POOL_SEARCH, arguments, self._register)
        hint = f"call {POOL_SEARCH.name}, which adds the tools that it finds to the list"
        on_found = self._register if name == REGISTRY.name else None
        return replace(
            self._call(name, arguments, hint), on_found=on_found, on_call=self._bound.use
        )

    def input_schema(self, name: str) -> JSONObject | None:
        """Return the schema of the arguments of a tool; see `ToolSurface.input_schema`."""
        if name in POOL_SEARCHES:
            return POOL_SEARCH.input_schema
        return super().input_schema(name)

    def _register(self, answers: Sequence[SearchAnswer]) -> PoolReport:
        report = self._bound.register(answers)
        if report.registered or report.evicted:
            self._on_change()
        return report


def _page(definitions: Definitions, params: JSONObject, version: str) -> JSONObject:
    """Return the page of at most 1 MiB after the cursor, the last tool name of the page before.

    Raises:
        RpcError: If no tool has that name.
    """
    tools = dict(definitions)
    names = list(tools)
    begin = 0
    if (cursor := params.get("cursor")) is not None:
        if cursor not in tools:
            raise _invalid_cursor()
        begin = names.index(cursor) + 1
    page: list[str] = []
    size = 0
    for name in names[begin:]:
        size += len(encode_finite(tools[name]))
        if page and size > _PAGE:
            break
        page.append(name)
    result: JSONObject = {"tools": [tools[name] for name in page]}
    if begin + len(page) < len(names):
        result["nextCursor"] = page[-1]
    return result | _CHANGING if version in MODERN_VERSIONS else result


def _invalid_cursor() -> RpcError:
    return RpcError(INVALID_PARAMS, "the cursor is not valid any more: list from the start")


def _unique(entries: Iterable[Entry]) -> Iterator[Entry]:
    seen: set[ToolKey] = set()
    for entry in entries:
        if entry.key not in seen:
            seen.add(entry.key)
            yield entry


def _unknown_tool(name: str, hint: str) -> RpcError:
    label = repr(shortened(name, NAME_LENGTH))
    return RpcError(INVALID_PARAMS, f"Unknown tool: {label}; {hint}")


_LIST_CHANGED = "notifications/tools/list_changed"


class ToolSurfaces:
    """The tool surfaces of an engine, rebuilt when its settings change."""

    def __init__(
        self,
        engine: ScopedEngine,
        on_list_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the surfaces; `on_list_changed` is called when a search has changed a list."""
        self._engine = engine
        self._on_list_changed = on_list_changed
        self._settings: Settings | None = None
        self._used: object = None
        self._use_settings()

    def of(self, request: ClientRequest) -> ToolSurface:
        """Return the surface for a request of a client.

        A dynamic list needs a session to hold it, and the protocol of 2026-07-28 forbids lists that
        depend on earlier requests; such clients get the meta-tools.
        """
        session = request.session
        match self._mode(request):
            case "direct":
                return self._direct
            case "auto":
                return self._searched[client_name(request)]
            case "dynamic" if session:
                changed = partial(self._announce, session, request.client)
                return DynamicSurface(self._exposed, session.pool, changed)
        return self._meta

    def instructions(self, request: ClientRequest) -> str:
        """Return the instructions of this gateway for the client of a request."""
        mode = self._mode(request)
        view = self._engine.view if mode == "meta" else self._exposed.view
        return render_instructions(view, mode)

    def _mode(self, request: ClientRequest) -> ServeMode:
        """Apply the current settings, and return their mode for a client.

        It is `auto` only for a host that searches tools itself.
        """
        match self._use_settings().server.mode:
            case "dynamic" if request.version in MODERN_VERSIONS:
                return "meta"
            case "auto" if client_name(request) not in HOSTS:
                return "meta"
            case mode:
                return mode

    def _announce(self, session: ClientSession, client: Client | None) -> None:
        """Notify the client of changed tools, on its own stream or else on that of the request."""
        if not session.tools_changed() and client:
            client.notify(_LIST_CHANGED, {})
        self._on_list_changed()

    def _use_settings(self) -> Settings:
        settings = self._engine.settings
        if settings is self._settings:
            return settings
        self._settings = settings
        tools, server = meta_tools(settings), settings.server
        used = tuple(tools), server.expose, server.pins
        if used != self._used:
            self._used = used
            helpers = helpers_beside_tools(settings)
            self._meta = MetaSurface(self._engine, tools)
            self._exposed = ExposedTools(self._engine, server.expose, server.pins, helpers)
            self._direct = DirectSurface(self._exposed)
            self._searched = {name: DirectSurface(self._exposed, HOSTS[name]) for name in HOSTS}
        return settings
