"""Changes of the catalog as changes of the lists that clients have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine.events import CatalogChanged, OfferingsChanged
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.events import Event
    from discovery_server.subscriptions import ListKind, Subscriptions

_LIST_OF: Mapping[OfferingKind, ListKind] = {
    OfferingKind.RESOURCE: "resources",
    OfferingKind.TEMPLATE: "resources",
    OfferingKind.PROMPT: "prompts",
}


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
