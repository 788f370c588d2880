"""Resources and prompts are found by `search_tools` when asked for, and never otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.agent.token_estimate import estimated_tokens
from discovery_engine.catalog import OfferingEntry
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.view import View
from tests.factories import (
    make_catalog,
    make_entry,
    make_offering_entry,
    make_part,
    make_server,
    make_settings,
)
from tests.rows import rows
from tests.unit.server.fakes import FakeEngine

pytestmark = pytest.mark.anyio

CODE = {"arguments": [{"name": "code", "required": True}, {"name": "style"}]}
OFFERED = (
    make_offering_entry(
        "file:///handbook", name="handbook", description="The staff handbook on travel expenses."
    ),
    make_offering_entry(
        "log:///{day}", kind=OfferingKind.TEMPLATE, name="logs", description="Log of one day."
    ),
    make_offering_entry(
        "review", kind=OfferingKind.PROMPT, description="Review source code for errors.", **CODE
    ),
    make_offering_entry("x:/hidden", enabled=False, name="travel secrets"),
)


def view(*offerings: OfferingEntry) -> View:
    tools = [make_entry("book_flight", "docs", description="Book a flight for business travel.")]
    catalog = make_catalog(make_part("docs", *tools, offerings=offerings))
    settings = make_settings(make_server("docs"))
    return View(settings, catalog, lambda: build_searcher(catalog, settings.search))


async def found(seen: View, **arguments: Any) -> tuple[str, list[str]]:
    """The text of an answer, and the addresses in its fields."""
    engine: Any = FakeEngine(seen)
    result = await call(engine, META_TOOLS["search_tools"], arguments, Caller())
    fields = next(iter(result["_meta"].values()))
    return result["content"][0]["text"], [one["address"] for one in fields.get("offerings", ())]


@pytest.mark.requirement("RES-50")
async def test_what_is_found_is_shown_with_its_use() -> None:
    seen = view(*OFFERED)

    text, addresses = await found(seen, query="travel expenses", kinds=["resource"])
    assert text == (
        "resource file:///handbook (resources/read) - The staff handbook on travel expenses."
    )
    assert addresses == ["file:///handbook"]
    text, _ = await found(seen, query="review code", kinds=["prompt"])
    assert text == "prompt review(code, style?) (prompts/get) - Review source code for errors."
    text, _ = await found(seen, query="log of a day", kinds=["resource", "prompt"])
    assert text.startswith("resource template log:///{day} (resources/read)")
    text, addresses = await found(seen, query="travel", kinds=["tool", "resource"])
    assert "docs:book_flight" in text
    assert addresses == ["file:///handbook"]


@pytest.mark.requirement("RES-50")
async def test_a_wrong_kind_is_an_error() -> None:
    text, _ = await found(view(*OFFERED), query="x", kinds=["file"])

    assert text.startswith("VALIDATION_ERROR: kinds: file is none of tool, resource, prompt")


@pytest.mark.requirement("RES-51")
@rows("query", ["travel", "review code", "log", "x:/hidden", "secrets"])
async def test_tools_are_found_as_without_any_resource(query: str) -> None:
    with_others = await found(view(*OFFERED), query=query)
    only_tools = await found(view(*OFFERED), query=query, kinds=["tool"])

    assert with_others == only_tools == await found(view(), query=query)


@pytest.mark.requirement("RES-50")
async def test_the_text_keeps_its_budget() -> None:
    many = [
        make_offering_entry(f"x:/{n}", name=f"report {n}", description="A report. " * 30)
        for n in range(50)
    ]
    text, addresses = await found(
        view(*many), query="report", kinds=["resource"], maxTokens=80, limit=40
    )

    assert estimated_tokens(text) <= 80
    assert "more: raise maxTokens" in text
    assert len(addresses) == 40


WORDS = st.sampled_from(["travel", "code", "review", "log", "secret", "report", "day"])


@pytest.mark.requirement("RES-34")
@given(
    st.lists(st.tuples(WORDS, st.booleans(), st.sampled_from(OfferingKind)), max_size=8),
    st.lists(WORDS, min_size=1, max_size=3),
)
def test_no_search_finds_what_is_hidden(
    offered: list[tuple[str, bool, OfferingKind]], words: list[str]
) -> None:
    entries = [
        make_offering_entry(f"x:/{n}", kind=kind, enabled=enabled, name=f"{word} {n}")
        for n, (word, enabled, kind) in enumerate(offered)
    ]
    seen = view(*entries)
    hits = seen.search_offerings(" ".join(words), ("resource", "prompt"), limit=50)
    names = seen.search_offerings(" ".join(words), ("prompt",), limit=50)

    assert all(hit.entry.is_visible for hit in hits)
    assert all(hit.entry.offering.kind is OfferingKind.PROMPT for hit in names)
