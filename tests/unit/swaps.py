"""What servers tell, a view to tell it to, and a registry that can be held up meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import anyio
import anyio.to_thread

from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.engine.catalog_state import CatalogState
from discovery_engine.engine.ingestion.server_parts import ListingResult
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.events import EventBus
from discovery_engine.search.usage import UseCount
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.store.registry import Registry
from discovery_engine.tools.model import ToolKey
from discovery_engine.upstream.connection import connection_fingerprint
from discovery_engine.upstream.listing import Listing
from discovery_engine.view.view import View
from tests.factories import make_definition
from tests.servers.programs import eventually


def lists(server: ServerSettings, *names: str, at: float = 1.0) -> ListingResult:
    tools = tuple(make_definition(name) for name in names)
    return ListingResult(server, Listing(tools, connection=connection_fingerprint(server)), at)


def fails(server: ServerSettings, *, at: float = 2.0) -> ListingResult:
    return ListingResult(server, UnavailableError(server.name, FailureKind.REFUSED, "refused"), at)


async def current_view(
    settings: Settings, store: Registry | None = None, events: EventBus | None = None
) -> CatalogState:
    current = CatalogState(store or MemoryRegistry(), events or EventBus())
    await current.restore(settings)
    return current


def found(view: View, word: str) -> set[str]:
    """The tools called so that a search finds."""
    searcher = view.searcher
    hits = searcher.search(searcher.analyze(word), limit=50, accepts=lambda _: True)
    return {str(h.entry.key) for h in hits if h.entry.tool.name == word}


class HeldStore(MemoryRegistry):
    """A registry whose writes, and reads of uses, take as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self._is_let = {name: threading.Event() for name in ("accept", "save_parts", "uses")}
        self._is_asked = {name: threading.Event() for name in self._is_let}
        for free in self._is_let.values():
            free.set()

    def hold(self, write: str = "save_parts") -> None:
        self._is_let[write].clear()
        self._is_asked[write].clear()

    def release(self, write: str = "save_parts") -> None:
        self._is_let[write].set()

    def let_others(self, write: str = "save_parts") -> threading.Event:
        """Hold only those that are held by now, until the event that is returned is set."""
        held, self._is_let[write] = self._is_let[write], threading.Event()
        self._is_let[write].set()
        return held

    async def is_held(self, write: str = "save_parts") -> None:
        asked = self._is_asked[write]
        with anyio.fail_after(60):
            await anyio.to_thread.run_sync(asked.wait, abandon_on_cancel=True)

    def save_parts(
        self, scope: str, parts: object, *, revision: int, decided: int | None = None, **other: bool
    ) -> None:
        self._wait("save_parts")
        super().save_parts(scope, parts, revision=revision, decided=decided, **other)  # type: ignore[arg-type]

    def accept(self, scope: str, found: object, *, at: float, if_new: bool = False) -> int:
        self._wait("accept")
        return super().accept(scope, found, at=at, if_new=if_new)  # type: ignore[arg-type]

    def uses(self, scope: str) -> Mapping[ToolKey, UseCount]:
        read = super().uses(scope)
        self._wait("uses")
        return read

    def _wait(self, write: str) -> None:
        self._is_asked[write].set()
        self._is_let[write].wait(20)


async def everybody_waits() -> None:
    """Until every task waits for the one whose write is held, and no thread does other work."""
    threads = anyio.to_thread.current_default_thread_limiter()
    await anyio.wait_all_tasks_blocked()
    await eventually(lambda: threads.borrowed_tokens == 1)
