"""Which lists a client is notified of."""

from __future__ import annotations

from typing import Any

import pytest

from discovery_engine.catalog import Catalog, OfferingEntry
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.config.settings import Settings
from discovery_engine.rules.rule import Verdict
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_server.client_notifications import ListSource
from tests.factories import make_catalog, make_entry, make_part
from tests.rows import rows

META, DIRECT = ServeSettings(), ServeSettings(mode="direct")


def catalog(*tools: str, **offerings: Any) -> Catalog:
    entries = [make_entry(name.lstrip("-"), enabled=name[0] != "-") for name in tools]
    offered = tuple(
        OfferingEntry(Offering.from_mcp(part.server, kind, {kind.wire.identifier: one}), Verdict())
        for part in [make_part()]
        for kind, one in ((OfferingKind(kind), one) for kind, one in offerings.items())
    )
    return make_catalog(make_part("github", *entries, offerings=offered))


def source(catalog: Catalog, server: ServeSettings) -> ListSource:
    return ListSource(catalog, Settings(server=server))


@pytest.mark.requirement("NTF-1", "VIEW-8")
@rows(
    ("before", "now", "lists"),
    [
        (catalog("a"), catalog("a", "b"), {"tools"}),
        (catalog("a", "b"), catalog("b"), {"tools"}),
        (catalog("a"), catalog("-a"), {"tools"}),
        (catalog("a"), catalog("a", "-b"), set()),
        (catalog("-a", "b"), catalog("b"), set()),
        (catalog("a"), catalog("a"), set()),
        (catalog(), catalog(resource="a:/b"), {"resources"}),
        (catalog(template="a:/{b}"), catalog(), {"resources"}),
        (catalog(prompt="a"), catalog(prompt="b"), {"prompts"}),
    ],
)
def test_a_list_changes_with_what_is_visible(before: Catalog, now: Catalog, lists: Any) -> None:
    assert source(before, DIRECT).changed(source(now, DIRECT)) == lists
    assert source(before, META).changed(source(now, META)) == lists - {"tools"}
