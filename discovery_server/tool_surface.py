"""The tools that a client is shown and may call: one surface for each `server.mode`.

`server.expose` decides what a client may use, `server.poolLimit` how much of it is listed. A tool
that is visible and exposed can be called by its name whether it is listed at this moment or not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from discovery_engine.agent.client_definition import client_definition
from discovery_engine.agent.definitions import (
    EXECUTE_STEPS,
    META_TOOLS,
    POOL_SEARCH,
    MetaTool,
)
from discovery_engine.agent.render.pool import PoolReport
from discovery_engine.agent.steps.call_steps import MOST_STEPS
from discovery_engine.limits import NAME_LENGTH, shortened
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS, MODERN_VERSIONS
from discovery_engine.view.scope import Scope
from discovery_server.tool_pool import PoolRules, ToolPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from discovery_engine._util.json import JSONObject
    from discovery_engine.agent.caller import OnFound
    from discovery_engine.catalog import Entry
    from discovery_engine.config.settings import ServeSettings
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

_PAGE = 1 << 20  # bytes of definitions; an ordinary list is one page, and many hosts read no other
_CHANGING: JSONObject = {"ttlMs": 60_000, "cacheScope": "private"}
_EXECUTE = META_TOOLS["execute_tool"]
_SEARCHES = (POOL_SEARCH.name, "retrieve_tools")
"""The names that the search of the mode `dynamic` is called by; the first is listed."""

Definitions: TypeAlias = Iterable[tuple[str, "JSONObject"]]
"""The definition of each tool, by its name towards clients."""


class Call(Struct, frozen=True):
    """The call of a meta-tool that a client's call of a tool means."""

    engine: ScopedEngine
    """What it is called on: it shows what the client may use."""
    tool: MetaTool
    arguments: JSONObject
    on_found: OnFound | None = None
    is_direct: bool = False
    """Whether the client called the tool of a server by that tool's own name."""


class ToolSurface(Protocol):
    """What a client has as the tools of this gateway."""

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:
        """The result of `tools/list`.

        Raises:
            RpcError: If its cursor is none of this list.
        """

    def call(self, name: str, arguments: JSONObject) -> Call:
        """What a `tools/call` means.

        Raises:
            RpcError: If there is no such tool.
        """

    def input_schema(self, name: str) -> JSONObject | None:
        """The schema of a tool's arguments; None if there is no such tool."""


class MetaSurface:
    """The meta-tools, whatever servers there are."""

    def __init__(self, engine: ScopedEngine, tools: Mapping[str, MetaTool]) -> None:
        self._engine = engine
        self._tools = tools
        self._listed: JSONObject = {"tools": [tool.definition for tool in tools.values()]}

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:  # noqa: ARG002
        """As `ToolSurface`; there is one page."""
        return self._listed

    def call(self, name: str, arguments: JSONObject) -> Call:
        """As `ToolSurface`."""
        if tool := self._tools.get(name):
            return Call(self._engine, tool, arguments)
        names = ", ".join(self._tools)
        hint = f"this server has {names}; other tools are called through {_EXECUTE.name}"
        raise _unknown_tool(name, hint)

    def input_schema(self, name: str) -> JSONObject | None:
        """As `ToolSurface`."""
        tool = self._tools.get(name)
        return tool.input_schema if tool else None


