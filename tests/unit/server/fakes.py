"""An engine without upstreams: it answers from a view that the test made."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.config.settings import Settings
from discovery_engine.engine.result_store import ResultStore
from discovery_engine.errors import Origin, ServerDisabledError
from discovery_engine.rpc.client import Client, Continuation
from discovery_engine.rules.rule import Rule
from discovery_engine.search.ranking.confidence import Assessment
from discovery_engine.tools.arguments import Checker
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.upstream.state import StateInfo
from discovery_engine.view.search_answers import SearchAnswer
from discovery_engine.view.view import ToolList, View
from tests.factories import make_catalog, make_entry, make_part, make_server, make_settings

__all__ = ["ServeSettings"]  # for those that make a view

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


Keys: TypeAlias = frozenset[ToolKey]


@dataclass(frozen=True)
class WordQuery:
    text: str
    clauses = ()

    @property
    def terms(self) -> WordQuery:
        return self


@dataclass(frozen=True)
class WordHit:
    entry: Entry
    relevance: float


@dataclass(frozen=True)
class WordSearcher:
    """Ranks by the share of the query's words that a tool's name or description says."""

    catalog: Catalog
    assessed_hits = 1
    unindexed = 0

    @property
    def hidden(self) -> Keys:
        return self._keys(lambda entry: not entry.is_visible)

    @property
    def visible(self) -> Keys:
        return self._keys(lambda entry: entry.is_visible)

    def tools_of(self, servers: Mapping[str, bytes | None]) -> Keys:
        return frozenset(
            entry.key
            for server, flags in servers.items()
            for at, entry in enumerate(self.catalog.part(ServerName(server)).entries)
            if flags is None or flags[at]
        )

    def tools_with(self, tags: frozenset[str], *, any_tag: bool = False) -> Keys:
        return self._keys(lambda entry: entry.verdict.carries(tags, any_tag=any_tag))

    def _keys(self, accepts: Callable[[Entry], bool]) -> Keys:
        return frozenset(entry.key for entry in self.catalog if accepts(entry))

    def analyze(self, text: str) -> WordQuery:
        return WordQuery(text)

    def search(
        self,
        query: WordQuery,
        *,
        limit: int,
        accepts: Callable[[Entry], bool],
        similarities: object = None,
        usage: object = None,
        within: Keys | None = None,
    ) -> tuple[WordHit, ...]:
        words = query.text.casefold().split()
        hits = []
        for entry in filter(accepts, self.catalog):
            if within is not None and entry.key not in within:
                continue
            text = f"{entry.tool.name} {entry.tool.description}".casefold()
            if found := sum(word in text for word in words):
                hits.append(WordHit(entry, found / len(words)))
        return tuple(sorted(hits, key=lambda hit: (-hit.relevance, hit.entry.key))[:limit])

    def assess(self, _: WordQuery, hits: Sequence[WordHit], *__: object) -> Assessment:
        return Assessment(confidence=1.0 if hits else 0.0, alike=1, unknown=())

    def is_order(self, _: WordQuery) -> bool:
        return True


@dataclass
class Call:
    tool: str
    arguments: JSONObject
    client: str | None
    on_progress: OnProgress | None
    caller: Client | None = None
    continuation: Continuation | None = None


@dataclass
class FakeOfferings:
    engine: FakeEngine

    async def read_resource(self, uri: str, **_: Any) -> JSONObject:
        target = self.engine.view.resource(None, uri)
        text = self.engine.resource or target.server
        return {"contents": [{"uri": target.uri, "text": text}]}

    async def get_prompt(
        self, name: str, arguments: JSONObject | None = None, **_: Any
    ) -> JSONObject:
        prompt = self.engine.view.prompt(None, name).offering
        content = {"type": "text", "text": prompt.server}
        return {"messages": [{"role": "user", "content": content}], "given": arguments}

    async def complete(self, params: JSONObject, **_: Any) -> JSONObject:
        self.engine.view.prompt(None, params["ref"]["name"])
        return {"completion": {"values": [params["argument"]["value"]]}}


FOLDERS = TemporaryDirectory(prefix="results-")
"""Goes with this process: many engines are made in one test."""
NUMBERS = count()


def own_folder() -> Path:
    return Path(FOLDERS.name, str(next(NUMBERS)))


@dataclass
class FakeEngine:
    view: View
    result: JSONObject = field(default_factory=lambda: {"content": []})
    execution: Callable[[Call], Awaitable[JSONObject]] | None = None
    """What a call does instead of returning `result`."""
    calls: list[Call] = field(default_factory=list)
    expected: list[Mapping[str, JSONObject]] = field(default_factory=list)
    """The capabilities of the clients that have connected."""
    waits: list[str] = field(default_factory=list)
    results: ResultStore = field(default_factory=lambda: ResultStore(own_folder(), clock=time.time))
    hands_out_tasks: bool = True
    learns: View | None = None
    """The view once the servers have been asked."""
    ended: list[str] = field(default_factory=list)
    """The clients that have ended."""
    gateway_store: None = None
    resource: str = ""
    """The text of every resource; if it is empty, the name of its server."""

    @property
    def settings(self) -> Settings:
        return self.view.settings

    @property
    def has_listings(self) -> bool:
        return self.view.catalog.has_listings

    def expect_client(self, capabilities: Mapping[str, JSONObject]) -> None:
        self.expected.append(capabilities)

    def roots_changed(self, client: Client) -> None:
        pass

    def close_client(self, client: str) -> None:
        self.ended.append(client)

    def is_listed(self, server: str) -> bool:
        return self.view.is_known(self.view.addresses.server(server))

    async def wait_first_listed(self, server: str | None) -> None:
        if server is None and not self.has_listings:
            await self.wait_listed(timeout=0)
        elif server is not None and not self.is_listed(server):
            with suppress(ServerDisabledError):
                await self.list_tools(server)

    async def wait_listed(self, *, timeout: float) -> None:  # noqa: ASYNC109
        self.waits.append("all")
        self.view = self.learns or self.view

    async def search(self, query: str, **asked: Any) -> SearchAnswer:
        kinds = asked.pop("kinds", ("tool",))
        answer = self.view.search(query, **asked)
        if kinds == ("tool",):
            return answer
        asked.pop("include_disabled", None)
        found = self.view.search_offerings(query, kinds, **asked)
        return replace(answer, offerings=found, hits=answer.hits if "tool" in kinds else ())

    async def list_tools(self, server: str, *, include_disabled: bool = False) -> ToolList:
        self.waits.append(server)
        self.view = self.learns or self.view
        return self.view.list_tools(server, include_disabled=include_disabled)

    @property
    def offerings(self) -> FakeOfferings:
        return FakeOfferings(self)

    async def details(
        self, server: str | None, tool: str, *, max_wait: float | None = None
    ) -> Entry:
        return self.view.details(server, tool)

    async def execute(
        self,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        *,
        on_progress: OnProgress | None = None,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        max_wait: float | None = None,
        on_unchecked: Callable[[str], None] | None = None,
        by: str | None = None,
    ) -> JSONObject:
        entry = await self.details(server, tool)
        checked = Checker(entry.tool).check(arguments)
        if checked and checked.unchecked and on_unchecked:
            on_unchecked(checked.unchecked)
        call = Call(
            str(entry.key),
            checked.arguments if checked else arguments,
            caller.id if caller else None,
            on_progress,
            caller,
            continuation,
        )
        self.calls.append(call)
        return await self.execution(call) if self.execution else self.result


DENIES = Rule(patterns=("delete_*",), enabled=False, origin=Origin("discovery.yaml", 7, 5))


def make_view(
    *parts: ServerPart, live: Mapping[Any, StateInfo] | None = None, **settings: Any
) -> View:
    """A view of `parts`; each server is configured unless `servers` says which are."""
    servers = settings.pop("servers", None) or [make_server(part.server) for part in parts]
    rules = settings.pop("tool_rules", (DENIES,))
    made = make_settings(*servers, tool_rules=rules, **settings)
    catalog = make_catalog(*parts) if parts else Catalog()
    return View(made, catalog, partial(WordSearcher, catalog), live or {})


def object_schema(required: tuple[str, ...] = (), **properties: Any) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}


ISSUES = make_part(
    "github",
    make_entry(
        "create_issue",
        description="Create a new issue in a repository.",
        tags=["write"],
        inputSchema=object_schema(
            ("title",),
            title={"type": "string", "description": "Its title"},
            labels={"type": "array", "items": {"type": "string"}},
            state={"enum": ["open", "closed"], "default": "open"},
        ),
    ),
    make_entry(
        "list_issues",
        description="List the issues of a repository.",
        annotations={"readOnlyHint": True},
    ),
    make_entry("delete_repository", enabled=False, description="Delete a repository."),
)
CLOCK = make_part("time", make_entry("get_current_time", "time", description="Tell the time."))


def make_engine(*parts: ServerPart, **fields: Any) -> FakeEngine:
    return FakeEngine(make_view(*(parts or (ISSUES, CLOCK))), **fields)
