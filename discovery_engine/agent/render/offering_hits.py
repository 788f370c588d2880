"""Lines of resources and prompts that a search found, with how each is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from discovery_engine._util.text import clean, named, one_line
from discovery_engine.agent.budget import Item
from discovery_engine.agent.render.result import line_variant
from discovery_engine.tools.offering import OfferingKind

if TYPE_CHECKING:
    from discovery_engine.view.search_answers import OfferingHit

_USES = {
    OfferingKind.RESOURCE: "resources/read",
    OfferingKind.TEMPLATE: "resources/read",
    OfferingKind.PROMPT: "prompts/get",
}


def offering_items(hits: Sequence[OfferingHit]) -> list[Item]:
    """Items for a plan, weighed as hits of tools are."""
    return [_item(hit, rank) for rank, hit in enumerate(hits, start=1)]


def _item(hit: OfferingHit, rank: int) -> Item:
    offering = hit.entry.offering
    head = f"{offering.kind.label} {_address(hit)}"
    use = f"{head} ({_USES[offering.kind]})"
    about = one_line(offering.summary or offering.name)
    whole = f"{use} - {about}" if about else use
    variants = (line_variant(head, 0.4), line_variant(use, 0.6), line_variant(whole, 1.0))
    return Item(hit.relevance / rank, variants)


def _address(hit: OfferingHit) -> str:
    """The address, in quotes if it has blanks; of a prompt with its arguments."""
    address = clean(hit.address, newlines=False)
    shown = repr(address) if any(map(str.isspace, address)) else address
    if hit.entry.offering.kind is not OfferingKind.PROMPT:
        return shown
    given = (named(p.name) + ("" if p.required else "?") for p in hit.entry.offering.parameters)
    return f"{shown}({', '.join(given)})"
