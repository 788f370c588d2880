from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.events import CatalogChanged, OfferingsChanged, ServerConnecting
from discovery_engine.tools.model import ServerName
from discovery_engine.tools.offering import OfferingKind
from discovery_server.list_changes import changed_lists

RESOURCE, TEMPLATE, PROMPT = OfferingKind


@pytest.mark.requirement("NTF-1")
@pytest.mark.parametrize(
    ("event", "lists"),
    [
        (CatalogChanged(2, 1, 0, 0), {"tools"}),
        (OfferingsChanged(frozenset({RESOURCE})), {"resources"}),
        (OfferingsChanged(frozenset({TEMPLATE})), {"resources"}),
        (OfferingsChanged(frozenset({PROMPT, TEMPLATE})), {"prompts", "resources"}),
        (ServerConnecting(ServerName("a")), set()),
    ],
)
def test_each_change_of_the_catalog_is_one_of_certain_lists(event: Any, lists: Any) -> None:
    assert changed_lists(event) == lists
