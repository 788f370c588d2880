"""Swaps of the view in any order, beside a plain model of what must come of them."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.catalog import ServerPart
from discovery_engine.config.files.location import scope_of
from discovery_engine.config.settings import ServerSettings, Settings, StdioTransport
from discovery_engine.engine.catalog_state import CatalogState
from discovery_engine.rules.rule import Rule
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.store.registry import Registry
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.model import ServerName
from tests.factories import make_server, tool_names
from tests.kinds import thinned
from tests.unit.swaps import current_view, fails, found, lists

T = TypeVar("T")

NO_DELETING = (Rule(patterns=("*delete*",), enabled=False),)


class Known(Struct):
    """What the model expects of one server."""

    server: ServerSettings
    tools: set[str] = field(default_factory=set)
    has_listed: bool = False
    has_failed: bool = False


SERVERS = st.sampled_from("abc")
WAYS = st.sampled_from(["one-program", "another-program"])
TOOLS = st.sets(st.sampled_from(["read", "write", "delete"]))
CONFIGURATIONS = st.builds(
    Settings,
    servers=st.dictionaries(
        SERVERS, st.tuples(WAYS, st.sampled_from(["", "my_"]), st.booleans()), max_size=3
    ).map(
        lambda chosen: tuple(
            make_server(name, transport=StdioTransport(way), prefix=prefix, enabled=enabled)
            for name, (way, prefix, enabled) in chosen.items()
        )
    ),
    tool_rules=st.sampled_from([(), NO_DELETING]),
    path=st.sampled_from([None, "/one/discovery.yaml", "/two/discovery.yaml"]),
)


class Swaps(RuleBasedStateMachine):
    """Whatever happens in whatever order, view, searcher, registry and a plain model agree."""

    def make_store(self) -> Registry:
        return MemoryRegistry()

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal())
        self.store = self.make_store()
        self.model: dict[str, Known] = {}

    def run(self, work: Callable[..., Awaitable[T]], *args: object) -> T:
        return self.portal.call(work, *args)

    @initialize(settings=CONFIGURATIONS)
    def start(self, settings: Settings) -> None:
        self.current: CatalogState = self.run(current_view, settings, self.store)
        self.model = {server.name: Known(server) for server in settings.servers}

    @rule(settings=CONFIGURATIONS)
    def adopt(self, settings: Settings) -> None:
        self.run(self.current.apply_settings, settings)
        before, self.model = self.model, {}
        for server in settings.servers:
            known = before.get(server.name)
            is_same = known is not None and known.server.transport == server.transport
            self.model[server.name] = (
                replace(known, server=server) if known and is_same else Known(server)
            )

    @rule(name=SERVERS, way=WAYS, tools=TOOLS)
    def listing_arrives(self, name: str, way: str, tools: set[str]) -> None:
        asked = make_server(name, transport=StdioTransport(way))
        is_busy = self.run(self.current.apply_listing, lists(asked, *tools))
        if known := self._reached(asked, is_busy):
            self.model[name] = Known(known.server, tools, has_listed=True)

    @rule(name=SERVERS, way=WAYS)
    def failure_arrives(self, name: str, way: str) -> None:
        asked = make_server(name, transport=StdioTransport(way))
        is_busy = self.run(self.current.apply_listing, fails(asked))
        if known := self._reached(asked, is_busy):
            known.has_failed = True

    @rule(names=st.none() | st.sets(SERVERS))
    def forget(self, names: set[str] | None) -> None:
        chosen = [k for n, k in self.model.items() if names is None or n in names]

        count = self.run(self.current.forget, names)

        assert count == sum(len(known.tools) for known in chosen)
        for known in chosen:
            self.model[known.server.name] = Known(known.server)

    @rule()
    def restart(self) -> None:
        settings = self.current.view.settings
        self.current = self.run(current_view, settings, self.store)

    def _reached(self, asked: ServerSettings, is_busy: bool) -> Known | None:
        known = self.model.get(asked.name)
        is_reached = known is not None and known.server.transport == asked.transport
        assert is_busy is is_reached
        return known if is_reached else None

    @invariant()
    def view_is_as_expected(self) -> None:
        parts = self.current.view.catalog.parts
        assert sorted(parts) == sorted(self.model)
        for name, known in self.model.items():
            part = parts[ServerName(name)]
            prefix = known.server.prefix
            assert tool_names(part.entries) == sorted(prefix + tool for tool in known.tools)
            assert (part.listed_at is not None) == known.has_listed
            assert (part.failure is not None) == known.has_failed
            assert part.is_stale == (known.has_listed and known.has_failed)

    @invariant()
    def verdicts_are_those_of_the_rules(self) -> None:
        settings = self.current.view.settings
        for entry in self.current.view.catalog:
            is_denied = bool(settings.tool_rules) and entry.tool.upstream_name == "delete"
            is_on = self.model[entry.tool.server].server.enabled
            assert entry.verdict.enabled == (is_on and not is_denied)

    @invariant()
    def searcher_finds_what_the_catalog_holds_and_nothing_else(self) -> None:
        view = self.current.view
        for word in ("read", "my_write", "delete"):
            assert found(view, word) == {
                str(entry.key) for entry in view.catalog if entry.tool.name == word
            }

    @invariant()
    def registry_remembers_the_same(self) -> None:
        view = self.current.view
        world = self.store.load(scope_of(view.settings.path))
        assert world is not None
        assert {name: part for name, part in world.catalog.parts.items() if _says(part)} == {
            name: part for name, part in view.catalog.parts.items() if _says(part)
        }

    def teardown(self) -> None:
        self.store.close()
        self.stack.close()


class SqliteSwaps(Swaps):
    def make_store(self) -> Registry:
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        return open_sqlite(Path(folder) / "registry.db")


def _says(part: ServerPart) -> bool:
    return part.listed_at is not None or part.failure is not None


@pytest.mark.requirement("CAT-14")
@pytest.mark.parametrize(
    ("machine", "examples"), thinned([(SqliteSwaps, 10), pytest.param(Swaps, 40, id="memory")])
)
def test_view_searcher_registry_and_model_agree(machine: type[Swaps], examples: int) -> None:
    case = machine.TestCase
    case.settings = hypothesis_settings(
        max_examples=examples, stateful_step_count=15, deadline=None
    )
    case().runTest()