class ExposedTools:
    """The tools of servers that clients use themselves, as `server.expose` has it."""

    def __init__(
        self,
        engine: ScopedEngine,
        expose: Sequence[str],
        pins: Sequence[str],
        helpers: Mapping[str, MetaTool],
    ) -> None:
        """`helpers` are the meta-tools that are listed, too."""
        self._helpers = helpers
        self.helpers = [(tool.name, tool.definition) for tool in helpers.values()]
        self.engine = engine.within(Scope.of_patterns(expose)) if expose else engine
        self._pinned = self.engine.within(Scope.of_patterns(pins)) if pins else None

    @property
    def view(self) -> View:
        return self.engine.view

    def pinned(self) -> list[Entry]:
        """The tools that are listed before all others."""
        return list(self._pinned.view.catalog.visible) if self._pinned else []

    def _named(self, name: str) -> Entry | None:
        """The tool of that name towards clients, if it can be used."""
        entry = self.view.addresses.by_client_name(name)
        return entry if entry and entry.is_visible else None

    def of_steps(self, arguments: JSONObject) -> Iterator[Entry]:
        """The tools that steps call, as far as they can be used."""
        steps = arguments.get("steps")
        for step in steps[:MOST_STEPS] if isinstance(steps, list) else ():
            name = step.get("tool") if isinstance(step, dict) else None
            if isinstance(name, str) and (entry := self._named(name)):
                yield entry

    def usable(self, key: ToolKey) -> Entry | None:
        """The tool of that key, if it can be used."""
        entry = self.view.catalog.get(key.server, key.tool)
        return entry if entry and entry.is_visible else None

    def definitions(self, entries: Iterable[Entry]) -> Iterator[tuple[str, JSONObject]]:
        """As clients are shown them; without a tool that has no name towards clients."""
        view = self.view
        for entry in entries:
            if name := view.addresses.client_name(entry.key):
                yield name, client_definition(entry, name, view.settings)

    def input_schema(self, name: str) -> JSONObject | None:
        """As `ToolSurface`."""
        if helper := self._helpers.get(name):
            return helper.input_schema
        entry = self._named(name)
        return entry.tool.input_schema if entry else None

    def call(self, name: str, arguments: JSONObject, hint: str) -> tuple[Entry | None, Call]:
        """The tool, unless it is a helper, and the call of it.

        Raises:
            RpcError: With a hint, if there is no such tool that can be used.
        """
        if helper := self._helpers.get(name):
            return None, Call(self.engine, helper, arguments)
        entry = self._named(name)
        if entry is None:
            raise _unknown_tool(name, hint)
        key: JSONObject = {"server": entry.tool.server, "tool": entry.tool.name}
        call = Call(self.engine, _EXECUTE, {**key, "arguments": arguments}, is_direct=True)
        return entry, call


class DirectSurface:
    """The tools of the servers themselves."""

    def __init__(self, tools: ExposedTools) -> None:
        self._tools = tools
        self._left_out = 0

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:
        """As `ToolSurface`."""
        listed = self._listed()
        self._log(listed)
        return _page([*self._tools.definitions(listed), *self._tools.helpers], params, version)

    def call(self, name: str, arguments: JSONObject) -> Call:
        """As `ToolSurface`."""
        return self._tools.call(name, arguments, "tools/list has the names of all tools")[1]

    def input_schema(self, name: str) -> JSONObject | None:
        """As `ToolSurface`."""
        return self._tools.input_schema(name)

    def _listed(self) -> list[Entry]:
        """The pinned tools, then one of each server in turn, until the limit is reached."""
        view = self._tools.view
        parts = [part.iter_visible() for part in view.catalog.parts.values()]
        in_turn = filter(None, chain.from_iterable(zip_longest(*parts)))
        chosen = _unique(chain(self._tools.pinned(), in_turn))
        listed = islice(chosen, view.settings.server.pool_limit)
        return sorted(listed, key=lambda entry: entry.key)

    def _log(self, listed: Sequence[Entry]) -> None:
        """A warning for the owner that tools are not listed, once for each number."""
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


