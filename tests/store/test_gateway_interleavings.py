"""Gateways of one registry, whatever the order of events: none serves what another holds back.

The steps of a schedule are done one after the other, with the real feed of changes of each gateway
behind a gate, so that a schedule decides what has been noticed where. What may be served is read
of the database alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.engine import Engine
from discovery_engine.engine.maintenance import _follow_decisions
from discovery_engine.errors import DiscoveryError
from discovery_engine.rules.rule import FOR_REVIEW
from discovery_engine.store.backends import open_database
from discovery_engine.store.postgres.database_feed import newest_change
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.postgres.shared_registry import SharedRegistry
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.tool_acceptance import meaning
from tests.engines import Folder
from tests.factories import make_definition
from tests.postgres import PostgresServer
from tests.servers.programs import eventually
from tests.tcp_proxy import TcpProxy, open_proxy
from tests.told import Told

SCOPE = "name:team"
SERVER = "told"
KNOWN_AS = "registry:told"
TOOLS = ("read", "send")
_PATIENCE = 120.0
_PAUSE = 60.0  # more seconds than a database that failed is left alone

Step = tuple[str, int, int]
"""What is done, at which gateway, and with which further number."""


class Served(NamedTuple):
    """What the database says that gateways may serve."""

    is_on: bool
    held: frozenset[str]

    def forbids(self, tool: str) -> bool:
        return not self.is_on or tool in self.held

    def and_then(self, later: Served) -> Served:
        """What is forbidden by both: something else happened meanwhile."""
        names = {tool for tool in TOOLS if self.forbids(tool) and later.forbids(tool)}
        return Served(is_on=self.is_on or later.is_on, held=frozenset(names))


class Oracle:
    """The database, seen past all gateways."""

    def __init__(self, database: PostgresRegistry, told: Told) -> None:
        self._database = database
        self._told = told
        self.present: list[JSONObject] = []

    def tell(self, meanings: int) -> None:
        """Let the server list each tool with one of two meanings, or not at all."""
        chosen = zip(TOOLS, (meanings % 3, meanings // 3), strict=True)
        self.present = [make_definition(tool, f"Text {one}.") for tool, one in chosen if one]
        self._told.says(*self.present)

    @property
    def number(self) -> int:
        return self._database.newest_decision()

    def is_accepted(self, definition: JSONObject) -> bool:
        known = self._database.accepted(SCOPE, KNOWN_AS)
        return meaning(definition) in known.get(str(definition["name"]), ())

    @property
    def unaccepted(self) -> set[str]:
        """What the server lists now, and its owner has not accepted."""
        return {str(one["name"]) for one in self.present if not self.is_accepted(one)}

    def newest(self) -> object:
        return self._database.database.read(newest_change)

    def save_older(self) -> None:
        """What a slow gateway listed at first is saved only now."""
        self._database.save_parts(SCOPE, [self._first], revision=1)

    def keep_first(self) -> None:
        world = self._database.load(SCOPE)
        assert world
        self._first = world.catalog.part(ServerName(SERVER))

    def served(self) -> Served:
        world = self._database.load(SCOPE)
        parts = world.catalog.parts if world else {}
        part = parts.get(ServerName(SERVER))
        definitions = [entry.tool.definition for entry in part.entries] if part else []
        held = {str(one["name"]) for one in definitions if not self.is_accepted(one)}
        switch = self._database.switches(SCOPE).get(KNOWN_AS)
        is_approved = KNOWN_AS in self._database.approvals(SCOPE)
        is_on = is_approved and (switch is None or switch.is_wanted)
        return Served(is_on, frozenset(held))

    def expected(self) -> set[str]:
        """What all serve once the server was listed as it is now."""
        if not self.served().is_on:
            return set()
        return {str(one["name"]) for one in self.present if self.is_accepted(one)}


class GatedFeed:
    """The changes of a registry, each passed on when the gate is open."""

    def __init__(self, store: SharedRegistry, newest: Callable[[], object]) -> None:
        self._store = store
        self._gate = anyio.Event()
        self._newest = newest
        self.passed_on: object = None
        """What was newest in the database before the last change that was passed on and read."""

    def open(self) -> None:
        self._gate.set()

    def close(self) -> None:
        if self._gate.is_set():
            self._gate = anyio.Event()

    async def changes(self) -> AsyncGenerator[None]:
        async with aclosing(self._store.changes()) as changes:
            async for _ in changes:
                await self._gate.wait()
                newest = self._newest()
                yield
                self.passed_on = newest


class Gateway:
    def __init__(self, engine: Engine, proxy: TcpProxy, oracle: Oracle) -> None:
        assert isinstance(engine._core.store, SharedRegistry)
        self.engine = engine
        self.proxy = proxy
        self.feed = GatedFeed(engine._core.store, oracle.newest)
        self._oracle = oracle
        self._availability = engine._core.store.availability
        self._now = 0.0
        self._availability._clock = lambda: self._now
        self.noticed = Served(is_on=True, held=frozenset())
        """What it must not serve since it noticed what others did."""
        self.held_itself: set[str] = set()

    @property
    def serves(self) -> set[str]:
        return {str(entry.tool.name) for entry in self.engine.view.catalog.visible}

    @property
    def holds_back(self) -> set[str]:
        entries = self.engine.view.catalog.part(ServerName(SERVER)).entries
        return {str(one.tool.name) for one in entries if one.verdict.reason in FOR_REVIEW}

    def back(self) -> None:
        self.proxy.release()
        self._now += _PAUSE

    @property
    def breaks(self) -> set[str]:
        """What it serves although it must not."""
        # It may have noticed meanwhile that the owner allows it by now.
        forbidden = self.noticed.and_then(self._oracle.served()).held
        return self.serves & (forbidden | self.held_itself & self._oracle.unaccepted)

    async def notice(self, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        """Have it notice what others did; with `meanwhile`, what happens before it can answer."""
        before, own = self._oracle.served(), self.holds_back
        self.feed.open()
        if meanwhile:
            await meanwhile()
        self.back()
        after = self._oracle.served()
        # What it holds back itself no listing of another gateway releases: it may be older.
        self.noticed, self.held_itself = before.and_then(after), own
        with suppress(TimeoutError):
            await eventually(lambda: self.feed.passed_on == self._oracle.newest())
            await eventually(lambda: not self.breaks)
        self.feed.close()

    async def refresh(self) -> None:
        await self.engine.refresh([SERVER])
        # What it has listed itself is newer than what it noticed.
        accepted = {
            str(one["name"]) for one in self._oracle.present if self._oracle.is_accepted(one)
        }
        self.noticed = self.noticed._replace(held=self.noticed.held - accepted)


class World:
    def __init__(self, gateways: list[Gateway], oracle: Oracle, told: Told) -> None:
        self.gateways = gateways
        self.oracle = oracle
        self.told = told

    async def take(self, step: Step) -> None:
        kind, at, number = step
        gateway = self.gateways[at]
        # A decision without the database, or one that is none any more.
        with suppress(DiscoveryError):
            match kind:
                case "tell" | "list" | "change":
                    if kind != "list":
                        self.oracle.tell(number)
                    if kind != "tell":
                        await gateway.refresh()
                case "away" | "back":
                    for one in self.gateways if number % 2 else [gateway]:
                        one.proxy.refuse() if kind == "away" else one.back()
                case "older":
                    self.oracle.save_older()
                case "notice":
                    await gateway.notice()
                case "slow":
                    await gateway.notice(lambda: self._while_slow(gateway, number))
                case "blip":
                    gateway.proxy.after(number // 2, gateway.proxy.refuse)
                    await gateway.notice(lambda: self._until_refused(gateway))
                case _:
                    await self._decide(gateway, kind)
        self.require_kept(step)

    async def _decide(self, gateway: Gateway, kind: str) -> None:
        engine, number = gateway.engine, self.oracle.number
        match kind:
            case "accept":
                await engine.review.accept(await engine.review.changes(only_listed=True))
            case "decline":  # to look and not to accept leaves it held back
                await engine.review.changes(only_listed=True)
            case "on":
                await engine.servers.enable(SERVER)
            case "off":
                await engine.servers.disable(SERVER)
            case "approve":
                await engine.trust.approve(await engine.trust.candidates())
            case "revoke":
                await engine.trust.revoke([SERVER])
        if self.oracle.number != number:  # with its own decision it has those of others
            gateway.noticed = self.oracle.served()

    async def _while_slow(self, slow: Gateway, answers: int) -> None:
        """Something else happens after the slow one has got so many answers."""
        slow.proxy.after(answers, slow.proxy.hold)
        await anyio.to_thread.run_sync(lambda: None)
        other = self.gateways[(self.gateways.index(slow) + 1) % len(self.gateways)]
        await self.take(("accept" if answers % 2 else "list", self.gateways.index(other), 0))

    async def _until_refused(self, gateway: Gateway) -> None:
        # It may have nothing to read, and so nothing to lose.
        with anyio.move_on_after(1.0):
            while gateway._availability.error is None:  # noqa: ASYNC110 - set in a thread
                await anyio.sleep(0.01)

    def require_kept(self, after: object) -> None:
        broken = {at: one.breaks for at, one in enumerate(self.gateways) if one.breaks}
        assert not broken, f"after {after} served although held back, by gateway: {broken}"

    async def require_refusals(self) -> None:
        """A call of what must not be served reaches no server."""
        called = self.told.calls
        for gateway in self.gateways:
            for tool in filter(gateway.noticed.forbids, TOOLS):
                with pytest.raises(DiscoveryError):
                    await gateway.engine.execute(SERVER, tool, {})
        assert self.told.calls == called

    async def require_agreement(self) -> None:
        """After quiet, all serve the same; and what there is, once it was listed again."""
        for gateway in self.gateways:
            gateway.back()
            gateway.feed.open()
        await self._until(lambda: self.gateways[0].serves)
        with suppress(DiscoveryError):
            await self.gateways[0].engine.refresh([SERVER])
        await self._until(self.oracle.expected)

    async def _until(self, expected: Callable[[], set[str]]) -> None:
        with suppress(TimeoutError):
            await eventually(lambda: all(one.serves == expected() for one in self.gateways))
        assert [one.serves for one in self.gateways] == [expected()] * len(self.gateways)


@asynccontextmanager
async def open_world(server: PostgresServer, count: int, folder: Path) -> AsyncIterator[World]:
    """Gateways on so many machines, with one registered server that all have listed."""
    name = server.create_database().rpartition("/")[2]
    told = Told.beside(folder, make_definition("read"))
    async with AsyncExitStack() as stack:
        oracle = Oracle(stack.enter_context(closing(open_database(server.url(name)))), told)
        oracle.tell(1 + 3)
        gateways = []
        for number in range(count):
            machine = Folder(folder / str(number))
            machine.path.mkdir()
            proxy = stack.enter_context(open_proxy(server.port))
            database = {"url": "${DATABASE_URL}", "timeout": 5}
            machine.write(registry=database, name="team", cache={"ttl": 600_000})
            environ = {**os.environ, "DATABASE_URL": server.url(name, port=proxy.port)}
            engine = await stack.enter_async_context(machine.open(environ=environ))
            gateways.append(Gateway(engine, proxy, oracle))
        command, *args = told.command
        first = gateways[0].engine
        await first.servers.add(SERVER, {"command": command, "args": args}, to="registry")
        await first.refresh()
        tasks = await stack.enter_async_context(open_task_group())
        for one in gateways:
            tasks.start_soon(_follow_decisions, one.engine, one.feed.changes)
            one.feed.open()
        await eventually(lambda: all(one.serves == set(TOOLS) for one in gateways))
        for one in gateways:
            one.feed.close()
        oracle.keep_first()
        yield World(gateways, oracle, told)
        tasks.cancel_scope.cancel()


def schedules() -> st.SearchStrategy[list[Step]]:
    # Most of what happens is that something changes and that somebody notices.
    kinds = [
        *("change", "notice", "slow", "blip") * 4,
        *("tell", "list", "older", "accept", "on", "off", "approve", "revoke", "away", "back") * 2,
        "decline",
    ]
    step = st.tuples(st.sampled_from(kinds), st.integers(0, 2), st.integers(0, 8))
    return st.lists(step, min_size=4, max_size=14)


async def run(server: PostgresServer, schedule: list[Step], count: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="discovery-interleavings-"))
    try:
        with anyio.fail_after(_PATIENCE * 5):
            async with open_world(server, count, folder) as world:
                for kind, at, number in schedule:
                    await world.take((kind, at % count, number))
                await world.require_refusals()
                await world.require_agreement()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.requirement("PGS-21", "FLT-30")
@example([("change", 0, 2 + 3), ("notice", 1, 0), ("older", 0, 0), ("notice", 1, 0)], 2)
@example([("tell", 0, 2 + 3), ("list", 0, 0), ("notice", 1, 0)], 2)
@example([("tell", 0, 2 + 3), ("list", 0, 0), ("blip", 1, 3), ("list", 2, 0)], 3)
@example([("off", 0, 0), ("blip", 1, 2), ("on", 0, 0), ("slow", 1, 1), ("revoke", 1, 0)], 2)
@given(schedules(), st.integers(2, 3))
@settings(max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_no_gateway_serves_what_another_holds_back_in_any_order_of_events(
    postgres_server: PostgresServer, schedule: list[Step], count: int
) -> None:
    anyio.run(run, postgres_server, schedule, count)
