"""Which typical requests a tool has, and the index that is made of them."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import SearchSettings
from discovery_engine.search.examples import pack
from discovery_engine.search.examples.book import (
    OWN_EXAMPLES,
    ExampleBook,
    WrittenBook,
    WrittenRequests,
)
from discovery_engine.search.searcher import Searcher, build_searcher
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.tools.model import AppliedOverride, ServerName
from tests.factories import make_catalog, make_part
from tests.rows import rows
from tests.unit.search.examples.pack_tools import definitions_of, listed

SHIPPED = ExampleBook()


def git(**own: tuple[str, ...]) -> Catalog:
    tools = [
        replace(tool, overridden=AppliedOverride(examples=own.get(tool.name, ()), by=(0,)))
        if tool.name in own
        else tool
        for tool in listed(definitions_of("git"), "versions")
    ]
    return make_catalog(make_part("versions", *tools))


def searcher_of(catalog: Catalog, book: ExampleBook, previous: Searcher | None = None) -> Searcher:
    return build_searcher(catalog, SearchSettings(), book=book, previous=previous)


def dumped(searcher: Searcher) -> bytes:
    assert searcher.is_storable
    return searcher.dump()


def written(tool: str, *requests: str) -> WrittenRequests:
    [entry] = [one for one in git().part(ServerName("versions")).entries if one.tool.name == tool]
    return WrittenRequests("versions", tool, entry.tool.fingerprint, requests, "m", 1, 1.0)


def stored(*kept: WrittenRequests) -> MemoryRegistry:
    registry = MemoryRegistry()
    if kept:
        registry.save_requests(kept)
    return registry


def book_of(registry: MemoryRegistry) -> ExampleBook:
    mark = registry.requests_mark()
    return ExampleBook(False, WrittenBook(mark, lambda: nullcontext(registry)) if mark else None)


@pytest.mark.requirement("ENR-3", "REL-42")
@rows("book", [SHIPPED, OWN_EXAMPLES])
def test_an_index_that_is_updated_to_another_book_is_as_one_made_with_it(
    book: ExampleBook,
) -> None:
    other = OWN_EXAMPLES if book is SHIPPED else SHIPPED
    updated = searcher_of(git(), book, previous=searcher_of(git(), other))

    assert dumped(updated) == dumped(searcher_of(git(), book))


@pytest.mark.requirement("ENR-24", "REL-44")
def test_an_index_of_requests_that_were_written_after_its_mark_is_not_stored() -> None:
    registry = stored(written("git_status", "sniff sniff"))
    book = book_of(registry)
    registry.save_requests([written("git_diff", "taste buds")])

    assert not searcher_of(git(), book).is_storable


@pytest.mark.requirement("ENR-3")
@given(seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_a_pack_with_changed_bytes_is_at_worst_none(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance, data = random.Random(seed), bytearray(pack.FILE.read_bytes())
    for _ in range(200):
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
    file = tmp_path_factory.mktemp("pack") / "changed.zip"
    file.write_bytes(data)
    tools = listed(definitions_of("git"))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pack, "shipped_pack", lambda: pack.opened(file))
        found = SHIPPED.of_tools(tools)

    assert all(len(examples.texts) == 6 for examples in found.values())