class DynamicSurface:
    """One search, and the tools that it has put into the pool of the client."""

    def __init__(self, tools: ExposedTools, pool: ToolPool, on_change: Callable[[], None]) -> None:
        self._tools = tools
        self._pool = pool
        self._on_change = on_change

    def list_tools(self, params: JSONObject, version: str) -> JSONObject:
        """As `ToolSurface`."""
        search = POOL_SEARCH.name, POOL_SEARCH.definition
        entries = [*self._pinned(), *self._pooled()]
        definitions = [search, *self._tools.helpers, *self._tools.definitions(entries)]
        return _page(definitions, params, version)

    def call(self, name: str, arguments: JSONObject) -> Call:
        """As `ToolSurface`."""
        if name in _SEARCHES:
            return Call(self._tools.engine, POOL_SEARCH, arguments, self._register)
        hint = f"call {POOL_SEARCH.name}, which adds the tools that it finds to the list"
        entry, call = self._tools.call(name, arguments, hint)
        if entry:
            self._pool.use(entry.key)
        for entry in self._tools.of_steps(arguments) if name == EXECUTE_STEPS.name else ():
            self._pool.use(entry.key)
        return call

    def input_schema(self, name: str) -> JSONObject | None:
        """As `ToolSurface`."""
        if name in _SEARCHES:
            return POOL_SEARCH.input_schema
        return self._tools.input_schema(name)

    def _register(self, answers: Sequence[SearchAnswer]) -> PoolReport:
        """Put the hits of a search into the pool, the first of each query before the second."""
        settings = self._tools.view.settings.server
        pinned = {entry.key for entry in self._pinned()}
        self._pooled()  # first of all those leave that cannot be used any more
        found: dict[ToolKey, float] = {}
        for hit in filter(None, chain.from_iterable(zip_longest(*(a.hits for a in answers)))):
            found[hit.entry.key] = max(hit.relevance, found.get(hit.entry.key, 0.0))
        new = [one for one in found.items() if one[0] not in pinned]
        room = settings.pool_limit - len(pinned)
        change = self._pool.register(new, pool_rules(settings), room=room)
        if change:
            self._on_change()
        listed = [key for key in found if key in pinned or key in self._pool]
        return PoolReport(
            names=self._names(listed),
            registered=tuple(self._names(change.registered).values()),
            evicted=tuple(self._names(change.evicted).values()),
            left_out=len(found) - len(listed),
            size=len(pinned) + len(self._pool),
            limit=settings.pool_limit,
        )

    def _pinned(self) -> list[Entry]:
        """At most all but one of the tools that are listed: a search has to find something."""
        return self._tools.pinned()[: self._tools.view.settings.server.pool_limit - 1]

    def _pooled(self) -> list[Entry]:
        """The tools of the pool; those leave it that are gone, withheld or pinned."""
        pinned = {entry.key for entry in self._pinned()}
        self._pool.retain(lambda key: key not in pinned and self._tools.usable(key) is not None)
        return [entry for key in self._pool if (entry := self._tools.usable(key))]

    def _names(self, keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
        addresses = self._tools.view.addresses
        return {key: name for key in keys if (name := addresses.client_name(key))}


def pool_rules(settings: ServeSettings) -> PoolRules:
    """The rules of a pool, as the owner sets them."""
    weights = settings.pool_weights
    return PoolRules(settings.pool_limit, weights.score, weights.freshness, settings.pool_fresh_for)


def _page(definitions: Definitions, params: JSONObject, version: str) -> JSONObject:
    """The page behind the cursor, which is the name of the last tool of the page before."""
    tools = dict(definitions)
    names = list(tools)
    begin = 0
    if (cursor := params.get("cursor")) is not None:
        if cursor not in tools:
            raise RpcError(INVALID_PARAMS, "the cursor is not valid any more: list from the start")
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


def _unique(entries: Iterable[Entry]) -> Iterator[Entry]:
    seen: set[ToolKey] = set()
    for entry in entries:
        if entry.key not in seen:
            seen.add(entry.key)
            yield entry


def _unknown_tool(name: str, hint: str) -> RpcError:
    shown = repr(shortened(name, NAME_LENGTH))
    return RpcError(INVALID_PARAMS, f"Unknown tool: {shown}; {hint}")
