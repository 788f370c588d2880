"""Changes of the catalog as changes of the lists that clients have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from discovery_engine._util.tasks import open_task_group
from discovery_engine.events import CatalogChanged, OfferingsChanged
from discovery_engine.tools.offering import OfferingKind
from discovery_server.resource_feed import EngineFeed
from discovery_server.subscriptions import ListKind, Subscriptions

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.events import Event

_OFFERINGS: frozenset[ListKind] = frozenset({"prompts", "resources"})
_ALL: frozenset[ListKind] = _OFFERINGS | {"tools"}
_CHANGING: Mapping[str, frozenset[ListKind]] = {"meta": _OFFERINGS, "direct": _ALL, "dynamic": _ALL}
"""The lists that can change, by `server.mode`: the meta-tools are always the same."""
_LIST_OF: Mapping[OfferingKind, ListKind] = {
    OfferingKind.RESOURCE: "resources",
    OfferingKind.TEMPLATE: "resources",
    OfferingKind.PROMPT: "prompts",
}


@asynccontextmanager
async def open_subscriptions(engine: Engine) -> AsyncIterator[Subscriptions]:
    """The subscriptions of clients, which are notified of changed lists and updated resources."""
    feed = EngineFeed(engine)
    settings = engine.settings
    modes = {settings.server.mode, *(view.mode or "meta" for view in settings.views)}
    changing = frozenset[ListKind]().union(*(_CHANGING[mode] for mode in modes))
    subscriptions = Subscriptions(changing=changing, feed=feed)
    async with open_task_group() as tasks:
        tasks.start_soon(follow_list_changes, engine, subscriptions)
        tasks.start_soon(feed.follow, subscriptions)
        yield subscriptions
        tasks.cancel_scope.cancel()


async def follow_list_changes(engine: Engine, subscriptions: Subscriptions) -> None:
    """Notify clients of each change of the catalog, until cancelled."""
    with engine.subscribe(CatalogChanged, OfferingsChanged) as changes:
        async for change in changes:
            for kind in changed_lists(change):
                subscriptions.list_changed(kind)


def changed_lists(event: Event) -> frozenset[ListKind]:
    """The lists that an event has changed."""
    match event:
        case CatalogChanged():
            return frozenset({"tools"})
        case OfferingsChanged(kinds):
            return frozenset(_LIST_OF[kind] for kind in kinds)
    return frozenset()
