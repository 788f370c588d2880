"""A stand-in for the engine of the command line: it has two views, and tells what was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from click.testing import CliRunner, Result

from discovery_cli.invocation import Backend, Invocation
from discovery_cli.program import cli
from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Catalog, RefreshReport, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.engine.health import health
from discovery_engine.errors import DiscoveryError, RegistryUnavailableError
from discovery_engine.events import EventBus, ServerConnected, ServerConnecting, ServerFailed
from discovery_engine.rules.rule import Rule
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.model import ServerName
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import View
from tests.factories import make_catalog, make_entry, make_part, make_settings

NOW = 10_000.0
ISSUE_SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "What it is about"},
        "labels": {"type": "array"},
        "urgent": {"type": "boolean"},
    },
    "required": ["title"],
}


def view_of(settings: Settings, *parts: ServerPart, **fields: Any) -> View:
    catalog = make_catalog(*parts)
    return View(settings, catalog, partial(build_searcher, catalog, settings.search), **fields)


def usual_view() -> View:
    """Two servers, each with a tool that the other has too, one tool of them disabled."""
    settings = make_settings("github", "time", tool_rules=(Rule(("delete_*",), enabled=False),))
    github = make_part(
        "github",
        make_entry(
            "create_issue",
            description="Create an issue in a repository. It is numbered.",
            inputSchema=ISSUE_SCHEMA,
            annotations={"readOnlyHint": False},
            tags=["write"],
        ),
        make_entry("delete_issue", description="Delete an issue.", enabled=False),
        make_entry("status", description="Whether it is up."),
        listed_at=NOW - 60,
        instructions="Code and issues.\nBe kind.",
    )
    time = make_part(
        "time",
        make_entry("convert_time", "time", description="Convert a time between zones."),
        make_entry("status", "time", description="Whether the clock runs."),
        listed_at=NOW - 60,
    )
    return view_of(settings, github, time)


class FakeFleet:
    async def status(self) -> None:
        raise RegistryUnavailableError("there is no registry")


@dataclass
class FakeEngine:
    view: View
    after: View | None = None
    """The view once servers were asked; the same one if None."""
    result: JSONObject = field(default_factory=dict)
    error: DiscoveryError | None = None
    """What `execute` and `details` raise."""
    asked: list[Any] = field(default_factory=list)
    max_wait: float | None = None
    """Seconds that the last `refresh` was given."""
    bus: EventBus = field(default_factory=EventBus)

    def subscribe(self) -> Any:
        return self.bus.subscribe()

    async def refresh(
        self, servers: Iterable[str] | None = None, *, max_wait: float | None = None
    ) -> RefreshReport:
        before = self.view
        names = before.catalog.parts if servers is None else list(servers)
        self.asked.append(sorted(names))
        self.max_wait = max_wait
        self.view = self.after or before
        parts = self.view.catalog.parts
        for name in map(ServerName, names):
            self.bus.publish(ServerConnecting(name))
            if failure := parts[name].failure:
                self.bus.publish(ServerFailed(name, failure.code, failure.message))
            else:
                self.bus.publish(ServerConnected(name, len(parts[name].entries)))
        diff = before.catalog.diff(self.view.catalog)
        failures = tuple((ServerName(name), parts[ServerName(name)].failure) for name in names)
        return RefreshReport(failures, diff)

    @property
    def fleet(self) -> FakeFleet:
        return FakeFleet()

    async def complete_settings(self) -> None:
        """The view that it was given is complete."""

    async def health(self, _: object = None) -> tuple[ServerReport, ...]:
        return health(self.view, now=NOW)

    async def wait_embedded(self, *, timeout: float) -> None:  # noqa: ASYNC109 - as the engine's
        """There is no embedder to wait for."""

    async def execute(
        self,
        server: str,
        tool: str,
        arguments: JSONObject,
        *,
        caller: Any = None,
        on_progress: Any = None,
        on_unchecked: Any = None,
    ) -> JSONObject:
        self.asked.append((server, tool, arguments))
        if on_progress:
            await on_progress(1, 2, "half\x1b[31m way")
            await on_progress(3, None, None)
        if self.error:
            raise self.error
        return self.result

    async def details(self, server: str, tool: str) -> None:
        self.asked.append((server, tool))
        if self.error:
            raise self.error
        self.view = self.after or self.view


@dataclass
class FakeBackend(Backend):
    recalled: View | None = None
    engine: FakeEngine | None = None
    failing: Exception | None = None
    """What recalling raises."""

    def recall(self, config: str | None, data_dir: str | None, *, frozen: bool) -> View | None:
        if self.failing:
            raise self.failing
        return self.recalled

    @asynccontextmanager
    async def open(
        self, config: str | Settings | None, data_dir: str | None, *, frozen: bool
    ) -> AsyncIterator[Any]:
        if self.engine is None:
            raise AssertionError("no server should have been asked")
        yield self.engine


def run(
    *words: str,
    recalled: View | None = None,
    engine: FakeEngine | None = None,
    failing: Exception | None = None,
    clock: Callable[[], float] = lambda: NOW,
    **extra: Any,
) -> Result:
    """Run a command in this process; without an engine, asking a server fails the test."""
    backend = FakeBackend(recalled, engine, failing)
    return CliRunner().invoke(cli, words, obj=Invocation(backend=backend, clock=clock), **extra)


def nothing_known(view: View) -> View:
    """The same servers, none of which was ever asked."""
    catalog = Catalog.of(ServerPart(name) for name in view.catalog.parts)
    return View(view.settings, catalog, partial(build_searcher, catalog, view.settings.search))
