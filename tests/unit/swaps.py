"""What servers tell, and a view to tell it to, for the tests of swapping."""

from __future__ import annotations

from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.current import CurrentView
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.events import EventBus
from discovery_engine.refresh import Told
from discovery_engine.registry.memory import MemoryStore
from discovery_engine.registry.store import Store
from discovery_engine.upstream.connection import connection_fingerprint
from discovery_engine.upstream.listing import Listing
from discovery_engine.view import View
from tests.factories import make_definition


def lists(server: ServerSettings, *names: str, at: float = 1.0) -> Told:
    tools = tuple(make_definition(name) for name in names)
    return Told(server, Listing(tools, connection=connection_fingerprint(server)), at)


def fails(server: ServerSettings, *, at: float = 2.0) -> Told:
    return Told(server, UnavailableError(server.name, FailureKind.REFUSED, "refused"), at)


async def current_view(
    settings: Settings, store: Store | None = None, events: EventBus | None = None
) -> CurrentView:
    current = CurrentView(store or MemoryStore(), events or EventBus())
    await current.recall(settings)
    return current


def found(view: View, word: str) -> set[str]:
    """The tools called so that a search finds."""
    hits = view.searcher.search(word, limit=50, accepts=lambda _: True)
    return {str(h.entry.key) for h in hits if h.entry.tool.name == word}
